#include "server/coordinator/journal/record_proto.h"

#include <string>
#include <variant>
#include <vector>

#include "common/job/job_spec.h"
#include "common/parameter_server/shard_placement_proto.h"
#include "common/protocol/proto_time.h"
#include "common/text/utf8.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster::coordinator {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void ReplaceInvalidTexts(Message& message);

void ReplaceInvalidText(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      if (field.type() == FieldDescriptor::TYPE_STRING) {
        reflection.SetRepeatedString(
            &message, &field, i,
            ReplaceInvalidUtf8(
                reflection.GetRepeatedString(message, &field, i)));
      } else {
        ReplaceInvalidTexts(
            *reflection.MutableRepeatedMessage(&message, &field, i));
      }
    }
  } else if (field.type() == FieldDescriptor::TYPE_STRING) {
    reflection.SetString(
        &message, &field,
        ReplaceInvalidUtf8(reflection.GetString(message, &field)));
  } else {
    ReplaceInvalidTexts(*reflection.MutableMessage(&message, &field));
  }
}

void ReplaceInvalidTexts(Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->type() == FieldDescriptor::TYPE_STRING ||
        field->type() == FieldDescriptor::TYPE_MESSAGE) {
      ReplaceInvalidText(message, *field);
    }
  }
}

// ---- Parts of records.

v1::Sharding ToProto(const Sharding& sharding) {
  v1::Sharding proto;
  proto.set_servers(sharding.servers);
  proto.set_shards(sharding.shards);
  proto.set_lanes(sharding.lanes);
  proto.set_replicas(sharding.replicas);
  proto.set_is_lockstep(sharding.is_lockstep);
  return proto;
}

Sharding FromProto(const v1::Sharding& proto) {
  return {.servers = proto.servers(),
          .shards = proto.shards(),
          .lanes = proto.lanes(),
          .replicas = proto.replicas(),
          .is_lockstep = proto.is_lockstep()};
}

v1::JournalMember ToProto(const MemberIdentity& member) {
  v1::JournalMember proto;
  proto.set_rank(member.rank);
  proto.set_local_rank(member.local_rank);
  proto.set_worker(member.worker);
  proto.set_incarnation(member.incarnation);
  proto.set_host(member.host);
  proto.set_host_key(member.host_key);
  proto.set_pid(member.pid);
  proto.set_data_address(member.data_address);
  proto.mutable_device()->set_kind(member.device.kind);
  proto.mutable_device()->set_index(member.device.index);
  proto.set_role(member.role);
  proto.set_resume_key_hash(member.resume_key_hash);
  proto.set_container(member.container);
  return proto;
}

MemberIdentity FromProto(const v1::JournalMember& proto) {
  return {.rank = proto.rank(),
          .local_rank = proto.local_rank(),
          .worker = proto.worker(),
          .incarnation = proto.incarnation(),
          .host = proto.host(),
          .host_key = proto.host_key(),
          .pid = proto.pid(),
          .data_address = proto.data_address(),
          .device = {proto.device().kind(), proto.device().index()},
          .role = proto.role(),
          .resume_key_hash = proto.resume_key_hash(),
          .container = proto.container()};
}

// ---- Records.

class Writer {
 public:
  explicit Writer(v1::JournalRecord& proto) : proto_(proto) {}

