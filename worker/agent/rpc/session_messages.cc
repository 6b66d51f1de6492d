#include "worker/agent/rpc/session_messages.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging/log_proto.h"
#include "common/logging/logging.h"
#include "common/parameter_server/shard_placement_proto.h"
#include "common/protocol/collective_costs_proto.h"
#include "common/protocol/enum_name.h"
#include "common/protocol/enum_pairs.h"
#include "common/protocol/proto_time.h"
#include "common/status/exit_code.h"
#include "common/status/reason.h"
#include "common/status/status_macros.h"
#include "common/text/utf8.h"
#include "common/transport/blamed_peer.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "worker/agent/rpc/assignment_payload.h"
#include "worker/bench/bench_program.h"

namespace ringmaster {
namespace {

using agent::AgentState;
using agent::Event;

// Bounds of a notice's texts.
constexpr size_t kMaxNoticeMessage = 2 << 10;
constexpr size_t kMaxPrompt = 1 << 10;
constexpr size_t kMaxSampleText = 8 << 10;

// Bounds of a probe: a failure budget is at most 10 minutes.
constexpr int kMaxProbedPeers = 64;
constexpr absl::Duration kMaxProbeTimeout = absl::Minutes(10);

constexpr EnumPair<v1::LinkFailure, LinkFailure> kLinkFailures[] = {
    {v1::LINK_FAILURE_UNSPECIFIED, LinkFailure::kUnknown},
    {v1::LINK_FAILURE_NO_ANSWER, LinkFailure::kNoAnswer},
    {v1::LINK_FAILURE_CLOSED, LinkFailure::kClosed},
    {v1::LINK_FAILURE_REFUSED, LinkFailure::kRefused},
};

absl::Status Violation(std::string_view what) {
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat(
          "the coordinator's ", absl::string_view(what.data(), what.size()))),
      reason::kSessionProtocolViolation);
}

// A value of the flag --data_encryption.
absl::string_view EncryptionText(bool is_required) {
  return is_required ? "required" : "off";
}

absl::StatusOr<Event> WelcomeEvent(const v1::Welcome& welcome) {
  if (welcome.protocol() < kProtocolMin || welcome.protocol() > kProtocolMax) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "the coordinator speaks protocol ", welcome.protocol(),
            ", this worker ", kProtocolMin, " to ", kProtocolMax, ".")),
        reason::kProtocolMismatch);
  }
  const absl::Duration beat_interval = FromProto(welcome.beat_interval());
  if (beat_interval < absl::Milliseconds(1)) {
    return Violation("welcome has no beat_interval");
  }
  return agent::SessionUp{
      .coordinator_incarnation = welcome.coordinator_incarnation(),
      .protocol = welcome.protocol(),
      .beat_interval = beat_interval,
      .lease = FromProto(welcome.lease()),
      .state_wait = FromProto(welcome.state_wait())};
}

absl::Status TakePeers(const v1::Assignment& message,
                       RankAssignment& assignment) {
  for (const int32_t ranks : message.ranks_per_host()) {
    if (ranks < 1) {
      return Violation(
          absl::StrCat("assignment has a host with ", ranks, " ranks"));
    }
    assignment.ranks_per_host.push_back(ranks);
  }
  const int64_t ranks =
      std::accumulate(assignment.ranks_per_host.begin(),
                      assignment.ranks_per_host.end(), int64_t{0});
  if (ranks != message.world_size()) {
    return Violation(absl::StrCat("assignment has hosts for ", ranks, " of ",
                                  message.world_size(), " ranks"));
  }
  for (const v1::Member& peer : message.peers()) {
    if (peer.rank() < 0 || peer.rank() >= message.world_size()) {
      return Violation(absl::StrCat("assignment has peer ", peer.rank(), " of ",
                                    message.world_size()));
    }
    assignment.peers.push_back({peer.rank(), peer.data_address()});
  }
  return absl::OkStatus();
}

// A rank among the hosts of `placements`, or, if it `may_be_none`, -1.
bool IsHost(const ShardPlacements& placements, int rank, bool may_be_none) {
  if (rank == -1) return may_be_none;
  return std::any_of(
      placements.hosts.begin(), placements.hosts.end(),
      [rank](const PeerAddress& host) { return host.rank == rank; });
}

