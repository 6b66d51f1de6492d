#include "server/coordinator/core/life/attach.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol/labels.h"
#include "common/status/reason.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/rebuild.h"
#include "server/coordinator/core/life/reform.h"

namespace ringmaster::coordinator {
namespace {

// Takes over what the hello says about the worker itself.
void Describe(Worker& worker, const HelloReceived& hello,
              const Config& config) {
  worker.name = hello.name;
  worker.incarnation = hello.incarnation;
  worker.attempt = hello.attempt;
  worker.resume_key_hash = hello.resume_key_hash;
  worker.caller = hello.caller;
  worker.role = hello.role;
  worker.device = hello.device;
  worker.host = hello.host;
  worker.host_key = hello.host_key.empty() ? hello.host : hello.host_key;
  worker.container = hello.container;
  worker.pid = hello.pid;
  worker.data_address = hello.data_address;
  worker.version = hello.version;
  worker.protocol = std::min(hello.protocol_max, config.protocol_max);
  worker.costs = hello.costs;
  worker.can_rehearse = hello.can_rehearse;
  worker.can_probe = hello.can_probe;
  worker.sends_logs = hello.sends_logs;
  worker.records_collectives = hello.records_collectives;
  worker.runs_commands = hello.runs_commands;
  worker.labels = hello.labels;
  worker.labels[kHostLabel] = hello.host;
  worker.labels[kDeviceLabel] =
      hello.device.kind == v1::DEVICE_KIND_CUDA ? kCudaDevice : kCpuDevice;
  worker.memory_bytes = hello.memory_bytes;
  worker.log_file = hello.log_file;
}

void BindSession(Turn& turn, Worker& worker, SessionId session) {
  worker.session = session;
  worker.is_cut_off = false;
  worker.last_heard = turn.now;
  turn.state.sessions[session] = worker.name;
  turn.state.lease_check =
      std::min(turn.state.lease_check, turn.now + turn.config.lease);
  turn.Do(SendWelcome{session, worker.protocol});
}

// For a worker that believes it is in a generation of which it is not a member.
void ReleaseStray(Turn& turn, const Worker& worker, int64_t generation) {
  if (generation == 0) return;
  SendRelease release = {
      .session = worker.session,
      .generation = generation,
      .message = absl::StrCat("generation ", generation, " is over for worker ",
                              worker.name)};
  for (const auto& [number, job] : turn.state.jobs) {
    if (job.generation != generation) continue;
    release.state = job.state();
    release.exit_code = job.state() == v1::JOB_STATE_FAILED ? job.exit_code : 0;
  }
  turn.Do(std::move(release));
}

// Members that have not attached again, but for those whose peers' steps prove that
// they train.
bool HasDetached(const State& state, const Job& job) {
  return std::any_of(state.workers.begin(), state.workers.end(),
                     [&job](const auto& entry) {
                       const Worker& worker = entry.second;
                       return worker.job_id == job.id && worker.session == 0 &&
                              !worker.is_cut_off;
                     });
}

bool HasCutOff(const State& state, const Job& job) {
  return std::any_of(
      state.workers.begin(), state.workers.end(), [&job](const auto& entry) {
        return entry.second.job_id == job.id && entry.second.is_cut_off;
      });
}

void NoteReattached(Turn& turn, Job& job) {
  if (job.reattach_deadline == MonotonicTime::InfiniteFuture() ||
      HasDetached(turn.state, job)) {
    return;
  }
  job.reattach_deadline = MonotonicTime::InfiniteFuture();
  job.last_progress = turn.now;
  job.message =
      absl::StrCat("all ", RanksText(job), " attached again",
                   HasCutOff(turn.state, job)
                       ? ", or their peers' steps show that they train"
                       : "",
                   job.is_recovered ? " after the coordinator's restart" : "");
  turn.Touch(job);
  turn.Emit(v1::EVENT_SEVERITY_INFO, "job.reattached", job, "", job.message);
  turn.ScheduleSoon();
}

// It is in the job's generation.
void SendMissed(Turn& turn, Job& job, const Worker& worker,
                const Member& member) {
  // As of its last beat. Such a phase shows that it has heard the start.
  const bool has_begun =
      worker.phase == v1::PHASE_CONNECT || worker.phase == v1::PHASE_STEP ||
      worker.phase == v1::PHASE_EVALUATE || worker.phase == v1::PHASE_COMMAND ||
      member.finished.has_value();
  const bool is_under_way = job.state() == v1::JOB_STATE_RUNNING ||
                            job.state() == v1::JOB_STATE_STOPPING;
  if (is_under_way && !job.is_recovered && !has_begun) {
    turn.Do(SendStart{worker.session, job.generation});
  }
  if (job.state() == v1::JOB_STATE_STOPPING) {
    if (member.identity.role != v1::ROLE_WORKER) return;
    turn.Do(SendStop{worker.session, job.generation,
                     job.cancel_reason.value_or("")});
  } else if (auto* const halting = std::get_if<stage::Halting>(&job.stage);
             halting != nullptr && !member.halted.has_value()) {
    // It hears of the halt only now, and gets as long as the others to answer.
    halting->deadline =
        std::max(halting->deadline, turn.now + turn.config.halt_budget);
    turn.Do(SendHalt{worker.session, worker.generation,
                     HaltVerdict(job, turn.time)});
  }
}

// It pulls everything that it needs from the holders of the job's shards.
bool IsStateless(const Job& job, const Member& member) {
  return job.sharding.shards > 0 && !HoldsShards(job, member.identity.role);
}

// It has not heard of the job's generation, which was assigned when its stream
// was broken or the coordinator was down.
void ResumeOlder(Turn& turn, Job& job, Worker& worker, Member& member) {
  // Without a generation it holds no step, which is enough if none is needed.
  // It has not prepared the generation, so the generation has not begun.
  if (job.is_recovered) job.has_trained = false;
  const bool is_needless =
      job.resume_step == 0 || member.is_newcomer || IsStateless(job, member);
  if (job.state() == v1::JOB_STATE_PREPARING &&
      (worker.generation != 0 || is_needless)) {
    // The worker will hear of a generation that is forming.
    if (!IsForming(job)) SendAssignmentTo(turn, job, member);
    return;
  }
  if (worker.generation == 0) {
    MakeBlank(turn, job, worker, member);
    return;
  }
  if (job.state() == v1::JOB_STATE_HALTING) {
    SendMissed(turn, job, worker, member);
    return;
  }
  if (IsWaiting(job)) return;  // It has halted.
  if (!job.is_recovered) {
    // All members have prepared the generation, including this one.
    Evict(turn, std::string(worker.name),
          EvidenceOf(
              v1::EVIDENCE_KIND_SUPERSEDED, kCoordinatorObserver,
              absl::StrCat("it attached again in generation ",
                           worker.generation, " instead of ", job.generation)));
    return;
  }
  BeginHalt(turn, job, IntentOf(job),
            VerdictOnNobody(
                job,
                absl::StrCat("the coordinator restarted before ", "worker ",
                             worker.name, " had heard of the generation"),
                turn.time));
}

void RejoinJob(Turn& turn, Job& job, Worker& worker, Member& member,
               const HelloReceived& hello) {
  // A journal of an earlier release did not have it.
  member.identity.resume_key_hash = hello.resume_key_hash;
  if (worker.state == v1::WORKER_STATE_DETACHED) {
    worker.state = v1::WORKER_STATE_ASSIGNED;
  }
  // A generation of an earlier job, or from before it was lost and joined
  // again, counts as none.
  const bool is_of_job =
      hello.generation >= member.since && hello.generation <= job.generation;
  worker.generation = is_of_job ? hello.generation : 0;
  if (is_of_job) {
    if (hello.generation >= job.counted_since && CountsSteps(job, member)) {
      NoteAppliedStep(job, worker, member, hello.applied_step);
      job.best_step = std::max(job.best_step, member.step);
    }
  } else {
    ReleaseStray(turn, worker, hello.generation);
  }
  NoteReattached(turn, job);
  if (job.ending.has_value()) return;
  if (worker.generation == job.generation) {
    SendMissed(turn, job, worker, member);
  } else {
    ResumeOlder(turn, job, worker, member);
  }
}

}  // namespace

void Join(Turn& turn, const HelloReceived& hello) {
  Worker worker;
  Describe(worker, hello, turn.config);
  worker.join_time = turn.time;
  worker.join_order = ++turn.state.last_join_order;
  worker.joined_at = turn.now;
  Worker& added =
      turn.state.workers.emplace(hello.name, std::move(worker)).first->second;
  BindSession(turn, added, hello.session);
  if (!TakeReport(turn, added, hello) && !KeepsSteps(turn, added, hello)) {
    ReleaseStray(turn, added, hello.generation);
  }
  turn.Touch();
  turn.Emit(v1::EVENT_SEVERITY_INFO, "worker.joined", added.name,
            absl::StrCat("worker ", added.name, " joined from host ",
                         added.host, ", pid ", added.pid));
  ContinueRebuilding(turn);
  turn.ScheduleSoon();
}

void AttachAgain(Turn& turn, const HelloReceived& hello) {
  Worker& worker = *turn.state.FindWorker(hello.name);
  if (worker.session != 0) {
    turn.state.sessions.erase(worker.session);
    turn.Do(CloseSession{
        worker.session,
        WithReason(absl::AbortedError("the worker opened a newer stream"),
                   reason::kSuperseded)});
  }
  Describe(worker, hello, turn.config);
  BindSession(turn, worker, hello.session);
  turn.Touch();
  turn.Emit(v1::EVENT_SEVERITY_INFO, "worker.reattached", worker.name,
            absl::StrCat("worker ", worker.name, " attached again from host ",
                         worker.host, " in generation ", hello.generation));
  if (TakeReport(turn, worker, hello)) {
    ContinueRebuilding(turn);
    return;
  }
  Member* const member = MemberOf(turn.state, worker);
  if (member == nullptr) {
    if (worker.state == v1::WORKER_STATE_DETACHED) {
      worker.state = v1::WORKER_STATE_IDLE;
    }
    // It reported a generation earlier, and no longer does.
    ReturnToPool(turn, worker);
    if (!KeepsSteps(turn, worker, hello)) {
      ReleaseStray(turn, worker, hello.generation);
    }
    ContinueRebuilding(turn);
    return;
  }
  Job& job = *turn.state.JobOf(worker);
  if (turn.state.other.has_value() &&
      turn.state.other->known_job_id == job.id) {
    turn.state.other->is_outweighed = true;
  }
  RejoinJob(turn, job, worker, *member, hello);
}

Worker DetachedWorker(const MemberIdentity& identity, const Job& job) {
  Worker worker;
  worker.name = identity.worker;
  worker.incarnation = identity.incarnation;
  worker.resume_key_hash = identity.resume_key_hash;
  worker.state = v1::WORKER_STATE_DETACHED;
  worker.role = identity.role;
  worker.device = identity.device;
  worker.host = identity.host;
  worker.host_key = identity.host_key;
  worker.container = identity.container;
  worker.pid = identity.pid;
  worker.data_address = identity.data_address;
  worker.join_time = job.start_time;
  worker.job_id = job.id;
  worker.rank = identity.rank;
  worker.generation = job.generation;
  worker.step = job.resume_step;
  return worker;
}

}  // namespace ringmaster::coordinator
