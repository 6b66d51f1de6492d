// A verdict for people: who, where, why, on whose evidence, and what was
// decided.
//
// Pure.
#ifndef RINGMASTER_SERVER_CTL_RENDER_VERDICT_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_VERDICT_VIEW_H_

#include <string>
#include <vector>

#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/verdict.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// "incident: worker w-1, rank 1, host beta, pid 42: its stream broke; the job
// goes on without it".
[[nodiscard]] std::string IncidentLine(const v1::Verdict& verdict,
                                       const Style& style);

// The verdict of `job`, a line each part, without what the reader has been `told`. Its
// step is as old as the culprit's last sign of life, which the incident knows.
[[nodiscard]] std::vector<std::string> VerdictLines(const v1::Job& job,
                                                    std::string told,
                                                    const Style& style);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_VERDICT_VIEW_H_
