// History keeps the curves of the jobs that the status shows, made from one status
// after another: a status alone tells only the present figures.
//
// Bounded: at most kMaxJobs jobs, of which those that were quiet longest go, and
// Curve's bound for each curve. A job that the status no longer shows is forgotten.
// Pure. Thread-compatible.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_HISTORY_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/page_history.pb.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/coordinator/page/curve.h"

namespace ringmaster::coordinator {

struct JobCurves {
  Curve loss;                // of the step
  Curve evaluation_loss;     // of the held-out part
  Curve samples_per_second;  // pace
  Curve exposed_ratio;  // share of the step spent waiting for communication
  // Added last.
  int64_t step = 0;
  int64_t evaluation_step = 0;
  int64_t time_ms = 0;
};

class History {
 public:
  static constexpr size_t kMaxJobs = 64;

  History() = default;
  // Goes on from what ToProto has returned.
  explicit History(const v1::PageHistory& from);

  // Adds the figures of each job that has made a step since the last status.
  void Take(const v1::Status& status);

  // Null: nothing is known of the job. Valid until the next Take.
  [[nodiscard]] const JobCurves* Find(std::string_view job_id) const;

  [[nodiscard]] size_t size() const { return jobs_.size(); }

  // Rises with each point that is added.
  [[nodiscard]] int64_t revision() const { return revision_; }

  [[nodiscard]] v1::PageHistory ToProto() const;

 private:
  void Add(const v1::Job& job, int64_t time_ms);
  void ForgetQuietest();

  std::map<std::string, JobCurves, std::less<>> jobs_;  // by id
  int64_t revision_ = 0;
};

// {"loss": [[TIME_MS, STEP, VALUE], ...], "evaluation_loss": ..., ...}, each curve by
// the name of its figure. Null: curves without points.
[[nodiscard]] std::string CurvesJson(const JobCurves* curves);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_HISTORY_H_