absl::Status TakePlacements(const v1::Assignment& message,
                            RankAssignment& assignment) {
  ShardPlacements& placements = assignment.shard_placements;
  for (const v1::Member& host : message.shard_placements().hosts()) {
    if (host.rank() < 0 || (!placements.hosts.empty() &&
                            host.rank() <= placements.hosts.back().rank)) {
      return Violation(absl::StrCat("assignment has rank ", host.rank(),
                                    " out of order as a host of shards"));
    }
    placements.hosts.push_back({host.rank(), host.data_address()});
  }
  for (const v1::ShardPlacement& shard : message.shard_placements().shards()) {
    const ShardPlacement placement = FromProto(shard);
    if (!IsHost(placements, placement.primary_rank, /*may_be_none=*/false) ||
        !IsHost(placements, placement.backup_rank, /*may_be_none=*/true) ||
        !IsHost(placements, placement.source_rank, /*may_be_none=*/true) ||
        placement.backup_rank == placement.primary_rank) {
      return Violation(absl::StrCat(
          "assignment has shard ", placements.shards.size(), " on ranks ",
          placement.primary_rank, ", ", placement.backup_rank, " and ",
          placement.source_rank, ", which are no hosts of shards"));
    }
    placements.shards.push_back(placement);
  }
  if (placements.hosts.empty() != placements.shards.empty()) {
    return Violation(absl::StrCat("assignment has ", placements.shards.size(),
                                  " shards on ", placements.hosts.size(),
                                  " hosts"));
  }
  return absl::OkStatus();
}

// A worker, or a parameter server, which has a rank after those of the workers.
absl::Status CheckSelf(const v1::Assignment& message,
                       const ShardPlacements& placements) {
  const v1::Member& self = message.self();
  const int rank = self.rank();
  const bool is_worker = rank >= 0 && rank < message.world_size();
  const bool is_server = rank >= message.world_size() &&
                         IsHost(placements, rank, /*may_be_none=*/false);
  if (message.world_size() < 1 || (!is_worker && !is_server)) {
    return Violation(absl::StrCat("assignment has rank ", rank, " of ",
                                  message.world_size()));
  }
  if (self.has_mesh() && (self.mesh().data_index() < 0 ||
                          self.mesh().data_index() >= message.world_size())) {
    return Violation(absl::StrCat("assignment has data index ",
                                  self.mesh().data_index(), " of ",
                                  message.world_size()));
  }
  return absl::OkStatus();
}

// Hosts of shards that are no workers.
int ServerCount(const RankAssignment& assignment) {
  const auto& hosts = assignment.shard_placements.hosts;
  return static_cast<int>(
      std::count_if(hosts.begin(), hosts.end(), [&](const PeerAddress& host) {
        return host.rank >= assignment.world_size;
      }));
}

absl::Status TakeStateCopy(const v1::Assignment& message,
                           RankAssignment& assignment) {
  if (!message.has_state_copy()) return absl::OkStatus();
  const v1::StateCopy& copy = message.state_copy();
  if (copy.source_rank() < 0 || copy.source_rank() >= message.world_size()) {
    return Violation(absl::StrCat("assignment copies the state of rank ",
                                  copy.source_rank(), " of ",
                                  message.world_size()));
  }
  if (copy.is_newcomer() && copy.source_rank() == assignment.rank) {
    return Violation("assignment copies the state of a newcomer");
  }
  if (message.resume_step() < 1) {
    return Violation("assignment copies a state without a step");
  }
  assignment.state_source_rank = copy.source_rank();
  assignment.is_newcomer = copy.is_newcomer();
  return absl::OkStatus();
}

absl::StatusOr<MachineCosts> TakeCosts(const v1::CollectiveCosts& message) {
  absl::StatusOr<MachineCosts> costs = FromProto(message);
  if (costs.ok()) return costs;
  return Violation(absl::StrCat("assignment has ", costs.status().message()));
}

