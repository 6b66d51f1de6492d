#include "server/coordinator/core/life/message_bounds.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {
namespace {

// As job.proto allows train.steps, so no checkpoint is of a later one.
constexpr int64_t kMaxSteps = 1'000'000'000'000;

int64_t LastStepOf(const JobTerms& terms, bool may_be_loaded) {
  return terms.keeps_checkpoints && may_be_loaded
             ? std::max(terms.total_steps, kMaxSteps)
             : terms.total_steps;
}

absl::Status Check(const char* field, int64_t value, int64_t low,
                   int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "says ", field, " ", value, "; it must be in [", low, ", ", high, "]"));
}

absl::Status CheckFigures(const Job& job, const v1::TrainingFigures& figures) {
  const int64_t last = LastStep(job);
  RETURN_IF_ERROR(Check("figures.step", figures.step(), 0, last));
  RETURN_IF_ERROR(
      Check("figures.checkpoint_step", figures.checkpoint_step(), 0, last));
  return Check("figures.evaluation_step", figures.evaluation_step(), 0, last);
}

// The active job whose generation `hello` may tell of; or null.
const Job* JobOfHello(const State& state, const HelloReceived& hello) {
  const Worker* const known = state.FindWorker(hello.name);
  if (known != nullptr && known->incarnation == hello.incarnation) {
    if (const Job* const job = state.JobOf(*known)) return job;
  }
  return JobAbsentFrom(state, hello.name, hello.incarnation);
}

// Returns true if a worker of that name may have been a member of `job` in that
// generation. Those before and after may be another job's.
bool MayBeOf(const Job& job, const std::string& name, int64_t generation) {
  for (const Member& member : job.members) {
    if (member.identity.worker == name)
      return member.since <= generation && generation <= job.generation;
  }
  for (const AbsentMember& absent : job.absence.members) {
    if (absent.member.identity.worker == name) {
      return absent.member.since <= generation &&
             generation <= absent.generation;
    }
  }
  return job.first_generation <= generation && generation <= job.generation;
}

absl::Status CheckSteps(const Job& job, const BeatReceived& beat) {
  RETURN_IF_ERROR(Check("beat.step", beat.step, 0, LastStep(job)));
  return CheckFigures(job, beat.figures);
}

int64_t LastRank(const Job& job) {
  return static_cast<int64_t>(job.members.size()) - 1;
}

// The number of workers in a generation whose flight record may be asked for; 0 if
// `generation` is none.
int WorldSizeIn(const Job& job, int64_t generation) {
  if (generation == job.generation) return MemberCount(job, v1::ROLE_WORKER);
  const bool is_last =
      job.last_flight.has_value() && job.last_flight->generation == generation;
  return is_last ? job.last_flight->world_size : 0;
}

// The checks of a message in its job. `member`: its sender, if the message is about
// the present generation.
struct BoundsVisitor {
  const State& state;
  const Worker& worker;

  absl::Status operator()(const BeatReceived& beat) const {
    RETURN_IF_ERROR(CheckGeneration("beat.generation", beat.generation));
    const Member* const member = MemberIn(state, worker, beat.generation);
    if (member == nullptr) return absl::OkStatus();
    const Job& job = *state.JobOf(worker);
    RETURN_IF_ERROR(Check("beat.waiting_for_rank", beat.waiting_for_rank, -1,
                          LastRank(job)));
    return member->prepared.has_value() ? CheckSteps(job, beat)
                                        : absl::OkStatus();
  }

  absl::Status operator()(const PreparedReceived& prepared) const {
    return CheckGeneration("prepared.generation", prepared.generation);
  }

  absl::Status operator()(const HaltedReceived& halted) const {
    RETURN_IF_ERROR(CheckGeneration("halted.generation", halted.generation));
    if (!IsOfJob(halted.generation)) return absl::OkStatus();
    const Job& job = *SpokenOf();
    const int64_t last = LastStep(job);
    RETURN_IF_ERROR(Check("halted.applied_step", halted.applied_step, 0, last));
    RETURN_IF_ERROR(
        Check("halted.complete_step", halted.complete_step, 0, last));
    for (const HeldShard& held : halted.shards) {
      RETURN_IF_ERROR(
          Check("halted.shards.shard", held.shard, 0, job.sharding.shards - 1));
      RETURN_IF_ERROR(
          Check("halted.shards.complete_step", held.complete_step, 0, last));
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const SuspicionReceived& suspicion) const {
    RETURN_IF_ERROR(
        CheckGeneration("suspicion.generation", suspicion.generation));
    const Member* const member = MemberIn(state, worker, suspicion.generation);
    if (member == nullptr) return absl::OkStatus();
    const Job& job = *state.JobOf(worker);
    RETURN_IF_ERROR(
        Check("suspicion.peer_rank", suspicion.peer_rank, 0, LastRank(job)));
    if (suspicion.peer_rank == member->identity.rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("says suspicion.peer_rank ", suspicion.peer_rank,
                       "; it must be another's"));
    }
    // It is at the step after the last that it applied.
    return Check("suspicion.step", suspicion.step, 0, LastStep(job) + 1);
  }

  absl::Status operator()(const FinishedReceived& finished) const {
    RETURN_IF_ERROR(
        CheckGeneration("finished.generation", finished.generation));
    const Member* const member = MemberIn(state, worker, finished.generation);
    if (member == nullptr) return absl::OkStatus();
    const Job& job = *state.JobOf(worker);
    // A parameter server that holds no shard knows of no step.
    const bool is_at_end = !finished.is_stopped && !job.can_end_early &&
                           member->identity.role == v1::ROLE_WORKER;
    RETURN_IF_ERROR(Check("finished.step", finished.step,
                          is_at_end ? job.total_steps : 0, LastStep(job)));
    return CheckFigures(job, finished.figures);
  }

