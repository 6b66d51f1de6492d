// The session's messages as the agent core's plain values, and back. Pure.
#ifndef RINGMASTER_WORKER_AGENT_RPC_SESSION_MESSAGES_H_
#define RINGMASTER_WORKER_AGENT_RPC_SESSION_MESSAGES_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/agent/core/agent_action.h"
#include "worker/agent/core/agent_core.h"
#include "worker/agent/core/agent_event.h"
#include "worker/agent/rpc/worker_identity.h"
#include "worker/member/job_runner.h"

namespace ringmaster {

namespace v1 {
class Assignment;
class SessionRequest;
class SessionResponse;
class Welcome;
}  // namespace v1

// The protocol versions that this worker speaks; from 2 on, frames may carry
// checksums.
inline constexpr int kProtocolMin = 1;
inline constexpr int kProtocolMax = agent::kLeaveProtocol;

// Beats wait behind an answer, so it must be sent fast.
inline constexpr int64_t kMaxLogReplyBytes = 1 << 20;

// Nothing for a message of a kind that this version does not know.
//   INVALID_ARGUMENT/SESSION_PROTOCOL_VIOLATION  names the field that makes no
//   sense
//   FAILED_PRECONDITION/PROTOCOL_MISMATCH  a welcome in a version that was not
//   offered
[[nodiscard]] absl::StatusOr<std::optional<agent::Event>> ToEvent(
    const v1::SessionResponse& message);

// INVALID_ARGUMENT/ENCRYPTION_MISMATCH  the coordinator forms no encrypted
// generations, and that `is_required`; or it does, and it is not: a coordinator of
// an earlier release does not know what a hello requires.
[[nodiscard]] absl::Status CheckEncryption(const v1::Welcome& welcome,
                                           bool is_required);

// INVALID_ARGUMENT/SESSION_PROTOCOL_VIOLATION  the generation is not what the
// welcome promised.
[[nodiscard]] absl::Status CheckEncryption(const v1::Assignment& assignment,
                                           bool is_required);

// A worker that is in a generation also says what it knows of its job.
[[nodiscard]] v1::SessionRequest HelloMessage(const WorkerIdentity& identity,
                                              const agent::OpenSession& open,
                                              const TrainProgress& progress);

// `state` settles the phase if the trainer has none to report.
[[nodiscard]] v1::SessionRequest BeatMessage(const agent::SendBeat& beat,
                                             agent::AgentState state,
                                             const TrainProgress& progress);

[[nodiscard]] v1::SessionRequest ToMessage(const agent::SendPrepared& send);
[[nodiscard]] v1::SessionRequest ToMessage(const agent::SendHalted& send);
[[nodiscard]] v1::SessionRequest ToMessage(const agent::SendFailed& send);
[[nodiscard]] v1::SessionRequest ToMessage(const agent::SendSuspicion& send,
                                           const TrainProgress& progress);
[[nodiscard]] v1::SessionRequest ToMessage(const agent::SendFinished& send,
                                           const TrainProgress& progress);
[[nodiscard]] v1::SessionRequest ToMessage(const agent::SendLeaving& send,
                                           const TrainProgress& progress);
// Texts are cut to a few KiB, between characters.
[[nodiscard]] v1::SessionRequest ToMessage(const agent::SendNotice& send);

// With lines of this process's log, kMaxLogReplyBytes at most.
[[nodiscard]] v1::SessionRequest ToMessage(const agent::SendLog& send);

// Says which peers of `probe` were reached; `reached` has one status for each.
[[nodiscard]] v1::SessionRequest ProbedMessage(
    const v1::Probe& probe, const std::vector<absl::Status>& reached);

// Returns the end of a run, for the core; the trainer then holds `held`.
[[nodiscard]] agent::TrainerEnded ToEvent(int64_t generation,
                                          const RunOutcome& outcome,
                                          std::vector<HeldShard> held = {});

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_AGENT_RPC_SESSION_MESSAGES_H_