absl::StatusOr<FrameIntegrity> TakeIntegrity(v1::FrameIntegrity integrity) {
  switch (integrity) {
    case v1::FRAME_INTEGRITY_UNSPECIFIED:
      return FrameIntegrity::kNone;
    case v1::FRAME_INTEGRITY_CRC32C:
      return FrameIntegrity::kCrc32c;
    case v1::FRAME_INTEGRITY_AES_256_GCM:
      return FrameIntegrity::kAes256Gcm;
    default:
      return Violation(absl::StrCat("assignment has frame integrity ",
                                    integrity,
                                    ", which this worker does not know"));
  }
}

absl::StatusOr<Event> AssignmentEvent(const v1::Assignment& message) {
  const v1::Member& self = message.self();
  if (message.generation() < 1)
    return Violation("assignment has no generation");
  if (message.job_id().empty()) return Violation("assignment has no job");
  // 0: the coordinator does not set it.
  const int local_world_size = std::max(1, message.local_world_size());
  if (message.local_world_size() < 0 || self.local_rank() < 0 ||
      self.local_rank() >= local_world_size) {
    return Violation(absl::StrCat("assignment has local rank ",
                                  self.local_rank(), " of ",
                                  message.local_world_size()));
  }
  if (message.resume_step() < 0) {
    return Violation(
        absl::StrCat("assignment resumes at ", message.resume_step()));
  }
  auto payload = std::make_shared<agent::AssignmentPayload>();
  payload->spec = message.spec();
  RankAssignment& assignment = payload->assignment;
  RETURN_IF_ERROR(TakePlacements(message, assignment));
  RETURN_IF_ERROR(CheckSelf(message, assignment.shard_placements));
  assignment.generation = message.generation();
  assignment.job_id = message.job_id();
  assignment.rank = self.rank();
  assignment.world_size = message.world_size();
  assignment.local_rank = self.local_rank();
  assignment.local_world_size = local_world_size;
  assignment.data_index =
      self.has_mesh() ? self.mesh().data_index() : self.rank();
  assignment.own_address = self.data_address();
  RETURN_IF_ERROR(TakePeers(message, assignment));
  assignment.secret = message.secret();
  assignment.resume_step = message.resume_step();
  assignment.makes_no_step = message.makes_no_step();
  assignment.least_workers = message.least_workers();
  RETURN_IF_ERROR(TakeStateCopy(message, assignment));
  if (message.has_connect_timeout()) {
    assignment.connect_timeout = FromProto(message.connect_timeout());
  }
  if (message.has_collective_timeout()) {
    assignment.collective_timeout = FromProto(message.collective_timeout());
  }
  ASSIGN_OR_RETURN(assignment.integrity,
                   TakeIntegrity(message.frame_integrity()));
  if (message.has_costs()) {
    // All members have the same, and refuse them alike.
    ASSIGN_OR_RETURN(assignment.costs, TakeCosts(message.costs()));
  }
  return agent::AssignmentReceived{.generation = message.generation(),
                                   .job_id = message.job_id(),
                                   .rank = self.rank(),
                                   .world_size = message.world_size(),
                                   .resume_step = message.resume_step(),
                                   .payload = std::move(payload),
                                   .is_rehearsal = message.rehearsal(),
                                   .formed_by = message.formed_by()};
}

absl::StatusOr<Event> ProbeEvent(const v1::Probe& probe) {
  if (probe.peers_size() > kMaxProbedPeers) {
    return Violation(absl::StrCat("probe has ", probe.peers_size(),
                                  " peers, more than ", kMaxProbedPeers));
  }
  const absl::Duration timeout = FromProto(probe.timeout());
  if (timeout <= absl::ZeroDuration() || timeout > kMaxProbeTimeout) {
    return Violation(absl::StrCat("probe has a timeout of ",
                                  absl::FormatDuration(timeout), ", not up to ",
                                  absl::FormatDuration(kMaxProbeTimeout)));
  }
  return agent::ProbeRequested{probe};
}

