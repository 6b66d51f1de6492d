// The pool on one screen: workers, jobs, and the ranks of all jobs, with those
// first that the others wait for.
//
// Pure: figures and time come in, text goes out.
#ifndef RINGMASTER_SERVER_CTL_RENDER_TOP_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_TOP_VIEW_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// A rank's time in its generation so far, or between two statuses.
struct RankLoad {
  const v1::Job* job = nullptr;        // in the status that it is of
  const v1::Member* member = nullptr;  // likewise
  // Share of its steps' time that it waited for communication, 0 to 1; negative:
  // not known, since it has made no step.
  double wait_ratio = -1;
  // By how much the mean of the job's other ranks waited longer, 0 to 1: where
  // all meet in every step, that is what they waited for this one.
  double holds_up_ratio = 0;
};

// The ranks of all active jobs in `now`, those that hold up others most first,
// then by job and rank. `before`, an earlier status (may be empty), is what
// figures are measured since, where the rank is in the same generation.
[[nodiscard]] std::vector<RankLoad> RankLoads(const v1::Status& now,
                                              const v1::Status& before);

// The screen: never more lines than the style's height less one, and none wider
// than its width. `notice` says why figures do not move; empty if they do.
[[nodiscard]] std::vector<std::string> TopLines(const v1::Status& status,
                                                const v1::Status& before,
                                                const std::string& notice,
                                                absl::Time now,
                                                const Style& style);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_TOP_VIEW_H_
