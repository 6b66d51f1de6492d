#include "worker/agent/core/session_policy.h"

#include <algorithm>

#include "common/rpc/connect_failure.h"
#include "common/status/reason.h"

namespace ringmaster::agent {
namespace {

std::string Join(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (std::string_view part : parts) text.append(part);
  return text;
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

absl::Duration RetryDelay(int attempt, absl::Duration initial,
                          absl::Duration max, double jitter) {
  absl::Duration delay = initial;
  for (int i = 0; i < attempt && delay < max; ++i) delay *= 2;
  delay = std::min(delay, max);
  return delay / 2 + delay / 2 * std::clamp(jitter, 0.0, 1.0);
}

std::optional<Refusal> PermanentRefusal(const SessionDown& end,
                                        std::string_view coordinator,
                                        std::string_view name, bool may_wait) {
  if (IsEncryptionMismatch(end) && may_wait) return std::nullopt;
  if (IsNameInUse(end)) {
    if (may_wait) return std::nullopt;
    return Refusal{ExitCode::kUsage,
                   Join({"coordinator ", coordinator, ": ", end.message,
                         "; choose another --name"})};
  }
  if (end.reason == reason::kSuperseded) {
    // Not for ever: the other one may be gone by the next attempt.
    return Refusal{ExitCode::kRetryElsewhere,
                   Join({"another process joined ", coordinator,
                         " under this worker's name ", name, ": ", end.message,
                         "; if both are meant to run, choose another --name"})};
  }
  if (end.reason == reason::kProtocolMismatch) {
    return Refusal{ExitCode::kUsage,
                   Join({"coordinator ", coordinator, ": ", end.message,
                         " Run the coordinator's version of this binary."})};
  }
  if (end.reason == reason::kSessionProtocolViolation) {
    return Refusal{
        ExitCode::kInternal,
        Join({"coordinator ", coordinator,
              " and this worker do not understand each other: ", end.message})};
  }
  switch (end.code) {
    case absl::StatusCode::kUnimplemented:
      return Refusal{
          ExitCode::kUsage,
          Join({coordinator, " answers, but not as a Ringmaster coordinator (",
                end.message, "). Correct --coordinator."})};
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return Refusal{
          ExitCode::kUsage,
          Join({"coordinator ", coordinator,
                " does not accept this worker's credentials: ", end.message})};
    case absl::StatusCode::kInvalidArgument:
      return Refusal{ExitCode::kUsage,
                     Join({"coordinator ", coordinator,
                           " refuses this worker: ", end.message})};
    default:
      return std::nullopt;
  }
}

bool IsNameInUse(const SessionDown& end) {
  return end.reason == reason::kWorkerNameInUse;
}

bool IsEncryptionMismatch(const SessionDown& end) {
  return end.reason == reason::kEncryptionMismatch;
}

bool IsExpulsion(const SessionDown& end) {
  return end.reason == reason::kLeaseExpired ||
         end.reason == reason::kStaleGeneration;
}

bool IsOfOtherCoordinator(const SessionDown& end) {
  return end.reason == reason::kUnknownGeneration;
}

std::string DescribeSessionEnd(const SessionDown& end,
                               std::string_view coordinator) {
  if (Contains(end.message, "DNS resolution failed")) {
    return Join({coordinator,
                 " does not resolve (its DNS entry may still be on its way)"});
  }
  if (end.message.empty()) {
    return Join({"coordinator ", coordinator, ": ",
                 absl::StatusCodeToString(end.code)});
  }
  const std::string_view meaning = MeaningOfConnectFailure(end.message);
  if (!meaning.empty())
    return Join(
        {"coordinator ", coordinator, ": ", meaning, " (", end.message, ")"});
  return Join({"coordinator ", coordinator, ": ", end.message});
}

}  // namespace ringmaster::agent