v1::Phase TrainerPhase(TrainPhase phase) {
  switch (phase) {
    case TrainPhase::kIdle:
      return v1::PHASE_IDLE;
    case TrainPhase::kPrepare:
      return v1::PHASE_PREPARE;
    case TrainPhase::kConnect:
      return v1::PHASE_CONNECT;
    case TrainPhase::kStep:
      return v1::PHASE_STEP;
    case TrainPhase::kEvaluate:
      return v1::PHASE_EVALUATE;
    case TrainPhase::kTransfer:
      return v1::PHASE_TRANSFER;
    case TrainPhase::kCheckpoint:
      return v1::PHASE_CHECKPOINT;
    case TrainPhase::kCommand:
      return v1::PHASE_COMMAND;
    case TrainPhase::kHalted:
      return v1::PHASE_HALTED;
    // Not a phase whose pace the coordinator learns: sizes differ too much.
    case TrainPhase::kMeasure:
      break;
  }
  return v1::PHASE_UNSPECIFIED;
}

v1::Phase PhaseOf(AgentState state, const TrainProgress& progress) {
  switch (state) {
    case AgentState::kConnecting:
    case AgentState::kIdle:
      return v1::PHASE_IDLE;
    case AgentState::kPreparing:
    case AgentState::kPrepared:
      return v1::PHASE_PREPARE;
    case AgentState::kRunning:
      return TrainerPhase(progress.phase);
    default:
      return v1::PHASE_HALTED;
  }
}

// Returns the exit code that the job ended with; nullopt: it continues, or this
// is not known.
std::optional<ExitCode> JobEnd(const v1::Release& release) {
  switch (release.state()) {
    case v1::JOB_STATE_SUCCEEDED:
    case v1::JOB_STATE_CANCELLED:
      return ExitCode::kDone;
    case v1::JOB_STATE_FAILED:
      break;
    default:
      return std::nullopt;
  }
  if (release.exit_code() == 0) return std::nullopt;
  for (const ExitCodeMeaning& known : kExitCodes) {
    if (static_cast<int>(known.code) == release.exit_code()) return known.code;
  }
  return ExitCode::kInternal;
}

// Describes what happened, to whom, and who saw it, for the log of each worker.
std::string HaltText(const v1::Verdict& verdict) {
  std::string text = verdict.summary();
  if (!verdict.worker().empty()) {
    absl::StrAppend(
        &text, "; culprit: worker ", verdict.worker(),
        verdict.rank() < 0 ? "" : absl::StrCat(", rank ", verdict.rank()),
        ", host ", verdict.host(), ", pid ", verdict.pid());
  }
  const char* before = "; evidence: ";
  for (const v1::Evidence& evidence : verdict.evidence()) {
    absl::StrAppend(&text, before, EnumName(evidence.kind()), " by ",
                    evidence.observer(), ": ", evidence.detail());
    before = "; ";
  }
  return text;
}

}  // namespace

absl::StatusOr<std::optional<Event>> ToEvent(
    const v1::SessionResponse& message) {
  switch (message.message_case()) {
    case v1::SessionResponse::kWelcome:
      return WelcomeEvent(message.welcome());
    case v1::SessionResponse::kAssignment:
      return AssignmentEvent(message.assignment());
    case v1::SessionResponse::kStart:
      return agent::StartReceived{message.start().generation()};
    case v1::SessionResponse::kHalt:
      return agent::HaltReceived{message.halt().generation(),
                                 HaltText(message.halt().verdict())};
    case v1::SessionResponse::kStop:
      return agent::StopReceived{message.stop().generation(),
                                 message.stop().reason()};
    case v1::SessionResponse::kPause:
      return agent::PauseReceived{
          message.pause().generation(), message.pause().reason(),
          message.pause().leaves(), message.pause().leavers()};
    case v1::SessionResponse::kLeaveAdvice:
      return agent::LeaveAdviceReceived{message.leave_advice().text()};
    case v1::SessionResponse::kRelease:
      return agent::ReleaseReceived{message.release().generation(),
                                    message.release().message(),
                                    JobEnd(message.release())};
    case v1::SessionResponse::kTraceRequest:
      return agent::TraceRequested{message.trace_request().request_id(),
                                   message.trace_request().first_step(),
                                   message.trace_request().last_step(),
                                   message.trace_request().generation(),
                                   message.trace_request().max_bytes()};
    case v1::SessionResponse::kLogRequest:
      return agent::LogRequested{message.log_request().request_id(),
                                 message.log_request().filter(),
                                 message.log_request().after_sequence(),
                                 message.log_request().max_bytes()};
    case v1::SessionResponse::kProbe:
      return ProbeEvent(message.probe());
    case v1::SessionResponse::kDrain:  // no release sends it
    case v1::SessionResponse::MESSAGE_NOT_SET:
      break;
  }
  return std::optional<Event>();
}

