// GatherLogs asks workers for the last lines of their logs.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_LOG_GATHERING_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_LOG_GATHERING_H_

#include <cstddef>
#include <deque>
#include <map>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/state.h"
#include "server/coordinator/rpc/event_log.h"
#include "server/coordinator/rpc/gatherings.h"

namespace ringmaster::coordinator {

// Most bytes of lines in an answer, so that it fits a message, and of one
// process.
inline constexpr size_t kMaxLogBytes = 3 << 20;
inline constexpr size_t kMaxLogBytesOfOne = 512 << 10;

// LogPlaces remembers where the logs of workers lie, also of those that are
// gone: the last kMaxPlaces names that said hello. Thread-compatible.
class LogPlaces {
 public:
  struct Place {
    std::string host;      // empty: it did not say where its log lies
    std::string log_file;  // empty: none
  };

  void Note(const HelloReceived& hello);
  // Null: nobody of that name is remembered.
  [[nodiscard]] const Place* Find(const std::string& worker) const;

 private:
  static constexpr size_t kMaxPlaces = 4096;
  std::map<std::string, Place> places_;
  std::deque<std::string> names_;  // by when they were first heard of
};

// Returns an error if the request names nobody, or makes no sense.
//   INVALID_ARGUMENT/INVALID_REQUEST
[[nodiscard]] absl::Status CheckLogs(const v1::GetLogsRequest& request);

// The coordinator's own lines.
[[nodiscard]] v1::GetLogsResponse OwnLogs(const v1::GetLogsRequest& request,
                                          uint64_t incarnation);

using LogsReply = absl::AnyInvocable<void(absl::StatusOr<v1::GetLogsResponse>)>;

// Asks the workers that `request` names; `reply` is called once, perhaps at once.
// Those of whom there is no answer are in it with the reason.
//   NOT_FOUND           there is no such job, or no such worker was ever heard of
//   RESOURCE_EXHAUSTED  too many questions are under way
void GatherLogs(const State& state, const EventLog& events,
                const LogPlaces& places, const v1::GetLogsRequest& request,
                MonotonicTime now, LogsReply reply, Gatherings& gatherings);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_LOG_GATHERING_H_
