// The cost of faults to a job, and what it waits for, as text.
//
// Pure. Lines have no newlines.
#ifndef RINGMASTER_SERVER_CTL_RENDER_RECOVERY_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_RECOVERY_VIEW_H_

#include <string>
#include <vector>

#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/job_service.pb.h"
#include "ringmaster/v1/verdict.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// "recovery: 391ms (detect 300ms, halt 11ms, connect 30ms, first step 50ms), 3
// -> 2 ranks, after step 13; interruption 1"; "so far" while it lasts.
[[nodiscard]] std::string RecoveryLine(const v1::Incident& incident);

// "held up:  rank 2 had not entered ...": a line for each rank that others waited
// for in collectives.
[[nodiscard]] std::vector<std::string> HoldUpLines(
    const v1::Incident& incident);

// "goodput:  97% of the time since the first step (training 59m, detecting
// 1.2s, recovering 3.0s); 2 interruptions". Empty parts are left out.
[[nodiscard]] std::string GoodputLine(const v1::Goodput& goodput);

// Says where the job stands, why, who keeps it waiting (a row each), what
// unblocks it, and what its last interruption cost; wrapped to the style's
// width.
[[nodiscard]] std::vector<std::string> ExplainLines(
    const v1::ExplainJobResponse& explanation, const Style& style);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_RECOVERY_VIEW_H_