absl::Status CheckEncryption(const v1::Welcome& welcome, bool is_required) {
  if (welcome.requires_encryption() == is_required) return absl::OkStatus();
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat(
          "this worker runs with --data_encryption=",
          EncryptionText(is_required),
          ", this coordinator with --data_encryption=",
          EncryptionText(!is_required),
          is_required ? " or it is of a release that does not know the flag"
                      : "",
          "; start both with the same")),
      reason::kEncryptionMismatch);
}

absl::Status CheckEncryption(const v1::Assignment& assignment,
                             bool is_required) {
  const bool is_encrypted =
      assignment.frame_integrity() == v1::FRAME_INTEGRITY_AES_256_GCM;
  if (is_encrypted == is_required) return absl::OkStatus();
  return Violation(
      absl::StrCat("generation ", assignment.generation(), " is ",
                   is_encrypted ? "" : "not ",
                   "encrypted, and this worker runs with --data_encryption=",
                   EncryptionText(is_required)));
}

v1::SessionRequest HelloMessage(const WorkerIdentity& identity,
                                const agent::OpenSession& open,
                                const TrainProgress& progress) {
  v1::SessionRequest request;
  v1::Hello& hello = *request.mutable_hello();
  hello.set_name(identity.name);
  hello.set_incarnation(identity.incarnation);
  hello.set_resume_key(identity.resume_key);
  hello.set_role(identity.role == WorkerRole::kParameterServer
                     ? v1::ROLE_PARAMETER_SERVER
                     : v1::ROLE_WORKER);
  hello.set_protocol_min(kProtocolMin);
  hello.set_protocol_max(kProtocolMax);
  hello.set_host(identity.host);
  hello.set_host_key(identity.host_key);
  hello.set_node(identity.node);
  hello.set_pid(identity.pid);
  hello.mutable_device()->set_kind(identity.is_on_gpu ? v1::DEVICE_KIND_CUDA
                                                      : v1::DEVICE_KIND_CPU);
  hello.mutable_device()->set_index(identity.device_index);
  hello.set_advertise_host(identity.advertise_host);
  hello.set_data_port(identity.data_port);
  hello.set_version(identity.version);
  hello.set_sends_logs(true);
  hello.set_records_collectives(true);
  hello.set_probes(true);
  hello.set_log_file(identity.log_file);
  hello.set_requires_encryption(identity.requires_encryption);
  hello.set_runs_commands(identity.runs_commands);
  hello.mutable_labels()->insert(identity.labels.begin(),
                                 identity.labels.end());
  hello.set_memory_bytes(identity.memory_bytes);
  if (identity.predecessor) {
    v1::ProcessEnd& end = *hello.mutable_predecessor();
    end.set_pid(identity.predecessor->pid);
    end.set_exit_code(identity.predecessor->exit_code);
    end.set_signal(identity.predecessor->signal);
  }
  if (identity.costs) *hello.mutable_costs() = ToProto(*identity.costs);
  hello.set_rehearses(identity.role == WorkerRole::kWorker);
  hello.set_generation(open.generation);
  hello.set_formed_by(open.formed_by);
  hello.set_attempt(open.attempt);
  if (open.generation == 0) return request;
  hello.set_applied_step(progress.applied_step);
  if (open.payload == nullptr) return request;
  const RankAssignment& assignment = open.payload->assignment;
  if (progress.phase == TrainPhase::kPrepare) {
    // It may not have settled its resume step yet.
    hello.set_applied_step(
        std::min(progress.applied_step, assignment.resume_step));
  }
  v1::HeldJob& held = *hello.mutable_held_job();
  held.set_job_id(assignment.job_id);
  *held.mutable_spec() = open.payload->spec;
  held.set_rank(assignment.rank);
  held.set_world_size(assignment.world_size);
  held.set_servers(ServerCount(assignment));
  held.set_resume_step(assignment.resume_step);
  for (const ShardPlacement& shard : assignment.shard_placements.shards)
    *held.add_placements() = ToProto(shard);
  return request;
}