  absl::Status operator()(const FailedReceived& failed) const {
    RETURN_IF_ERROR(CheckGeneration("failed.generation", failed.generation));
    if (!IsOfJob(failed.generation)) return absl::OkStatus();
    // A command's failure is its job's.
    const Job& job = *SpokenOf();
    if (failed.is_of_job && !job.fails_on_write_error && !job.runs_commands) {
      return absl::InvalidArgumentError(
          "says failed.of_job true; it must be false of a job whose "
          "train.checkpoint.on_error is not fail");
    }
    return CheckStep("failed.step", failed.step);
  }

  absl::Status operator()(const LeavingReceived& leaving) const {
    return leaving.is_done ? CheckStep("leaving.step", leaving.step)
                           : absl::OkStatus();
  }

  absl::Status operator()(const NoticeReceived& event) const {
    const v1::Notice& notice = event.notice;
    RETURN_IF_ERROR(CheckGeneration("notice.generation", notice.generation()));
    if (MemberIn(state, worker, notice.generation()) == nullptr) {
      return absl::OkStatus();
    }
    const int64_t last = LastStep(*state.JobOf(worker));
    RETURN_IF_ERROR(Check("notice.step", notice.step(), 0, last));
    return Check("notice.sample.step", notice.sample().step(), 0, last);
  }

  absl::Status operator()(const ProbedReceived& event) const {
    const v1::Probed& probed = event.probed;
    RETURN_IF_ERROR(CheckGeneration("probed.generation", probed.generation()));
    const Member* const member = MemberIn(state, worker, probed.generation());
    if (member == nullptr) return absl::OkStatus();
    // It may answer an early probe that another one has replaced.
    for (const v1::ProbeResult& result : probed.results()) {
      const int rank = result.peer_rank();
      RETURN_IF_ERROR(Check("probed.results.peer_rank", rank, 0,
                            LastRank(*state.JobOf(worker))));
      if (rank == member->identity.rank) {
        return absl::InvalidArgumentError(absl::StrCat(
            "says probed.results.peer_rank ", rank, "; it must be another's"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status operator()(const HeardFrom& event) const {
    if (event.collectives == nullptr) return absl::OkStatus();
    const v1::RankTrace& trace = *event.collectives;
    RETURN_IF_ERROR(CheckGeneration("trace.generation", trace.generation()));
    const Job* const job = state.JobOf(worker);
    if (job == nullptr) return absl::OkStatus();
    const int world_size = WorldSizeIn(*job, trace.generation());
    if (world_size == 0) return absl::OkStatus();
    for (const v1::TraceSpan& span : trace.spans()) {
      // It is at the step after the last that it applied.
      RETURN_IF_ERROR(
          Check("trace.spans.step", span.step(), 0, LastStep(*job) + 1));
      if (!span.has_awaited_rank()) continue;
      RETURN_IF_ERROR(Check("trace.spans.awaited_rank", span.awaited_rank(), 0,
                            world_size - 1));
    }
    return absl::OkStatus();
  }

  // The others have nothing to check.
  template <typename Other>
  absl::Status operator()(const Other&) const {
    return absl::OkStatus();
  }

 private:
  absl::Status CheckGeneration(const char* field, int64_t generation) const {
    return Check(field, generation, 0, state.last_generation);
  }

  // Returns true if the worker, a member or one that was, speaks of the generation
  // that it is in.
  bool IsOfJob(int64_t generation) const {
    return generation == worker.generation && SpokenOf() != nullptr;
  }

  // The job that it is a member of, or was; or null.
  const Job* SpokenOf() const {
    return MemberOf(state, worker) != nullptr
               ? state.JobOf(worker)
               : state.FindJob(worker.keeps_steps_of);
  }

  // Until it has prepared, a member may tell of the job before; see HasPossibleSteps.
  absl::Status CheckStep(const char* field, int64_t step) const {
    const Member* const member = MemberOf(state, worker);
    return member != nullptr && member->prepared.has_value()
               ? Check(field, step, 0, LastStep(*state.JobOf(worker)))
               : absl::OkStatus();
  }
};

}  // namespace

int64_t LastStep(const Job& job) {
  return LastStepOf(job, job.best_step == 0 || job.best_step > job.total_steps);
}

bool HasPossibleSteps(const Job& job, const BeatReceived& beat) {
  return CheckSteps(job, beat).ok();
}

absl::Status CheckMessage(const State& state, const Worker& worker,
                          const EventBody& body) {
  return std::visit(BoundsVisitor{state, worker}, body);
}

absl::Status CheckNumber(const State& state, const HelloReceived& hello) {
  return Check("hello.generation", hello.generation, 0,
               state.last_generation + kMaxNumberJump);
}

absl::Status CheckSteps(const State& state, const HelloReceived& hello) {
  const Job* const job = JobOfHello(state, hello);
  if (job != nullptr && hello.generation != 0 &&
      MayBeOf(*job, hello.name, hello.generation)) {
    RETURN_IF_ERROR(
        Check("hello.applied_step", hello.applied_step, 0, LastStep(*job)));
  }
  if (!hello.held_job.has_value()) return absl::OkStatus();
  const int64_t last = LastStepOf(*hello.held_job, /*may_be_loaded=*/true);
  RETURN_IF_ERROR(Check("hello.applied_step", hello.applied_step, 0, last));
  return Check("hello.held_job.resume_step", hello.held_job->resume_step, 0,
               last);
}

}  // namespace ringmaster::coordinator
