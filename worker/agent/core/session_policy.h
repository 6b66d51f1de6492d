// Decides when a worker whose session has ended tries again, or with which exit
// code it gives up. Pure.
#ifndef RINGMASTER_WORKER_AGENT_CORE_SESSION_POLICY_H_
#define RINGMASTER_WORKER_AGENT_CORE_SESSION_POLICY_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "common/status/exit_code.h"
#include "worker/agent/core/agent_event.h"

namespace ringmaster::agent {

// The delay before attempt number `attempt` (0 = the first after a session
// ended): doubles from `initial` to `max`, of which `jitter` in [0, 1) spreads
// the upper half ("equal jitter": M. Brooker, Exponential Backoff and Jitter,
// AWS Architecture Blog, 2015).
[[nodiscard]] absl::Duration RetryDelay(int attempt, absl::Duration initial,
                                        absl::Duration max, double jitter);

struct Refusal {
  ExitCode code = ExitCode::kUsage;
  std::string message;  // who refused what, and what to do
};

// Returns why trying again is of no use after `end`, or nullopt if it may be of
// use. `coordinator` is the address and `name` the worker's name, for the
// message. `may_wait`: what stands in the way may pass. The holder of the name may be
// a dead process, or the coordinator was restarted with another setting.
[[nodiscard]] std::optional<Refusal> PermanentRefusal(
    const SessionDown& end, std::string_view coordinator, std::string_view name,
    bool may_wait);

// Returns true if the coordinator refused the worker because another process,
// not known to be dead, has its name.
[[nodiscard]] bool IsNameInUse(const SessionDown& end);

// Returns true if worker and coordinator run with different settings of
// --data_encryption.
[[nodiscard]] bool IsEncryptionMismatch(const SessionDown& end);

// Returns true if the coordinator ended the session because the worker is no
// longer a member of its generation.
[[nodiscard]] bool IsExpulsion(const SessionDown& end);

// Returns true if it was another coordinator than that of the worker's
// generation, which does not know it.
[[nodiscard]] bool IsOfOtherCoordinator(const SessionDown& end);

// `end` in words, for a log line: "nowhere:7000 does not resolve ...".
[[nodiscard]] std::string DescribeSessionEnd(const SessionDown& end,
                                             std::string_view coordinator);

}  // namespace ringmaster::agent

#endif  // RINGMASTER_WORKER_AGENT_CORE_SESSION_POLICY_H_