v1::SessionRequest BeatMessage(const agent::SendBeat& beat, AgentState state,
                               const TrainProgress& progress) {
  v1::SessionRequest request;
  v1::Beat& message = *request.mutable_beat();
  message.set_generation(beat.generation);
  message.set_phase(PhaseOf(state, progress));
  message.set_waiting_for_rank(-1);
  if (beat.generation == 0) return request;
  message.set_disk_bytes(progress.disk_bytes);
  // Until the trainer has heard of it, it tells of the generation before.
  if (progress.generation == beat.generation) {
    message.set_step(progress.applied_step);
    *message.mutable_figures() = progress.figures;
    message.set_collective_sequence(progress.collective_sequence);
    message.set_waiting_for_rank(progress.waiting_for_rank);
    *message.mutable_rank() = progress.totals;
    if (progress.bench != nullptr)
      FillBenchFigures(*progress.bench, *message.mutable_bench());
  }
  return request;
}

v1::SessionRequest ToMessage(const agent::SendPrepared& send) {
  v1::SessionRequest request;
  v1::Prepared& message = *request.mutable_prepared();
  message.set_generation(send.generation);
  message.set_plan_hash(send.plan_hash);
  message.set_data_fingerprint(send.data_fingerprint);
  message.set_summary(send.summary);
  *message.mutable_data() = send.data;
  return request;
}

v1::SessionRequest ToMessage(const agent::SendHalted& send) {
  v1::SessionRequest request;
  v1::Halted& message = *request.mutable_halted();
  message.set_generation(send.generation);
  message.set_applied_step(send.position.applied_step);
  message.set_complete_step(send.position.complete_step);
  for (const HeldShard& held : send.shards) {
    v1::HeldShard& shard = *message.add_shards();
    shard.set_shard(held.shard);
    shard.set_complete_step(held.complete_step);
  }
  message.set_can_go_on(send.can_go_on);
  return request;
}

v1::SessionRequest ToMessage(const agent::SendFailed& send) {
  v1::SessionRequest request;
  v1::Failed& message = *request.mutable_failed();
  message.set_generation(send.generation);
  message.set_step(send.step);
  message.set_exit_code(static_cast<int>(send.exit_code));
  message.set_message(send.message);
  message.set_of_job(send.is_of_job);
  message.set_preparing(send.was_preparing);
  return request;
}

v1::SessionRequest ToMessage(const agent::SendSuspicion& send,
                             const TrainProgress& progress) {
  v1::SessionRequest request;
  v1::Suspicion& message = *request.mutable_suspicion();
  message.set_generation(send.generation);
  message.set_peer_rank(send.peer_rank);
  message.set_detail(send.detail);
  message.set_step(send.step);
  message.set_collective_sequence(progress.collective_sequence);
  message.set_unreached(send.is_unreached);
  message.set_holds_other_state(send.holds_other_state);
  message.set_failure(send.failure);
  return request;
}

v1::SessionRequest ToMessage(const agent::SendFinished& send,
                             const TrainProgress& progress) {
  v1::SessionRequest request;
  v1::Finished& message = *request.mutable_finished();
  message.set_generation(send.generation);
  message.set_step(send.step);
  message.set_parameters_hash(send.parameters_hash);
  message.set_stopped(send.is_stopped);
  *message.mutable_figures() = progress.figures;
  if (progress.generation == send.generation)
    *message.mutable_rank() = progress.totals;
  if (progress.bench != nullptr && progress.generation == send.generation)
    FillBenchFigures(*progress.bench, *message.mutable_bench());
  return request;
}

