#include "server/coordinator/rpc/state_proto.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_format.h"
#include "common/protocol/proto_time.h"
#include "common/protocol/redact.h"
#include "server/coordinator/core/account/explain.h"
#include "server/coordinator/core/account/goodput.h"
#include "server/coordinator/core/account/straggler.h"
#include "server/coordinator/core/placement/forecast.h"
#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/placement/quotas.h"
#include "server/coordinator/core/state/formed.h"
#include "server/coordinator/journal/record_proto.h"

namespace ringmaster::coordinator {
namespace {

void SetTime(absl::Time time, google::protobuf::Timestamp* proto) {
  *proto = ToProto(time);
}

// The coordinates of a rank. Today all ranks are on the data axis.
v1::Mesh MeshProto(int rank, int world_size) {
  v1::Mesh mesh;
  mesh.set_data_size(world_size);
  mesh.set_tensor_size(1);
  mesh.set_pipeline_size(1);
  mesh.set_data_index(rank);
  return mesh;
}

v1::Quarantine QuarantineProto(const HostQuarantine& quarantine) {
  v1::Quarantine proto;
  proto.set_host_key(quarantine.host_key);
  proto.set_host(quarantine.host);
  SetTime(quarantine.end_time, proto.mutable_end_time());
  proto.set_reason(quarantine.reason);
  proto.set_job_id(quarantine.job_id);
  return proto;
}

void SetStraggler(const Job& job, v1::Job& proto) {
  const std::optional<Straggler> straggler = FindStraggler(job);
  if (!straggler.has_value()) return;
  const Member& member = job.members[static_cast<size_t>(straggler->rank)];
  *proto.mutable_straggler()->mutable_member() = MemberProto(
      member.identity, MemberCount(job, v1::ROLE_WORKER), member.step);
  proto.mutable_straggler()->set_wait_ratio(straggler->wait_ratio);
}

void SetSignsOfLife(const State& state, const Job& job, const Member& member,
                    v1::Member& proto) {
  const Worker* const worker = state.FindWorker(member.identity.worker);
  if (member.is_lost || worker == nullptr || worker->job_id != job.id) return;
  proto.set_phase(worker->phase);
  *proto.mutable_last_heard_age() =
      ToProto(std::max(state.now - worker->last_heard, absl::ZeroDuration()));
  if (worker->waiting_for_rank >= 0)
    proto.set_waiting_for_rank(worker->waiting_for_rank);
}

v1::Queue QueueProto(const Queue& queue, const QueueFigures& figures) {
  v1::Queue proto;
  *proto.mutable_spec() = queue.spec;
  proto.set_workers(figures.workers);
  proto.set_needed_workers(figures.needed);
  proto.set_borrowed_workers(figures.borrowed);
  proto.set_gpus(figures.gpus);
  proto.set_active_jobs(figures.active_jobs);
  proto.set_queued_jobs(figures.queued_jobs);
  proto.set_used_worker_seconds(queue.used);
  return proto;
}

void SetIncidents(const State& state, const Job& job, MemberDetail detail,
                  v1::Job& proto) {
  const bool is_last_only = detail == MemberDetail::kNone;
  for (const v1::Incident& incident : job.incidents) {
    if (is_last_only && &incident != &job.incidents.back()) continue;
    *proto.add_incidents() = incident;
  }
  *proto.mutable_goodput() = GoodputProto(state, job);
}

}  // namespace

v1::Goodput GoodputProto(const State& state, const Job& job) {
  const Goodput goodput = GoodputAt(job, state.now);
  v1::Goodput proto;
  *proto.mutable_waiting() = ToProto(goodput.waiting);
  *proto.mutable_starting() = ToProto(goodput.starting);
  *proto.mutable_training() = ToProto(goodput.training);
  *proto.mutable_detecting() = ToProto(goodput.detecting);
  *proto.mutable_recovering() = ToProto(goodput.recovering);
  *proto.mutable_repeating() = ToProto(goodput.repeating);
  *proto.mutable_stopping() = ToProto(goodput.stopping);
  *proto.mutable_total() = ToProto(goodput.Total());
  proto.set_ratio(goodput.Ratio());
  proto.set_incidents(job.incidents.empty() ? 0
                                            : job.incidents.back().number());
  return proto;
}

v1::Member MemberProto(const MemberIdentity& member, int world_size,
                       int64_t step) {
  v1::Member proto;
  proto.set_rank(member.rank);
  proto.set_local_rank(member.local_rank);
  proto.set_worker(member.worker);
  proto.set_host(member.host);
  proto.set_pid(member.pid);
  proto.set_data_address(member.data_address);
  proto.set_step(step);
  proto.set_role(member.role);
  if (member.role == v1::ROLE_WORKER) {
    *proto.mutable_mesh() = MeshProto(member.rank, world_size);
  }
  return proto;
}

v1::Worker WorkerProto(const State& state, const Worker& worker,
                       MonotonicTime now) {
  v1::Worker proto;
  proto.set_name(worker.name);
  proto.set_state(worker.state);
  proto.set_role(worker.role);
  proto.mutable_device()->set_kind(worker.device.kind);
  proto.mutable_device()->set_index(worker.device.index);
  proto.set_host(worker.host);
  proto.set_pid(worker.pid);
  proto.set_incarnation(worker.incarnation);
  proto.set_data_address(worker.data_address);
  proto.set_job_id(worker.job_id);
  proto.set_rank(worker.rank);
  proto.set_generation(worker.generation);
  proto.set_step(worker.step);
  proto.set_phase(worker.phase);
  *proto.mutable_last_beat_age() =
      ToProto(std::max(now - worker.last_heard, absl::ZeroDuration()));
  SetTime(worker.join_time, proto.mutable_join_time());
  proto.set_version(worker.version);
  proto.set_log_file(worker.log_file);
  proto.set_runs_commands(worker.runs_commands);
  proto.mutable_labels()->insert(worker.labels.begin(), worker.labels.end());
  proto.set_memory_bytes(worker.memory_bytes);
  if (worker.certificate_end.has_value()) {
    SetTime(*worker.certificate_end, proto.mutable_certificate_expire_time());
  }
  if (const Cordon* const cordon = state.CordonOf(worker)) {
    *proto.mutable_cordon() = CordonProto(*cordon);
  }
  return proto;
}

QueueOutlook::QueueOutlook(const State& state)
    : positions_(QueuePositions(state)) {
  for (const auto& [number, forecast] : ForecastStarts(state, kMostForecasts)) {
    if (forecast.until_start.has_value())
      waits_.emplace(number, *forecast.until_start);
  }
}

QueueOutlook::QueueOutlook(const State& state, const Job& job) {
  const int position = state.QueuePosition(job);
  positions_.emplace(&job, position);
  if (!WaitsToBegin(job) || position >= static_cast<int>(kMostForecasts))
    return;
  const Forecast forecast = ForecastStart(state, job);
  if (forecast.until_start.has_value())
    waits_.emplace(job.number, *forecast.until_start);
}

void QueueOutlook::Set(const Job& job, v1::Job& proto) const {
  const auto position = positions_.find(&job);
  if (position != positions_.end()) proto.set_queue_position(position->second);
  if (const auto wait = waits_.find(job.number); wait != waits_.end())
    *proto.mutable_predicted_wait() = ToProto(wait->second);
}

v1::Membership MembershipProto(const Membership& membership) {
  v1::Membership proto;
  proto.set_generation(membership.generation);
  SetTime(membership.start_time, proto.mutable_start_time());
  if (membership.end_time != absl::InfiniteFuture())
    SetTime(membership.end_time, proto.mutable_end_time());
  proto.set_first_step(membership.first_step);
  for (const std::string& worker : membership.workers)
    proto.add_workers(worker);
  return proto;
}

v1::Job JobProto(const State& state, const Job& job, MemberDetail members,
                 const QueueOutlook* outlook) {
  v1::Job proto;
  proto.set_id(job.id);
  proto.set_request_id(job.request_id);
  proto.set_owner(job.owner);
  proto.set_priority(job.priority);
  proto.set_suspended(job.is_suspended);
  proto.set_queue(job.queue);
  proto.set_borrows(job.place.borrows);
  // Checked when it was submitted; a spec of an older journal that no longer
  // parses is shown as far as it does.
  proto.mutable_spec()->ParsePartialFromString(job.spec);
  proto.mutable_spec()->mutable_workers()->set_min(job.min_workers);
  proto.mutable_spec()->mutable_workers()->set_max(job.max_workers);
  Redact(*proto.mutable_spec());
  proto.set_state(job.state());
  proto.set_generation(job.generation);
  if (members == MemberDetail::kAll) {
    const int world_size = MemberCount(job, v1::ROLE_WORKER);
    for (const Member& member : job.members) {
      v1::Member& shown = *proto.add_members();
      shown = MemberProto(member.identity, world_size, member.step);
      if (member.rank_figures != nullptr)
        *shown.mutable_figures() = *member.rank_figures;
      shown.set_checkpoint_error(member.checkpoint_error);
      SetSignsOfLife(state, job, member, shown);
    }
  }
  const bool has_steps =
      !proto.spec().has_bench() && !proto.spec().has_external();
  if (job.generation > 0 && has_steps) *proto.mutable_figures() = job.figures;
  if (job.resumption.has_value()) *proto.mutable_resumption() = *job.resumption;
  if (job.sample.has_value()) *proto.mutable_sample() = *job.sample;
  proto.set_message(job.message);
  if (job.verdict.has_value()) *proto.mutable_verdict() = *job.verdict;
  SetIncidents(state, job, members, proto);
  SetStraggler(job, proto);
  proto.set_exit_code(job.exit_code);
  if (outlook != nullptr) {
    outlook->Set(job, proto);
  } else {
    QueueOutlook(state, job).Set(job, proto);
  }
  if (job.predicted_start_time != absl::InfinitePast()) {
    SetTime(job.predicted_start_time, proto.mutable_predicted_start_time());
  }
  SetTime(job.create_time, proto.mutable_create_time());
  if (job.start_time != absl::InfinitePast()) {
    SetTime(job.start_time, proto.mutable_start_time());
  }
  if (job.end_time != absl::InfinitePast()) {
    SetTime(job.end_time, proto.mutable_end_time());
  }
  if (job.bench.has_value()) *proto.mutable_bench() = *job.bench;
  // Without steps there are no parameters either.
  if (job.parameters_hash.has_value() && has_steps) {
    proto.set_parameters_hash(absl::StrFormat("%016x", *job.parameters_hash));
  }
  return proto;
}

v1::Status StatusFrame(const StatusSource& source) {
  const State& state = source.state;
  const CoordinatorIdentity& self = source.self;
  v1::Status proto;
  proto.set_revision(static_cast<int64_t>(state.revision));
  SetTime(source.time, proto.mutable_time());
  v1::Coordinator& coordinator = *proto.mutable_coordinator();
  coordinator.set_version(self.version);
  coordinator.set_incarnation(self.incarnation);
  SetTime(self.start_time, coordinator.mutable_start_time());
  coordinator.set_pid(self.pid);
  coordinator.set_host(self.host);
  coordinator.set_journal_error(JournalFault(state, source.journal_wait));
  coordinator.set_last_generation(state.last_generation);
  coordinator.set_other_coordinator(OtherCoordinatorText(state));
  coordinator.set_requires_encryption(self.requires_encryption);
  for (const HostQuarantine& quarantine : state.quarantines) {
    if (!IsInForce(state, quarantine)) continue;
    *proto.add_quarantines() = QuarantineProto(quarantine);
  }
  for (const auto& [target, cordon] : state.cordons) {
    *proto.add_cordons() = CordonProto(cordon);
  }
  for (const auto& [name, figures] : FiguresOfQueues(state)) {
    *proto.add_queues() =
        QueueProto(state.queues.at(std::string(name)), figures);
  }
  return proto;
}

std::vector<const Job*> ShownJobs(const State& state,
                                  const StatusFilter& filter) {
  std::vector<const Job*> shown;
  int ended_count = 0;
  for (auto it = state.jobs.rbegin(); it != state.jobs.rend(); ++it) {
    const Job& job = it->second;
    if (!filter.Matches(job)) continue;
    if (IsEnded(job.state()) && ++ended_count > kMaxEndedJobsShown) continue;
    shown.push_back(&job);
  }
  return shown;
}

v1::Job StatusJobProto(const State& state, const Job& job,
                       const QueueOutlook& outlook) {
  return JobProto(
      state, job,
      IsEnded(job.state()) ? MemberDetail::kNone : MemberDetail::kAll,
      &outlook);
}

v1::Status StatusProto(const StatusSource& source, const StatusFilter& filter,
                       const QueueOutlook* outlook) {
  const State& state = source.state;
  v1::Status proto = StatusFrame(source);
  for (const auto& [name, worker] : state.workers) {
    if (filter.Matches(state, worker))
      *proto.add_workers() = WorkerProto(state, worker, source.now);
  }
  std::optional<QueueOutlook> own;
  if (outlook == nullptr) outlook = &own.emplace(state);
  for (const Job* const job : ShownJobs(state, filter))
    *proto.add_jobs() = StatusJobProto(state, *job, *outlook);
  return proto;
}

}  // namespace ringmaster::coordinator
