// RunObserver builds a RunResult from the coordinator's reports on a running
// job.
//
// Ranks report sums since their generation began; the first tenth of the steps,
// at least two, is left out, so that a rank's figures are the difference of two
// reports. Thread-compatible; pure: time is an argument.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_OBSERVER_H_
#define RINGMASTER_SERVER_CTL_COMPARE_OBSERVER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "server/ctl/compare/result.h"

namespace ringmaster {

namespace v1 {
class Job;
class Member;
class RankFigures;
}  // namespace v1

namespace ctl {

class RunObserver {
 public:
  // Completes `planned` with the job's own figures.
  explicit RunObserver(RunResult planned);

  // The job as of `now`, in seconds since any fixed moment.
  void Take(const v1::Job& job, double now);

  // Returns the result so far. If no step was measured, it has a failure in any
  // case.
  [[nodiscard]] RunResult Finish() const;

 private:
  struct Sums {
    int64_t steps = 0;
    double duration = 0;
    double forward = 0;
    double backward = 0;
    double update = 0;
    double data = 0;
    double exposed = 0;
    double sent = 0;
    double received = 0;
    double cpu = 0;
    double peak_resident = 0;
  };
  struct Seen {
    std::optional<Sums> base;  // after the steps that are left out
    Sums last;
  };

  static Sums SumsOf(const v1::RankFigures& figures);
  void TakeLoss(const v1::Job& job, double now);
  void TakeMember(const v1::Member& member);
  [[nodiscard]] RankResult RankOf(int rank, const Seen& seen) const;
  static void SplitStep(RunResult& run);
  // Returns why the run was not in its mode; "" if it was.
  static std::string WrongMode(const RunResult& run);

  RunResult run_;
  const int64_t skipped_steps_;
  std::optional<double> first_seen_;
  int64_t loss_step_ = 0;
  int64_t generation_ = 0;
  std::map<int, Seen> seen_;  // by rank
};

}  // namespace ctl
}  // namespace ringmaster

#endif  // RINGMASTER_SERVER_CTL_COMPARE_OBSERVER_H_