v1::SessionRequest ToMessage(const agent::SendLeaving& send,
                             const TrainProgress& progress) {
  v1::SessionRequest request;
  v1::Leaving& message = *request.mutable_leaving();
  message.set_reason(send.reason);
  message.set_done(send.is_done);
  message.set_step(send.is_done ? send.step : progress.applied_step);
  if (send.patience > absl::ZeroDuration()) {
    *message.mutable_patience() = ToProto(send.patience);
  }
  return request;
}

v1::SessionRequest ToMessage(const agent::SendNotice& send) {
  v1::SessionRequest request;
  v1::Notice& notice = *request.mutable_notice();
  notice = send.notice;
  notice.set_message(BoundedUtf8(notice.message(), kMaxNoticeMessage));
  notice.set_checkpoint(BoundedUtf8(notice.checkpoint(), kMaxNoticeMessage));
  notice.set_checkpoint_job_id(
      BoundedUtf8(notice.checkpoint_job_id(), kMaxNoticeMessage));
  if (notice.has_sample()) {
    v1::TextSample& sample = *notice.mutable_sample();
    sample.set_prompt(BoundedUtf8(sample.prompt(), kMaxPrompt));
    sample.set_text(BoundedUtf8(sample.text(), kMaxSampleText));
  }
  return request;
}

v1::SessionRequest ToMessage(const agent::SendLog& send) {
  v1::SessionRequest request;
  v1::LogReply& reply = *request.mutable_log_reply();
  reply.set_request_id(send.request.request_id);
  const int64_t max_bytes =
      std::clamp<int64_t>(send.request.max_bytes, 0, kMaxLogReplyBytes);
  *reply.mutable_page() = ToProto(
      SelectLog(ToLogSelection(send.request.filter, send.request.after_sequence,
                               static_cast<size_t>(max_bytes))));
  return request;
}

v1::SessionRequest ProbedMessage(const v1::Probe& probe,
                                 const std::vector<absl::Status>& reached) {
  v1::SessionRequest request;
  v1::Probed& message = *request.mutable_probed();
  message.set_generation(probe.generation());
  message.set_number(probe.number());
  for (int i = 0; i < probe.peers_size(); ++i) {
    const absl::Status& status = reached[static_cast<size_t>(i)];
    const LinkFailure failure =
        status.ok() ? LinkFailure::kUnknown : LinkFailureOf(status);
    // It could not be tried, which says nothing about the link.
    if (!status.ok() && failure == LinkFailure::kUnknown) continue;
    v1::ProbeResult& result = *message.add_results();
    result.set_peer_rank(probe.peers(i).rank());
    result.set_reached(status.ok());
    if (status.ok()) continue;
    result.set_failure(ProtoOf(kLinkFailures, failure));
    result.set_detail(std::string(status.message()));
  }
  return request;
}

agent::TrainerEnded ToEvent(int64_t generation, const RunOutcome& outcome,
                            std::vector<HeldShard> held) {
  agent::TrainerEnded ended;
  ended.generation = generation;
  switch (outcome.kind) {
    case RunOutcome::Kind::kFinished:
      ended.end = agent::RunEnd::kFinished;
      break;
    case RunOutcome::Kind::kStopped:
      ended.end = agent::RunEnd::kStopped;
      break;
    case RunOutcome::Kind::kDrained:
      ended.end = agent::RunEnd::kDrained;
      break;
    case RunOutcome::Kind::kInterrupted:
      ended.end = agent::RunEnd::kInterrupted;
      break;
    case RunOutcome::Kind::kPeerFailed:
      ended.end = agent::RunEnd::kPeerFailed;
      break;
    case RunOutcome::Kind::kFailed:
      ended.end = agent::RunEnd::kFailed;
      break;
  }
  ended.status = outcome.status;
  ended.peer_rank = outcome.peer_rank;
  ended.is_unreached = outcome.is_unreached;
  ended.holds_other_state = outcome.holds_other_state;
  ended.failure = ProtoOf(kLinkFailures, LinkFailureOf(outcome.status));
  ended.position = {outcome.applied_step, outcome.complete_step};
  ended.shards = std::move(held);
  ended.parameters_hash = outcome.parameters_hash;
  return ended;
}

}  // namespace ringmaster
