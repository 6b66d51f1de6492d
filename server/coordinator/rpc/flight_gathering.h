// AskForCollectives asks the members of a generation for what they did in
// collectives; FlightRecords keeps what they answered after an incident.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_FLIGHT_GATHERING_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_FLIGHT_GATHERING_H_

#include <cstddef>
#include <deque>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "ringmaster/v1/trace.pb.h"
#include "server/coordinator/core/state/action.h"
#include "server/coordinator/core/state/state.h"
#include "server/coordinator/rpc/gatherings.h"

namespace ringmaster::coordinator {

// Most bytes of collectives in a record, so that it fits a message, and of one
// rank. With many ranks each has less.
inline constexpr size_t kMaxFlightBytes = 2 << 20;
inline constexpr size_t kMaxFlightBytesOfOne = 128 << 10;

using FlightReply = absl::AnyInvocable<void(absl::StatusOr<v1::FlightRecord>)>;

// The question for the present members of `job`.
[[nodiscard]] GatherFlight PresentFlight(const Job& job);

// Asks those of `asked` that record collectives; `reply` is called once, perhaps
// at once. The others are missing in it, with the reason.
//   RESOURCE_EXHAUSTED  too many questions are under way
void AskForCollectives(const State& state, const GatherFlight& asked,
                       MonotonicTime now, FlightReply reply,
                       Gatherings& gatherings);

// The records of the last incidents of all jobs. Thread-compatible.
class FlightRecords {
 public:
  static constexpr size_t kMaxRecords = 8;

  void Keep(v1::FlightRecord record);
  // Null: there is none, or none any more.
  [[nodiscard]] const v1::FlightRecord* Find(std::string_view job_id,
                                             int incident) const;

 private:
  std::deque<v1::FlightRecord> records_;  // oldest first
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_FLIGHT_GATHERING_H_
