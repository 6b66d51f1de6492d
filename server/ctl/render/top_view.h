// The pool on one screen: workers, jobs, and the ranks of all jobs, with those
// first that the others wait for.
//
// Pure: figures and time come in, text goes out.
#ifndef RINGMASTER_SERVER_CTL_RENDER_TOP_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_TOP_VIEW_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// The time of a rank's steps in its generation so far.
struct StepTime {
  absl::Duration whole;
  absl::Duration waiting;
};

// RankTimes keeps the last two different times of each rank: a rank makes fewer
// steps than there are screens if they are long.
class RankTimes {
 public:
  struct Times {
    StepTime last;
    // Less than `last` in `whole`.
    std::optional<StepTime> earlier = std::nullopt;
  };

  // Forgets ranks and generations that are not in `status`.
  void Add(const v1::Status& status);
  // Returns the times of a rank that Add has seen; of another one, that of
  // `member`.
  Times Of(const v1::Job& job, const v1::Member& member) const;

 private:
  // A job's generation and rank: figures of another generation began anew.
  using Key = std::tuple<std::string, int64_t, int>;

  static Key KeyOf(const v1::Job& job, const v1::Member& member);

  std::map<Key, Times> times_;
};

// A rank's share of time in the steps between its last two different times. Of
// a job whose ranks all have but one: in its generation so far.
struct RankLoad {
  const v1::Job* job = nullptr;        // in the status that it is of
  const v1::Member* member = nullptr;  // likewise
  // Share of its steps' time that it waited for communication, 0 to 1; negative:
  // not known: it has made no step, or none since `times` began while others of
  // its job have.
  double wait_ratio = -1;
  // By how much the mean of the job's other ranks waited longer, 0 to 1: where
  // all meet in every step, that is what they waited for this one.
  double holds_up_ratio = 0;
};

// The ranks of all active jobs in `now`, those that hold up others most first,
// then by job and rank. `times` has seen `now`, and earlier ones if there were
// any.
[[nodiscard]] std::vector<RankLoad> RankLoads(const v1::Status& now,
                                              const RankTimes& times);

// The screen: never more lines than the style's height less one, and none wider
// than its width. `notice` says why figures do not move; empty if they do.
[[nodiscard]] std::vector<std::string> TopLines(const v1::Status& status,
                                                const RankTimes& times,
                                                const std::string& notice,
                                                absl::Time now,
                                                const Style& style);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_TOP_VIEW_H_