  void operator()(const JobCreatedRecord& record) {
    v1::JobCreated& created = *proto_.mutable_job_created();
    created.set_number(record.number);
    created.set_id(record.id);
    created.set_name(record.name);
    created.set_spec(record.spec);
    created.set_request_id(record.request_id);
    created.set_min_workers(record.min_workers);
    created.set_max_workers(record.max_workers);
    *created.mutable_settle() = ringmaster::ToProto(record.settle);
    created.set_total_steps(record.total_steps);
    created.set_keeps_checkpoints(record.keeps_checkpoints);
    created.set_is_benchmark(record.is_benchmark);
    created.set_runs_commands(record.runs_commands);
    created.set_owner(record.owner);
    created.set_priority(record.priority);
    created.set_queue(record.queue);
    if (record.sharding.shards > 0)
      *created.mutable_sharding() = ToProto(record.sharding);
    *created.mutable_time() = ringmaster::ToProto(record.time);
  }
  void operator()(const GenerationFormedRecord& record) {
    v1::GenerationFormed& formed = *proto_.mutable_generation_formed();
    formed.set_generation(record.generation);
    formed.set_job_id(record.job_id);
    for (size_t i = 0; i < record.members.size(); ++i) {
      v1::JournalMember& member = *formed.add_members();
      member = ToProto(record.members[i]);
      if (i < record.since.size()) member.set_since(record.since[i]);
    }
    formed.set_resume_step(record.resume_step);
    *formed.mutable_time() = ringmaster::ToProto(record.time);
    formed.set_is_rollback(record.is_rollback);
    for (const ShardPlacement& shard : record.placements)
      *formed.add_placements() = ringmaster::ToProto(shard);
    formed.set_formed_by(record.formed_by);
  }
  void operator()(const CancelRequestedRecord& record) {
    v1::CancelRequested& cancel = *proto_.mutable_cancel_requested();
    cancel.set_job_id(record.job_id);
    cancel.set_reason(record.reason);
    *cancel.mutable_time() = ringmaster::ToProto(record.time);
  }
  void operator()(const VerdictReachedRecord& record) {
    v1::VerdictReached& reached = *proto_.mutable_verdict_reached();
    reached.set_job_id(record.job_id);
    *reached.mutable_verdict() = record.verdict;
  }
  void operator()(const JobEndedRecord& record) {
    v1::JobEnded& ended = *proto_.mutable_job_ended();
    ended.set_job_id(record.job_id);
    ended.set_state(record.state);
    ended.set_exit_code(record.exit_code);
    ended.set_message(record.message);
    if (record.parameters_hash.has_value())
      ended.set_parameters_hash(*record.parameters_hash);
    if (record.verdict.has_value()) *ended.mutable_verdict() = *record.verdict;
    *ended.mutable_figures() = record.figures;
    if (record.sample.has_value()) *ended.mutable_sample() = *record.sample;
    if (record.bench.has_value()) *ended.mutable_bench() = *record.bench;
    *ended.mutable_time() = ringmaster::ToProto(record.time);
  }
  void operator()(const HostQuarantinedRecord& record) {
    v1::HostQuarantined& host = *proto_.mutable_host_quarantined();
    host.set_job_id(record.job_id);
    host.set_host_key(record.host_key);
    host.set_host(record.host);
    host.set_reason(record.reason);
    *host.mutable_end_time() = ringmaster::ToProto(record.end_time);
    *host.mutable_time() = ringmaster::ToProto(record.time);
    host.set_of_job(record.is_of_job);
    host.set_exit_code(record.exit_code);
    host.set_unfit(record.is_unfit);
  }
  void operator()(const CordonedRecord& record) {
    v1::Cordoned& cordoned = *proto_.mutable_cordoned();
    *cordoned.mutable_cordon() = CordonProto(record);
    cordoned.set_lifted(record.is_lifted);
  }
  void operator()(const JobChangedRecord& record) {
    v1::JobChanged& changed = *proto_.mutable_job_changed();
    changed.set_job_id(record.job_id);
    if (record.priority.has_value()) changed.set_priority(*record.priority);
    if (record.is_suspended.has_value())
      changed.set_suspended(*record.is_suspended);
    changed.set_reason(record.reason);
    changed.set_caller(record.caller.name);
    changed.set_place_after(record.place_after);
    if (record.min_workers.has_value())
      changed.set_min_workers(*record.min_workers);
    if (record.max_workers.has_value())
      changed.set_max_workers(*record.max_workers);
    if (record.queue.has_value()) changed.set_queue(*record.queue);
    *changed.mutable_time() = ringmaster::ToProto(record.time);
  }
  void operator()(const QueuesChangedRecord& record) {
    v1::QueuesChanged& changed = *proto_.mutable_queues_changed();
    *changed.mutable_file() = record.file;
    for (const auto& [queue, used] : record.used) {
      v1::QueueUse& use = *changed.add_uses();
      use.set_queue(queue);
      use.set_used_worker_seconds(used);
    }
    *changed.mutable_time() = ringmaster::ToProto(record.time);
  }
  void operator()(const JobSuspendedRecord& record) {
    v1::JobSuspended& suspended = *proto_.mutable_job_suspended();
    suspended.set_job_id(record.job_id);
    suspended.set_generation(record.generation);
    suspended.set_step(record.step);
    suspended.set_saved(record.is_saved);
    suspended.set_lacks_work(record.lacks_work);
    *suspended.mutable_time() = ringmaster::ToProto(record.time);
  }
  void operator()(const AuditedRecord& record) {
    *proto_.mutable_audited()->mutable_entry() = AuditEntryProto(record);
  }

