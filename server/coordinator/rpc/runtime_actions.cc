// The part of CoordinatorRuntime that carries out the core's actions.
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/parameter_server/shard_placement_proto.h"
#include "common/plan/mesh.h"
#include "common/plan/topology.h"
#include "common/protocol/collective_costs_proto.h"
#include "common/protocol/enum_name.h"
#include "common/protocol/member_table_hash.h"
#include "common/protocol/proto_time.h"
#include "common/secrets/random.h"
#include "server/coordinator/rpc/runtime.h"
#include "server/coordinator/rpc/state_proto.h"

namespace ringmaster::coordinator {
namespace {

constexpr size_t kSecretBytes = 32;

LogLevel LevelOf(v1::EventSeverity severity) {
  switch (severity) {
    case v1::EVENT_SEVERITY_ERROR:
      return LogLevel::kError;
    case v1::EVENT_SEVERITY_WARNING:
      return LogLevel::kWarning;
    default:
      return LogLevel::kInfo;
  }
}

// "LEASE_EXPIRED by coordinator: nothing heard of it for 1.5s; ...".
std::string EvidenceText(const v1::Verdict& verdict) {
  std::string text;
  for (const v1::Evidence& evidence : verdict.evidence()) {
    const std::string kind(EnumName(evidence.kind()));
    absl::StrAppend(&text, text.empty() ? "" : "; ", kind, " by ",
                    evidence.observer(), ": ", evidence.detail());
  }
  return text;
}

// What the members take as hosts: the workers of one, which share memory, follow
// one another.
std::vector<int> RanksPerHost(const Job& job) {
  std::vector<int> ranks_per_host;
  std::optional<ContainerKey> last;
  for (const Member& member : job.members) {
    if (member.identity.role != v1::ROLE_WORKER) break;
    const ContainerKey container = ContainerOf(member.identity);
    if (container != last) ranks_per_host.push_back(0);
    ++ranks_per_host.back();
    last = container;
  }
  return ranks_per_host;
}

// The hosts that the job would have with the newcomer of a rehearsal. Others that
// are to join with it count as the first host's: each answers for its own host.
std::vector<int> RanksPerHostWith(const SendAssignment& newcomer,
                                  const Job& job) {
  std::vector<int> ranks_per_host = RanksPerHost(job);
  const bool is_known_host = std::any_of(
      job.members.begin(), job.members.end(), [&](const Member& member) {
        return member.identity.role == v1::ROLE_WORKER &&
               ContainerOf(member.identity) == ContainerOf(newcomer.self);
      });
  if (!is_known_host) ranks_per_host.push_back(newcomer.local_world_size);
  ranks_per_host.front() +=
      newcomer.world_size -
      std::accumulate(ranks_per_host.begin(), ranks_per_host.end(), 0);
  return ranks_per_host;
}

std::shared_ptr<const v1::ShardPlacements> PlacementsOf(const Job& job) {
  if (job.placements == nullptr) return nullptr;
  v1::ShardPlacements proto;
  for (const Member& member : job.members) {
    if (!HoldsShards(job, member.identity.role)) continue;
    *proto.add_hosts() = MemberProto(
        member.identity, MemberCount(job, v1::ROLE_WORKER), job.resume_step);
  }
  for (const ShardPlacement& placement : *job.placements)
    *proto.add_shards() = ToProto(placement);
  return std::make_shared<const v1::ShardPlacements>(std::move(proto));
}

// An incident: the culprit, if there is one, as fields of its own.
void LogVerdict(const v1::Event& event) {
  const v1::Verdict& verdict = event.verdict();
  const std::string evidence_text =
      EvidenceText(verdict);  // Outlives the field.
  const LogLevel level = LevelOf(event.severity());
  const LogField job = {"job", event.job_id()};
  const LogField generation = {"generation", event.generation()};
  const LogField step = {"step", event.step()};
  const LogField evidence = {"evidence", evidence_text};
  const LogField message = {"message", event.message()};
  if (verdict.worker().empty()) {
    LogEvent(level, event.type(), {job, generation, step, evidence, message});
    return;
  }
  LogEvent(level, event.type(),
           {job,
            generation,
            step,
            {"worker", verdict.worker()},
            {"rank", verdict.rank()},
            {"host", verdict.host()},
            {"pid", verdict.pid()},
            evidence,
            message});
}

// Leaves out what the event is not about.
void LogJobEvent(const v1::Event& event) {
  if (event.has_verdict()) {
    LogVerdict(event);
    return;
  }
  const LogLevel level = LevelOf(event.severity());
  const LogField job = {"job", event.job_id()};
  const LogField worker = {"worker", event.worker()};
  const LogField generation = {"generation", event.generation()};
  const LogField step = {"step", event.step()};
  const LogField message = {"message", event.message()};
  if (event.job_id().empty() && event.worker().empty()) {
    LogEvent(level, event.type(), {message});
  } else if (event.job_id().empty()) {
    LogEvent(level, event.type(), {worker, message});
  } else if (event.generation() == 0) {
    LogEvent(level, event.type(), {job, message});
  } else if (event.worker().empty()) {
    LogEvent(level, event.type(), {job, generation, step, message});
  } else {
    LogEvent(level, event.type(), {job, generation, step, worker, message});
  }
}

void LogAudit(const AuditedRecord& entry) {
  LogEvent(LogLevel::kInfo, "audit",
           {{"action", entry.action},
            {"object", entry.object},
            {"caller", entry.caller.name},
            {"roles", entry.caller.roles},
            {"address", entry.caller.address},
            {"request_id", entry.request_id},
            {"detail", entry.detail}});
}

}  // namespace

void CoordinatorRuntime::Send(SessionId session, v1::SessionResponse message) {
  const auto it = sessions_.find(session);
  if (it != sessions_.end()) it->second.stream->Send(std::move(message));
}

void CoordinatorRuntime::Perform(SendWelcome& action) {
  const auto it = sessions_.find(action.session);
  if (it == sessions_.end()) return;
  v1::SessionResponse message;
  it->second.is_welcomed = true;
  v1::Welcome& welcome = *message.mutable_welcome();
  welcome.set_coordinator_incarnation(self_.incarnation);
  welcome.set_protocol(action.protocol);
  welcome.set_observed_host(it->second.observed_host);
  *welcome.mutable_beat_interval() = ToProto(options_.config.beat_interval);
  *welcome.mutable_lease() = ToProto(options_.config.lease);
  *welcome.mutable_state_wait() = ToProto(options_.config.state_wait);
  welcome.set_requires_encryption(options_.config.requires_encryption);
  it->second.stream->Send(std::move(message));
}

const CoordinatorRuntime::GenerationSecrets& CoordinatorRuntime::SecretsOf(
    int64_t generation, const Job& job) {
  if (secrets_.generation != generation) {
    google::protobuf::RepeatedPtrField<v1::Member> table;
    for (const Member& member : job.members) {
      *table.Add() = MemberProto(
          member.identity, MemberCount(job, v1::ROLE_WORKER), member.step);
    }
    secrets_ = {.generation = generation,
                .secret = RandomBytes(kSecretBytes),
                .table_hash = MemberTableHash(table),
                .topology = Topology::OfHosts(RanksPerHost(job)),
                .placements = PlacementsOf(job)};
  }
  return secrets_;
}

// A worker that is no member yet is told of no peer and no secret.
void CoordinatorRuntime::SendRehearsal(const SendAssignment& action,
                                       const Job& job) {
  v1::SessionResponse message;
  v1::Assignment& assignment = *message.mutable_assignment();
  assignment.set_rehearsal(true);
  assignment.set_generation(action.generation);
  assignment.set_job_id(action.job_id);
  assignment.mutable_spec()->ParsePartialFromString(job.spec);
  *assignment.mutable_self() =
      MemberProto(action.self, action.world_size, action.resume_step);
  assignment.set_world_size(action.world_size);
  assignment.set_local_world_size(action.local_world_size);
  for (const int ranks : RanksPerHostWith(action, job))
    assignment.add_ranks_per_host(ranks);
  // Of what the job's own would be, a rehearsal can only fail on this; and a
  // coordinator that was restarted does not know the job's own.
  if (options_.config.requires_encryption)
    assignment.set_frame_integrity(v1::FRAME_INTEGRITY_AES_256_GCM);
  assignment.set_resume_step(action.resume_step);
  assignment.mutable_state_copy()->set_source_rank(action.state_source_rank);
  assignment.mutable_state_copy()->set_is_newcomer(true);
  Send(action.session, std::move(message));
}

void CoordinatorRuntime::Perform(SendAssignment& action) {
  const Job* job = core_->state().FindJob(action.job_id);
  if (job == nullptr) return;
  if (action.is_rehearsal) {
    SendRehearsal(action, *job);
    return;
  }
  const GenerationSecrets& secrets = SecretsOf(action.generation, *job);
  v1::SessionResponse message;
  v1::Assignment& assignment = *message.mutable_assignment();
  assignment.set_generation(action.generation);
  assignment.set_job_id(action.job_id);
  assignment.mutable_spec()->ParsePartialFromString(job->spec);
  *assignment.mutable_self() =
      MemberProto(action.self, action.world_size, action.resume_step);
  const Topology& topology = secrets.topology;
  if (action.self.role == v1::ROLE_WORKER) {
    for (const int peer : PeersOf(action.self.rank, topology)) {
      *assignment.add_peers() =
          MemberProto(job->members[static_cast<size_t>(peer)].identity,
                      action.world_size, action.resume_step);
    }
  }
  if (secrets.placements != nullptr) {
    *assignment.mutable_shard_placements() = *secrets.placements;
  }
  for (int host = 0; host < topology.host_count(); ++host) {
    assignment.add_ranks_per_host(
        static_cast<int32_t>(topology.RanksOf(host).size()));
  }
  assignment.set_world_size(action.world_size);
  assignment.set_local_world_size(action.local_world_size);
  assignment.set_table_hash(secrets.table_hash);
  assignment.set_secret(secrets.secret);
  assignment.set_resume_step(action.resume_step);
  if (action.state_source_rank >= 0) {
    v1::StateCopy& copy = *assignment.mutable_state_copy();
    copy.set_source_rank(action.state_source_rank);
    copy.set_is_newcomer(action.is_newcomer);
  }
  assignment.set_frame_integrity(action.integrity);
  assignment.set_makes_no_step(action.makes_no_step);
  assignment.set_least_workers(action.least_workers);
  assignment.set_formed_by(action.formed_by);
  if (action.costs.has_value())
    *assignment.mutable_costs() = ToProto(*action.costs);
  *assignment.mutable_connect_timeout() =
      ToProto(options_.config.connect_timeout);
  *assignment.mutable_collective_timeout() =
      ToProto(options_.config.collective_timeout);
  Send(action.session, std::move(message));
}

void CoordinatorRuntime::Perform(SendStart& action) {
  v1::SessionResponse message;
  message.mutable_start()->set_generation(action.generation);
  Send(action.session, std::move(message));
}

void CoordinatorRuntime::Perform(SendHalt& action) {
  v1::SessionResponse message;
  message.mutable_halt()->set_generation(action.generation);
  *message.mutable_halt()->mutable_verdict() = action.verdict;
  Send(action.session, std::move(message));
}

void CoordinatorRuntime::Perform(SendLeaveAdvice& action) {
  v1::SessionResponse message;
  message.mutable_leave_advice()->set_text(action.text);
  Send(action.session, std::move(message));
}

void CoordinatorRuntime::Perform(SendProbe& action) {
  v1::SessionResponse message;
  *message.mutable_probe() = std::move(action.probe);
  Send(action.session, std::move(message));
}

void CoordinatorRuntime::Perform(SendStop& action) {
  v1::SessionResponse message;
  message.mutable_stop()->set_generation(action.generation);
  message.mutable_stop()->set_reason(action.reason);
  Send(action.session, std::move(message));
}

void CoordinatorRuntime::Perform(SendPause& action) {
  v1::SessionResponse message;
  message.mutable_pause()->set_generation(action.generation);
  message.mutable_pause()->set_reason(action.reason);
  message.mutable_pause()->set_leaves(action.leaves);
  message.mutable_pause()->set_leavers(action.leavers);
  Send(action.session, std::move(message));
}

void CoordinatorRuntime::Perform(SendRelease& action) {
  v1::SessionResponse message;
  message.mutable_release()->set_generation(action.generation);
  message.mutable_release()->set_state(action.state);
  message.mutable_release()->set_message(action.message);
  message.mutable_release()->set_exit_code(action.exit_code);
  Send(action.session, std::move(message));
}

void CoordinatorRuntime::Perform(GatherFlight& action) {
  AskForCollectives(
      core_->state(), action, clock_.Now(),
      [this](absl::StatusOr<v1::FlightRecord> record) {
        // Too many questions are under way: then nothing is known.
        if (!record.ok()) return;
        FlightGathered gathered{.job_id = record->job_id(),
                                .incident = record->incident()};
        gathered.hold_ups.assign(record->hold_ups().begin(),
                                 record->hold_ups().end());
        flights_.Keep(*std::move(record));
        // Not from within what the core is doing.
        executor_.PostUrgent([this, gathered = std::move(gathered)]() mutable {
          if (!is_shut_down_) Feed(std::move(gathered));
        });
      },
      gatherings_);
}

void CoordinatorRuntime::Perform(CloseSession& action) {
  const auto it = sessions_.find(action.session);
  if (it == sessions_.end()) return;
  // What ends a session that was welcomed is an event.
  if (!it->second.is_welcomed && !action.status.ok())
    LogRefusal(it->second, action.status);
  it->second.stream->Close(action.status);
  EraseSession(it);
  gatherings_.Forget(action.session);
}

void CoordinatorRuntime::Perform(Persist& action) {
  std::optional<AuditedRecord> entry;
  if (const auto* const audited = std::get_if<AuditedRecord>(&action.record)) {
    entry = *audited;
  }
  journal_->Append(std::move(action.record), [this, token = action.token,
                                              entry = std::move(entry)](
                                                 const absl::Status& status) {
    if (status.ok() && entry.has_value()) {
      (void)log_executor_.Post([entry = *entry] { LogAudit(entry); });
    }
    EventBody answer =
        status.ok()
            ? EventBody(Persisted{.token = token})
            : EventBody(PersistFailed{.token = token,
                                      .why = std::string(status.message())});
    executor_.PostUrgent([this, answer = std::move(answer)]() mutable {
      Feed(std::move(answer));
    });
  });
}

void CoordinatorRuntime::Perform(ReplyToUser& action) {
  const auto it = replies_.find(action.request);
  if (it == replies_.end()) return;
  UserReply reply = std::move(it->second);
  replies_.erase(it);
  reply(
      action.status, View(),
      action.job_id.empty() ? nullptr : core_->state().FindJob(action.job_id));
}

void CoordinatorRuntime::Perform(EmitEvent& action) {
  const v1::Event& event = events_.Append(std::move(action.event));
  // Dropped if the log cannot keep up; the event itself is kept.
  (void)log_executor_.Post([event] { LogJobEvent(event); });
}

}  // namespace ringmaster::coordinator
