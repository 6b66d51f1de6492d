// Reason: the machine-readable cause that every error of the public API carries
// beside its code.
//
// A code says what the caller should do next (retry, rejoin, reject); a reason
// says what happened, in words that programs may match. It travels inside a
// Status as a payload and, on the wire, as ringmaster.v1.ErrorInfo in the
// `grpc-status-details-bin` trailer. Reasons are UPPER_SNAKE_CASE, at most 63
// characters, and never change once released (AIP-193).
#ifndef RINGMASTER_COMMON_STATUS_REASON_H_
#define RINGMASTER_COMMON_STATUS_REASON_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ringmaster {

namespace reason {
inline constexpr std::string_view kInvalidJobSpec = "INVALID_JOB_SPEC";
inline constexpr std::string_view kInvalidRequest = "INVALID_REQUEST";
inline constexpr std::string_view kJobNotFound = "JOB_NOT_FOUND";
inline constexpr std::string_view kJobAmbiguous = "JOB_AMBIGUOUS";
inline constexpr std::string_view kJobExists = "JOB_EXISTS";
inline constexpr std::string_view kJobAlreadyEnded = "JOB_ALREADY_ENDED";
inline constexpr std::string_view kJobNotSuspendable = "JOB_NOT_SUSPENDABLE";
inline constexpr std::string_view kRequestIdReused = "REQUEST_ID_REUSED";
inline constexpr std::string_view kWorkerNameInUse = "WORKER_NAME_IN_USE";
inline constexpr std::string_view kUnauthenticated = "UNAUTHENTICATED";
inline constexpr std::string_view kPermissionDenied = "PERMISSION_DENIED";
inline constexpr std::string_view kIdentityNotProven = "IDENTITY_NOT_PROVEN";
inline constexpr std::string_view kSuperseded = "SUPERSEDED_BY_NEW_INCARNATION";
inline constexpr std::string_view kProtocolMismatch = "PROTOCOL_MISMATCH";
inline constexpr std::string_view kEncryptionMismatch = "ENCRYPTION_MISMATCH";
inline constexpr std::string_view kSessionProtocolViolation =
    "SESSION_PROTOCOL_VIOLATION";
inline constexpr std::string_view kLeaseExpired = "LEASE_EXPIRED";
inline constexpr std::string_view kStaleGeneration = "STALE_GENERATION";
inline constexpr std::string_view kUnknownGeneration = "UNKNOWN_GENERATION";
inline constexpr std::string_view kPlanMismatch = "PLAN_MISMATCH";
inline constexpr std::string_view kJournalUnavailable = "JOURNAL_UNAVAILABLE";
inline constexpr std::string_view kShuttingDown = "SHUTTING_DOWN";
// The client's own, of a call that has no answer.
inline constexpr std::string_view kNotConnected = "NOT_CONNECTED";
inline constexpr std::string_view kConnectionBroke = "CONNECTION_BROKE";
inline constexpr std::string_view kInternal = "INTERNAL";
}  // namespace reason

// Attaches `reason` to `status` (replacing an earlier one); OK stays OK.
[[nodiscard]] absl::Status WithReason(absl::Status status,
                                      std::string_view reason);

// The reason attached to `status`, or "" if there is none.
[[nodiscard]] std::string ReasonOf(const absl::Status& status);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_STATUS_REASON_H_