 private:
  v1::JournalRecord& proto_;
};

JobCreatedRecord FromProto(const v1::JobCreated& created) {
  JobCreatedRecord record;
  record.number = created.number();
  record.id = created.id();
  record.name = created.name();
  record.spec = created.spec();
  record.request_id = created.request_id();
  record.min_workers = created.min_workers();
  record.max_workers = created.max_workers();
  record.settle = ringmaster::FromProto(created.settle());
  record.total_steps = created.total_steps();
  record.keeps_checkpoints = created.keeps_checkpoints();
  // No release has recorded these beside the spec.
  if (v1::JobSpec spec; spec.ParseFromString(record.spec)) {
    record.can_go_on_later = CanGoOnLater(spec);
    record.scale_limit = ScaleLimit(spec);
    record.needs = NeedsOf(spec);
    record.fails_on_write_error = FailsOnWriteError(spec);
    record.can_end_early = CanEndEarly(spec);
  }
  record.is_benchmark = created.is_benchmark();
  record.runs_commands = created.runs_commands();
  record.owner = created.owner();
  record.priority = created.priority();
  // Releases before queues left it out.
  if (!created.queue().empty()) record.queue = created.queue();
  if (created.has_sharding()) record.sharding = FromProto(created.sharding());
  record.time = ringmaster::FromProto(created.time());
  return record;
}

GenerationFormedRecord FromProto(const v1::GenerationFormed& formed) {
  GenerationFormedRecord record;
  record.generation = formed.generation();
  record.job_id = formed.job_id();
  for (const v1::JournalMember& member : formed.members()) {
    record.members.push_back(FromProto(member));
    if (member.since() != 0) record.since.push_back(member.since());
  }
  // All tell, or none.
  if (record.since.size() != record.members.size()) record.since.clear();
  record.resume_step = formed.resume_step();
  record.time = ringmaster::FromProto(formed.time());
  record.is_rollback = formed.is_rollback();
  for (const v1::ShardPlacement& shard : formed.placements())
    record.placements.push_back(ringmaster::FromProto(shard));
  record.formed_by = formed.formed_by();
  return record;
}

JobEndedRecord FromProto(const v1::JobEnded& ended) {
  JobEndedRecord record;
  record.job_id = ended.job_id();
  record.state = ended.state();
  record.exit_code = ended.exit_code();
  record.message = ended.message();
  if (ended.has_parameters_hash())
    record.parameters_hash = ended.parameters_hash();
  if (ended.has_verdict()) record.verdict = ended.verdict();
  record.figures = ended.figures();
  if (ended.has_sample()) record.sample = ended.sample();
  if (ended.has_bench()) record.bench = ended.bench();
  record.time = ringmaster::FromProto(ended.time());
  return record;
}

JobChangedRecord FromProto(const v1::JobChanged& changed) {
  JobChangedRecord record;
  record.job_id = changed.job_id();
  if (changed.has_priority()) record.priority = changed.priority();
  if (changed.has_suspended()) record.is_suspended = changed.suspended();
  record.reason = changed.reason();
  record.caller.name = changed.caller();
  record.time = ringmaster::FromProto(changed.time());
  record.place_after = changed.place_after();
  if (changed.has_min_workers()) record.min_workers = changed.min_workers();
  if (changed.has_max_workers()) record.max_workers = changed.max_workers();
  if (changed.has_queue()) record.queue = changed.queue();
  return record;
}

AuditedRecord FromProto(const v1::AuditEntry& entry) {
  AuditedRecord record;
  record.time = ringmaster::FromProto(entry.time());
  record.caller.name = entry.caller().name();
  record.caller.roles = entry.caller().roles();
  record.caller.address = entry.caller().address();
  record.action = entry.action();
  record.object = entry.object();
  record.request_id = entry.request_id();
  record.detail = entry.detail();
  return record;
}

}  // namespace

