// ParseSessionMessage checks a worker's message and translates it into the
// core's event.
//
// All messages of workers are checked here, once: impossible numbers are
// refused, and free text is cut to a length that the status, the events and the
// journal can carry. Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_SESSION_MESSAGE_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_SESSION_MESSAGE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "server/coordinator/core/state/event.h"

namespace ringmaster::coordinator {

// Longest name of a worker, and longest host name, in bytes.
inline constexpr size_t kMaxWorkerName = 128;
inline constexpr size_t kMaxHostName = 253;
// Free text beyond this is cut.
inline constexpr size_t kMaxText = 4096;
// The same for what a model wrote.
inline constexpr size_t kMaxSampleText = 8192;
// Most collectives in an answer: more are longer than any that is asked for.
inline constexpr int kMaxRecordedCollectives = 8192;

// `observed_host` is the worker's address as seen from here; it becomes the
// data address's host unless the worker advertises another. An answer with log
// lines or a trace becomes HeardFrom; it keeps the collectives of a flight record. If the job in a hello
// is invalid, the hello is treated as one without a job, and held_job_fault
// says why.
//   INVALID_ARGUMENT/SESSION_PROTOCOL_VIOLATION  names the message, the field
//   and its value
[[nodiscard]] absl::StatusOr<EventBody> ParseSessionMessage(
    SessionId session, const v1::SessionRequest& message,
    std::string_view observed_host);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_SESSION_MESSAGE_H_
