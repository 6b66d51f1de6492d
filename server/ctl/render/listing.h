// The coordinator's knowledge, as text: the whole of it, a job, workers,
// events.
//
// Pure: `now` is a parameter. Each returns lines without newlines.
#ifndef RINGMASTER_SERVER_CTL_RENDER_LISTING_H_
#define RINGMASTER_SERVER_CTL_RENDER_LISTING_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ringmaster/v1/event.pb.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/status_service.pb.h"
#include "ringmaster/v1/worker.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// The coordinator, a count of its workers, and those that jobs may not take.
[[nodiscard]] std::vector<std::string> PoolLines(const v1::Status& status,
                                                 absl::Time now,
                                                 const Style& style);

// The same, and its jobs.
[[nodiscard]] std::vector<std::string> StatusLines(const v1::Status& status,
                                                   absl::Time now,
                                                   const Style& style);

// One job in full: state, figures, members, program, last verdict, what its
// last interruption cost, and where its time went.
[[nodiscard]] std::vector<std::string> JobLines(const v1::Job& job,
                                                absl::Time now,
                                                const Style& style);

// The pool of workers, a row each.
[[nodiscard]] std::vector<std::string> WorkerLines(const v1::Status& status,
                                                   const Style& style);

// One event: time, severity, type, and what happened.
[[nodiscard]] std::string EventLine(const v1::Event& event, const Style& style);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_LISTING_H_