v1::Cordon CordonProto(const CordonedRecord& record) {
  v1::Cordon proto;
  proto.set_target(record.target);
  proto.set_drain(record.drains);
  proto.set_reason(record.reason);
  proto.set_caller(record.caller.name);
  *proto.mutable_time() = ringmaster::ToProto(record.time);
  if (record.due_time != absl::InfiniteFuture())
    *proto.mutable_due_time() = ringmaster::ToProto(record.due_time);
  return proto;
}

v1::AuditEntry AuditEntryProto(const AuditedRecord& record) {
  v1::AuditEntry entry;
  *entry.mutable_time() = ringmaster::ToProto(record.time);
  entry.mutable_caller()->set_name(record.caller.name);
  entry.mutable_caller()->set_roles(record.caller.roles);
  entry.mutable_caller()->set_address(record.caller.address);
  entry.set_action(record.action);
  entry.set_object(record.object);
  entry.set_request_id(record.request_id);
  entry.set_detail(record.detail);
  return entry;
}

v1::JournalRecord RecordToProto(const JournalRecord& record) {
  v1::JournalRecord proto;
  std::visit(Writer(proto), record);
  ReplaceInvalidTexts(proto);
  return proto;
}

WorkerNeeds NeedsOf(const v1::JobSpec& spec) {
  return {.labels = RequiredLabels(spec),
          .one_per_host = spec.workers().spread() == v1::WORKER_SPREAD_HOST,
          .memory_bytes = spec.workers().memory_bytes()};
}

std::optional<JournalRecord> RecordFromProto(const v1::JournalRecord& proto) {
  switch (proto.record_case()) {
    case v1::JournalRecord::kJobCreated:
      return FromProto(proto.job_created());
    case v1::JournalRecord::kGenerationFormed:
      return FromProto(proto.generation_formed());
    case v1::JournalRecord::kCancelRequested: {
      const v1::CancelRequested& cancel = proto.cancel_requested();
      return CancelRequestedRecord{cancel.job_id(), cancel.reason(),
                                   ringmaster::FromProto(cancel.time())};
    }
    case v1::JournalRecord::kVerdictReached:
      return VerdictReachedRecord{proto.verdict_reached().job_id(),
                                  proto.verdict_reached().verdict()};
    case v1::JournalRecord::kJobEnded:
      return FromProto(proto.job_ended());
    case v1::JournalRecord::kHostQuarantined: {
      const v1::HostQuarantined& host = proto.host_quarantined();
      return HostQuarantinedRecord{host.job_id(),
                                   host.host_key(),
                                   host.host(),
                                   host.reason(),
                                   ringmaster::FromProto(host.end_time()),
                                   ringmaster::FromProto(host.time()),
                                   host.of_job(),
                                   host.exit_code(),
                                   host.unfit()};
    }
    case v1::JournalRecord::kCordoned: {
      const v1::Cordon& cordon = proto.cordoned().cordon();
      CordonedRecord record{cordon.target(), proto.cordoned().lifted(),
                            cordon.drain(), cordon.reason(),
                            ringmaster::FromProto(cordon.time())};
      record.caller.name = cordon.caller();
      if (cordon.has_due_time())
        record.due_time = ringmaster::FromProto(cordon.due_time());
      return record;
    }
    case v1::JournalRecord::kJobChanged:
      return FromProto(proto.job_changed());
    case v1::JournalRecord::kJobSuspended: {
      const v1::JobSuspended& suspended = proto.job_suspended();
      return JobSuspendedRecord{suspended.job_id(),
                                suspended.generation(),
                                suspended.step(),
                                suspended.saved(),
                                ringmaster::FromProto(suspended.time()),
                                suspended.lacks_work()};
    }
    case v1::JournalRecord::kQueuesChanged: {
      const v1::QueuesChanged& changed = proto.queues_changed();
      QueuesChangedRecord record{.file = changed.file(),
                                 .time = ringmaster::FromProto(changed.time())};
      for (const v1::QueueUse& use : changed.uses()) {
        record.used[use.queue()] = use.used_worker_seconds();
      }
      return record;
    }
    case v1::JournalRecord::kAudited:
      return FromProto(proto.audited().entry());
    case v1::JournalRecord::RECORD_NOT_SET:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace ringmaster::coordinator
