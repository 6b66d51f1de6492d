// RankMeeting: what the ranks of a generation agree on while they run commands.
//
// Each call is a collective, so all ranks make the same calls in the same
// order. Errors are the communicator's. Thread-compatible.
#ifndef RINGMASTER_WORKER_EXTERNAL_RANK_MEETING_H_
#define RINGMASTER_WORKER_EXTERNAL_RANK_MEETING_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

class RankMeeting {
 public:
  // `patience`: of any one wait for a peer. All outlive the meeting.
  RankMeeting(Communicator& communicator, Clock& clock, absl::Duration patience)
      : communicator_(communicator), clock_(clock), patience_(patience) {}

  // Puts the largest of all ranks' values in the place of each.
  [[nodiscard]] absl::Status TakeMaxima(std::span<int64_t> values);

  // Returns the `text` of `rank`.
  [[nodiscard]] absl::StatusOr<std::string> TextOf(int rank,
                                                   const std::string& text);

  // Returns the lowest rank for which `is_one` holds; nullopt: for none.
  [[nodiscard]] absl::StatusOr<std::optional<int>> LowestOf(bool is_one);

  // Returns the rank whose `since`, the time since its failure, is longest; of
  // equal ones the lowest. A rank that has not failed gives none; at least one
  // has (INTERNAL).
  [[nodiscard]] absl::StatusOr<int> FirstToFail(
      std::optional<absl::Duration> since);

 private:
  Communicator& communicator_;
  Clock& clock_;
  const absl::Duration patience_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_EXTERNAL_RANK_MEETING_H_
