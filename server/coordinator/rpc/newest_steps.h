// NewestSteps joins the timelines of several ranks into one answer that fits a
// message: if they are too long together, the oldest steps give way, on all
// ranks alike.
//
// Never holds more than one rank's timeline beyond the limit. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_NEWEST_STEPS_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_NEWEST_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "ringmaster/v1/job_service.pb.h"

namespace ringmaster::coordinator {

// Most bytes of spans in an answer, so that it fits a message.
inline constexpr size_t kMaxTraceBytes = 3 << 20;

class NewestSteps {
 public:
  explicit NewestSteps(size_t max_bytes = kMaxTraceBytes)
      : max_bytes_(max_bytes) {}

  void Add(v1::RankTrace trace);

  // The ranks in order, without the steps that did not fit. Call it once.
  //   RESOURCE_EXHAUSTED  the spans of the newest step alone do not fit
  [[nodiscard]] absl::StatusOr<v1::GetTraceResponse> Take();

 private:
  // Removes the spans of steps before `step`.
  void Cut(int64_t step);

  size_t max_bytes_;
  size_t bytes_ = 0;  // of all spans in response_
  std::map<int64_t, size_t> bytes_of_step_;
  bool is_too_long_ = false;  // the newest step alone does not fit
  v1::GetTraceResponse response_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_NEWEST_STEPS_H_
