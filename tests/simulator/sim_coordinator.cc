#include "tests/simulator/sim_coordinator.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "common/status/reason.h"
#include "server/coordinator/core/life/own_failure.h"
#include "server/coordinator/core/life/quarantine.h"
#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/testing/action_text.h"
#include "server/coordinator/core/testing/retained.h"
#include "tests/simulator/assignment_payload.h"

namespace ringmaster::simulator {

using coordinator::SessionId;

// ---- The process.

void SimCoordinator::Start() {
  if (is_alive()) return;
  ++life_;
  stalled_until_ = 0;
  timer_.Reset();
  if (journal_.empty()) {
    core_.emplace(context_.shape.config, life_);
  } else {
    if (context_.bug == Bug::kQuarantineLost) {
      std::erase_if(journal_, [](const coordinator::JournalRecord& record) {
        return std::holds_alternative<coordinator::HostQuarantinedRecord>(
            record);
      });
    }
    // Every other time: what is left of it is to do as well.
    if (life_ % 2 == 0) {
      journal_ =
          coordinator::Retained(journal_, context_.shape.config.max_ended_jobs);
    }
    absl::StatusOr<coordinator::CoordinatorCore> recovered =
        coordinator::CoordinatorCore::Recover(context_.shape.config, journal_,
                                              life_);
    if (!recovered.ok()) {
      context_.ledgers.front().Fail(Invariant::kMonotoneGenerations,
                                    std::string(recovered.status().message()));
      return;
    }
    core_.emplace(*std::move(recovered));
    if (!first_journal_.has_value()) {
      for (Ledger& ledger : context_.ledgers)
        ledger.OnRecovered(core_->state().last_generation);
    }
  }
  has_met_member_ = false;  // it has forgotten that
  sessions_.SetCoordinatorLife(life_);
  if (context_.traced) context_.Tell("coordinator starts");
  Feed(coordinator::Tick{});
  Submit();
}

// A user tries until it is accepted; the request's id makes that one job.
void SimCoordinator::Submit() {
  for (size_t i = 0; i < context_.shape.jobs.size(); ++i) {
    const JobShape& shape = context_.shape.jobs[i];
    const auto index = static_cast<int>(i);
    if (shape.submit_time > context_.now || FindJob(index) != nullptr) continue;
    coordinator::SubmitRequested submit;
    submit.request = 1;
    submit.name = JobName(index);
    submit.spec = "spec";
    submit.min_workers = shape.min_workers;
    submit.max_workers = shape.max_workers;
    submit.settle = absl::Nanoseconds(shape.settle);
    submit.total_steps = shape.total_steps;
    submit.keeps_checkpoints = shape.keeps_checkpoints;
    // With one job there is nobody to give way to.
    submit.can_go_on_later =
        shape.keeps_checkpoints && context_.shape.jobs.size() > 1;
    submit.sharding = context_.shape.ShardingOf(shape);
    submit.priority = shape.priority;
    submit.request_id = absl::StrCat("r", index + 1);
    Feed(std::move(submit));
  }
}

const coordinator::Job* SimCoordinator::FindJob(int index) const {
  for (const auto& [number, job] : core_->state().jobs)
    if (job.name == JobName(index)) return &job;
  return nullptr;
}

void SimCoordinator::OnUserAction(int index) {
  const UserAction& action = context_.shape.actions[static_cast<size_t>(index)];
  if (is_alive()) ChangeJob(action.job, action.change);
}

void SimCoordinator::ResumeAll() {
  SimEvent again;
  again.kind = EventKind::kResumeAll;
  context_.After(kSecond, again);
  if (!is_alive()) return;
  for (size_t i = 0; i < context_.shape.jobs.size(); ++i) {
    const coordinator::Job* const job = FindJob(static_cast<int>(i));
    if (job != nullptr && job->is_suspended)
      ChangeJob(static_cast<int>(i), {.is_suspended = false});
  }
}

void SimCoordinator::ChangeJob(int index,
                               const coordinator::JobChange& change) {
  const coordinator::Job* const job = FindJob(index);
  if (job == nullptr) return;
  coordinator::ChangeRequested request;
  static_cast<coordinator::JobChange&>(request) = change;
  request.request = 3;
  request.job = job->id;
  request.reason = "a user asked";
  Feed(std::move(request));
}

void SimCoordinator::Kill() {
  if (!is_alive()) return;
  if (context_.traced) context_.Tell("coordinator is killed");
  core_.reset();
  stalled_until_ = 0;
  // Rows on their way to the disk may have got there, in order.
  const int64_t written =
      context_.random.Between(0, static_cast<int64_t>(pending_.size()));
  const bool works = context_.now >= journal_fails_until_;
  for (int64_t i = 0; works && i < written; ++i) {
    MakeDurable(pending_[i].record);
  }
  pending_.clear();
  answers_.clear();
  sessions_.LoseCoordinator();
  if (context_.bug == Bug::kLostRecord && !journal_.empty() &&
      std::holds_alternative<coordinator::GenerationFormedRecord>(
          journal_.back())) {
    journal_.pop_back();
  }
}

bool SimCoordinator::StartTwin() {
  if (!is_alive() || first_journal_.has_value()) return false;
  const auto is_formed = [](const coordinator::JournalRecord& record) {
    return std::holds_alternative<coordinator::GenerationFormedRecord>(record);
  };
  Kill();
  const auto newest =
      std::find_if(journal_.rbegin(), journal_.rend(), is_formed);
  // One without any generation is like a journal that is lost.
  const bool is_possible = newest != journal_.rend() &&
                           std::any_of(newest + 1, journal_.rend(), is_formed);
  if (is_possible) {
    first_journal_ = journal_;
    journal_.erase(newest.base() - 1, journal_.end());
    has_met_member_ = false;
  }
  Start();
  return is_possible;
}

void SimCoordinator::EndTwin() {
  if (!first_journal_.has_value()) return;
  Kill();
  journal_ = *std::exchange(first_journal_, std::nullopt);
  Start();
}

bool SimCoordinator::SomeJobWaits(
    const std::function<bool(const coordinator::Job&)>& condition) const {
  if (!is_alive()) return false;
  return std::ranges::any_of(core_->state().jobs, [&](const auto& entry) {
    const coordinator::Job& job = entry.second;
    return (job.state() == v1::JOB_STATE_GATHERING ||
            job.state() == v1::JOB_STATE_QUEUED) &&
           condition(job);
  });
}

bool SimCoordinator::KeepsLinkApart() const {
  return SomeJobWaits([](const coordinator::Job& job) {
    return job.link_check != MonotonicTime::InfiniteFuture();
  });
}

bool SimCoordinator::HasBegun(int job) const {
  const coordinator::Job* const found = is_alive() ? FindJob(job) : nullptr;
  return found != nullptr && !coordinator::IsNew(*found);
}

bool SimCoordinator::IsAtWork(int job) const {
  if (!is_alive()) return false;
  const coordinator::Job* const found = FindJob(job);
  if (found == nullptr || found->ending.has_value()) return false;
  switch (found->state()) {
    case v1::JOB_STATE_PREPARING:
    case v1::JOB_STATE_RUNNING:
    case v1::JOB_STATE_HALTING:
    case v1::JOB_STATE_STOPPING:
      return true;
    default:
      return false;
  }
}

void SimCoordinator::Stall(int64_t until) {
  stalled_until_ = std::max(stalled_until_, until);
}

void SimCoordinator::Drain(int slot, int64_t duration) {
  if (!is_alive()) return;
  coordinator::CordonRequested drain;
  drain.request = 2;
  drain.target = WorkerName(slot);
  drain.drains = true;
  drain.reason = "an operator asked";
  // Every second one is due before it is lifted.
  if (slot % 2 == 0) drain.within = absl::Nanoseconds(duration / 2);
  Feed(std::move(drain));
  drained_until_[slot] = context_.now + duration;
  if (!std::exchange(is_looked_after_[slot], true)) Uncordon(slot);
}

void SimCoordinator::Uncordon(int slot) {
  SimEvent again;
  again.kind = EventKind::kDrainEnd;
  again.slot = static_cast<int8_t>(slot);
  context_.At(std::max(drained_until_[slot], context_.now + kSecond), again);
  if (context_.now < drained_until_[slot] || !is_alive() ||
      !core_->state().cordons.contains(WorkerName(slot))) {
    return;
  }
  coordinator::CordonRequested lift;
  lift.request = 2;
  lift.target = WorkerName(slot);
  lift.is_lifted = true;
  Feed(std::move(lift));
}

// ---- The journal.

void SimCoordinator::MakeDurable(const coordinator::JournalRecord& record) {
  journal_.push_back(record);
  const auto* end = std::get_if<coordinator::JobEndedRecord>(&record);
  if (end != nullptr && end->state == v1::JOB_STATE_FAILED &&
      may_fail_.contains(end->job_id)) {
    context_.LedgerOf(end->job_id).OnFailedRightly(*end);
    return;
  }
  if (first_journal_.has_value()) return;
  const std::string& job_id = coordinator::JobIdOf(record);
  if (!job_id.empty()) context_.LedgerOf(job_id).OnDurable(record);
}

void SimCoordinator::FailJournal(int64_t until) {
  journal_fails_until_ = std::max(journal_fails_until_, until);
  SimEvent event;
  event.kind = EventKind::kJournalWorks;
  context_.At(
      journal_fails_until_ + context_.random.Between(0, 200) * kMillisecond,
      event);
}

void SimCoordinator::OnJournalWorks() {
  if (!is_alive() || context_.now < journal_fails_until_) return;
  Feed(coordinator::JournalWorks{});
  Submit();
}

void SimCoordinator::EndTwinNow() {
  SimEvent event;
  event.kind = EventKind::kTwinEnd;
  context_.After(0, event);
}

// It may, as long as it cannot know; then its time is over, so that this changes
// nothing. (An operator would have to choose.)
void SimCoordinator::OnFormationByTwin(int64_t generation) {
  if (has_met_member_) {
    context_.ledgers.front().Fail(
        Invariant::kMonotoneGenerations,
        absl::StrCat("a coordinator on an older copy of the journal forms "
                     "generation ",
                     generation,
                     ", though it has met a member of a newer one"));
  }
  EndTwinNow();
}

void SimCoordinator::Do(coordinator::Persist& action) {
  // Where there are several jobs, the twin may end or suspend one all of whose
  // members it has.
  const bool lets_go =
      std::holds_alternative<coordinator::JobEndedRecord>(action.record) ||
      std::holds_alternative<coordinator::JobSuspendedRecord>(action.record);
  if (lets_go && first_journal_.has_value()) {
    EndTwinNow();
    return;
  }
  if (const auto* formed =
          std::get_if<coordinator::GenerationFormedRecord>(&action.record)) {
    if (first_journal_.has_value()) {
      OnFormationByTwin(formed->generation);
      return;
    }
    CheckOneGeneration(*formed);
    context_.LedgerOf(formed->job_id)
        .OnFormation(*formed,
                     HasSurvivor(JobOfId(formed->job_id), formed->is_rollback));
    context_.Reached(Moment::kFormation, -1);
  }
  SimEvent event;
  event.version = life_;
  if (context_.bug == Bug::kToldBeforeDurable) {
    answers_.push_back({action.token, true});
    event.kind = EventKind::kJournalAnswer;
    context_.After(0, event);
  }
  pending_.push_back({action.token, std::move(action.record)});
  last_write_ = std::max(last_write_, context_.now) +
                context_.random.Between(100, 3'000) * kMicrosecond;
  event.kind = EventKind::kJournalWritten;
  context_.At(last_write_, event);
}

void SimCoordinator::OnJournalWritten(uint32_t version) {
  if (version != life_ || pending_.empty()) return;
  const bool works = context_.now >= journal_fails_until_;
  const Pending written = std::move(pending_.front());
  pending_.pop_front();
  if (works) MakeDurable(written.record);
  if (context_.bug == Bug::kToldBeforeDurable) return;
  answers_.push_back({written.token, works});
  SimEvent event;
  event.kind = EventKind::kJournalAnswer;
  event.version = life_;
  context_.After(context_.random.Between(10, 500) * kMicrosecond, event);
}

void SimCoordinator::OnJournalAnswer(uint32_t version) {
  if (version != life_ || !is_alive() || answers_.empty()) return;
  const Answer answer = answers_.front();
  answers_.pop_front();
  if (answer.is_durable) {
    Feed(coordinator::Persisted{answer.token});
  } else {
    Feed(coordinator::PersistFailed{answer.token, "disk full"});
    if (context_.now >= journal_fails_until_) OnJournalWorks();
  }
}

bool SimCoordinator::AwaitsAbsent() const {
  return SomeJobWaits([](const coordinator::Job& job) {
    return job.absence.holders_deadline != MonotonicTime::InfiniteFuture();
  });
}

bool SimCoordinator::LeavesHostOut() const {
  return SomeJobWaits([this](const coordinator::Job&) {
    const auto& quarantines = core_->state().quarantines;
    return std::any_of(quarantines.begin(), quarantines.end(),
                       [](const auto& host) { return host.is_unfit; });
  });
}

void SimCoordinator::CheckOneGeneration(
    const coordinator::GenerationFormedRecord& formed) {
  for (const coordinator::Job* const job : core_->state().ActiveJobs()) {
    if (job->id == formed.job_id) continue;
    for (const coordinator::Member& member : job->members) {
      const auto is_it = [&member](const coordinator::MemberIdentity& other) {
        return other.worker == member.identity.worker;
      };
      if (member.is_lost || std::ranges::none_of(formed.members, is_it))
        continue;
      context_.LedgerOf(formed.job_id)
          .Fail(Invariant::kOneMembership,
                absl::StrCat("generation ", formed.generation, " has ",
                             member.identity.worker,
                             ", which is a member of job ", job->id));
    }
  }
}

bool SimCoordinator::IsCountedOn(int job, int slot,
                                 uint64_t incarnation) const {
  const Lost& lost = lost_[slot];
  if (incarnation != lost.incarnation || lost.job != job) return true;
  const int64_t wait =
      absl::ToInt64Nanoseconds(context_.shape.config.state_wait);
  return !lost.has_left && context_.now < lost.time + wait;
}

// A member of the last generation, or one that was lost to it lately, holds the
// newest step.
bool SimCoordinator::HasSurvivor(int job, bool is_rollback) const {
  if (context_.shape.holders != Holders::kRanks) return HasAllShards(job);
  const Ledger& ledger = context_.ledgers[static_cast<size_t>(job)];
  // One that is away may have made a step that a liar keeps to itself.
  const bool may_be_away = is_rollback || ledger.step_liar() < 0;
  for (const auto& [slot, incarnation] : ledger.NewestMembers()) {
    if (!may_be_away && HasGivenUp(slot, incarnation)) continue;
    if (slot != ledger.step_liar() && IsCountedOn(job, slot, incarnation) &&
        witness_.holds_newest(job, slot, incarnation)) {
      return true;
    }
  }
  return false;
}

// Its members hold every shard as of the last committed step.
bool SimCoordinator::HasAllShards(int job) const {
  const Ledger& ledger = context_.ledgers[static_cast<size_t>(job)];
  std::set<int> held;
  for (const auto& [slot, incarnation] : ledger.NewestMembers()) {
    if (!IsCountedOn(job, slot, incarnation)) continue;
    for (const HeldShard& copy : witness_.shards_of(slot, incarnation)) {
      if (copy.complete_step >= ledger.best_step()) held.insert(copy.shard);
    }
  }
  const JobShape& shape = context_.shape.jobs[static_cast<size_t>(job)];
  return static_cast<int>(held.size()) ==
         context_.shape.ShardingOf(shape).shards;
}

// ---- Events for the core.

void SimCoordinator::OnMessage(SessionId session) {
  std::optional<coordinator::EventBody> message = sessions_.TakeUp(session);
  if (!message.has_value() || !is_alive()) return;
  if (const auto* const hello =
          std::get_if<coordinator::HelloReceived>(&*message)) {
    has_met_member_ |= hello->generation > core_->state().last_generation;
  }
  Feed(*std::move(message));
}

void SimCoordinator::OnTimer(uint32_t version) {
  if (is_alive() && timer_.IsDue(version, core_->NextDeadline()))
    Feed(coordinator::Tick{});
}

void SimCoordinator::Feed(coordinator::EventBody body) {
  const bool is_told = context_.traced &&
                       !std::holds_alternative<coordinator::Tick>(body) &&
                       !std::holds_alternative<coordinator::BeatReceived>(body);
  if (is_told) {
    const SessionId session = coordinator::SessionOf(body);
    context_.Tell(absl::StrCat(
        "coordinator ", Sv(coordinator::TypeOf(body)),
        session == 0
            ? ""
            : absl::StrCat(" from ",
                           WorkerName(sessions_.SlotOfSession(session)))));
  }
  std::vector<coordinator::Action> actions = core_->Step(
      coordinator::Event(std::move(body),
                         absl::UnixEpoch() + absl::Nanoseconds(context_.now)),
      context_.Now());
  NoteEnds();
  for (coordinator::Action& action : actions) Perform(action);
  timer_.Set(core_->NextDeadline());
}

// By what is known as it is decided: a worker may join before it is durable.
void SimCoordinator::NoteEnds() {
  for (const coordinator::Job* const job : core_->state().ActiveJobs()) {
    const bool fails =
        job->ending.has_value() && job->ending->state == v1::JOB_STATE_FAILED &&
        job->ending->exit_code != static_cast<int>(ExitCode::kUsage);
    if (fails && MayFail(job->id, job->ending->exit_code))
      may_fail_.insert(job->id);
  }
}

// ---- Actions.

void SimCoordinator::Perform(coordinator::Action& action) {
  if (context_.traced) {
    context_.Tell(absl::StrCat("coordinator   ",
                               coordinator::ToText(action, [this](SessionId s) {
                                 return WorkerName(sessions_.SlotOfSession(s));
                               })));
  }
  std::visit([this](auto& a) { Do(a); }, action);
}

void SimCoordinator::Do(coordinator::SendWelcome& action) {
  agent::SessionUp up;
  up.coordinator_incarnation = life_;
  up.protocol = action.protocol;
  up.beat_interval = context_.shape.config.beat_interval;
  up.lease = context_.shape.config.lease;
  up.state_wait = context_.shape.config.state_wait;
  if (context_.bug == Bug::kShortLease) up.beat_interval = 2 * up.lease;
  sessions_.SendDown(action.session, std::move(up));
}

void SimCoordinator::Do(coordinator::SendAssignment& action) {
  const coordinator::Job& job = *core_->state().FindJob(action.job_id);
  if (!action.is_rehearsal)
    context_.LedgerOf(action.job_id).OnAssignment(action, job);
  context_.Reached(Moment::kAssignment, SlotOf(action.self.worker));
  auto payload = std::make_shared<agent::AssignmentPayload>();
  payload->job_id = action.job_id;
  payload->generation = static_cast<int32_t>(action.generation);
  payload->rank = action.self.rank;
  payload->world_size = action.world_size;
  for (const coordinator::Member& member : job.members) {
    payload->slots.push_back(SlotOf(member.identity.worker));
  }
  payload->slots.resize(
      std::max(
          payload->slots.size(),
          static_cast<size_t>(action.is_rehearsal ? action.world_size : 0)),
      SlotOf(action.self.worker));
  if (action.self.rank < action.world_size) {
    const int n = action.world_size;
    payload->prev_slot = payload->slots[(action.self.rank + n - 1) % n];
    payload->next_slot = payload->slots[(action.self.rank + 1) % n];
  }
  payload->resume_step = static_cast<int32_t>(action.resume_step);
  payload->state_source_rank = action.state_source_rank;
  payload->is_newcomer = action.is_newcomer;
  payload->is_rehearsal = action.is_rehearsal;
  payload->makes_no_step = action.makes_no_step;
  payload->saves = action.makes_no_step && action.state_source_rank < 0;
  payload->placements = action.placements;
  // All that newcomers pull from several comes from one of those.
  if (action.placements != nullptr && action.resume_step > 0 &&
      context_.shape.holders == Holders::kWorkers) {
    payload->state_source_rank = action.placements->front().source_rank;
  }
  if (context_.bug == Bug::kResumeOffByOne && payload->resume_step > 0) {
    --payload->resume_step;
  }
  if (context_.bug == Bug::kDuplicateRank && payload->rank == 1) {
    payload->rank = 0;
  }
  agent::AssignmentReceived assignment;
  assignment.generation = action.generation;
  assignment.job_id = action.job_id;
  assignment.rank = payload->rank;
  assignment.world_size = action.world_size;
  assignment.resume_step = payload->resume_step;
  assignment.payload = std::move(payload);
  assignment.is_rehearsal = action.is_rehearsal;
  assignment.formed_by = action.formed_by;
  sessions_.SendDown(action.session, std::move(assignment));
}

void SimCoordinator::Do(coordinator::SendStart& action) {
  sessions_.SendDown(action.session, agent::StartReceived{action.generation});
}

void SimCoordinator::Do(coordinator::SendHalt& action) {
  context_.Reached(Moment::kHalt, sessions_.SlotOfSession(action.session));
  sessions_.SendDown(
      action.session,
      agent::HaltReceived{action.generation, action.verdict.summary()});
}

void SimCoordinator::Do(coordinator::SendLeaveAdvice& action) {
  sessions_.SendDown(action.session, agent::LeaveAdviceReceived{action.text});
}

void SimCoordinator::Do(coordinator::SendProbe& action) {
  sessions_.SendDown(action.session, agent::ProbeRequested{action.probe});
}

// The simulated workers record nothing, so none is asked.
void SimCoordinator::Do(coordinator::GatherFlight&) {}

void SimCoordinator::Do(coordinator::SendStop& action) {
  sessions_.SendDown(action.session,
                     agent::StopReceived{action.generation, action.reason});
}

void SimCoordinator::Do(coordinator::SendPause& action) {
  sessions_.SendDown(action.session,
                     agent::PauseReceived{action.generation, action.reason});
}

void SimCoordinator::Do(coordinator::SendRelease& action) {
  sessions_.SendDown(action.session,
                     agent::ReleaseReceived{action.generation, action.message});
}

void SimCoordinator::Do(coordinator::CloseSession& action) {
  if (ReasonOf(action.status) == reason::kSessionProtocolViolation &&
      !context_.has_liar) {
    context_.ledgers.front().Fail(Invariant::kEvictionsHaveCause,
                                  std::string(action.status.message()));
  }
  agent::SessionDown down;
  down.code = action.status.ok() ? absl::StatusCode::kUnavailable
                                 : action.status.code();
  down.reason = ReasonOf(action.status);
  down.message = std::string(action.status.message());
  sessions_.CloseByCoordinator(action.session, std::move(down));
}

bool SimCoordinator::MayFail(const std::string& job_id, int exit_code) const {
  // A liar, which is a member still, is believed where the job cannot go on without it.
  const coordinator::Job* const job =
      is_alive() ? core_->state().FindJob(job_id) : nullptr;
  if (exit_code == static_cast<int>(ExitCode::kUsage)) {
    if (!context_.has_liar || job == nullptr) return false;
    const int others = coordinator::AliveCount(*job, v1::ROLE_WORKER) - 1;
    const coordinator::IdlePool idle(core_->state(), *job);
    return others == 0 ||
           others + idle.Count(coordinator::Hosts::kSound) < job->min_workers;
  }
  if (!is_alive() || context_.bad_way == BadHost::kNone ||
      exit_code != context_.BadCode()) {
    return false;
  }
  if (context_.bad_way == BadHost::kBadDisk &&
      context_.LedgerOf(job_id).own_failures() >= coordinator::kMostFailures) {
    return true;
  }
  if (context_.bad_way != BadHost::kBadDisk &&
      context_.LedgerOf(job_id).best_step() > 0) {
    return false;
  }
  // Nobody of a role with bad hosts is elsewhere.
  const auto is_on_bad_host = [this](int slot) {
    return (context_.bad_hosts & (1u << context_.shape.host_of[slot])) != 0;
  };
  const auto has_good = [&](v1::Role role) {
    const auto& workers = core_->state().workers;
    return std::any_of(workers.begin(), workers.end(), [&](const auto& entry) {
      const coordinator::Worker& worker = entry.second;
      return worker.role == role && worker.session != 0 &&
             worker.state != v1::WORKER_STATE_DRAINING &&
             !is_on_bad_host(SlotOf(entry.first));
    });
  };
  // The last server there may just have been lost.
  bool has_bad_server = false;
  for (int slot = 0; slot < kWorkers; ++slot) {
    has_bad_server |=
        context_.shape.RoleOf(slot) == v1::ROLE_PARAMETER_SERVER &&
        is_on_bad_host(slot);
  }
  return !has_good(v1::ROLE_WORKER) ||
         (has_bad_server && !has_good(v1::ROLE_PARAMETER_SERVER));
}

void SimCoordinator::CheckOwnFailure(const v1::Event& event) {
  const coordinator::Job* const job = core_->state().FindJob(event.job_id());
  const int slot = SlotOf(event.worker());
  if (job == nullptr || slot < 0) return;
  const std::string host = absl::StrCat("h", context_.shape.host_of[slot]);
  if (coordinator::HasFailedOn(core_->state(), *job, host)) return;
  context_.LedgerOf(event.job_id())
      .Fail(Invariant::kUnfitLeftOut,
            absl::StrCat(event.worker(), " failed by its own fault, and host ",
                         host, " is not left out"));
}

// Whoever has left a generation, and is lost again as a newcomer to one that
// never became durable, has left it all the same.
void SimCoordinator::NoteLost(int job, int slot, uint64_t incarnation,
                              bool has_left) {
  const int64_t generation =
      context_.ledgers[static_cast<size_t>(job)].newest_durable();
  const Lost& before = lost_[slot];
  if (before.incarnation == incarnation && before.generation == generation)
    has_left |= before.has_left;
  lost_[slot] = {incarnation, job, context_.now, has_left, generation};
}

void SimCoordinator::CheckContradiction(const v1::Event& event) {
  Ledger& ledger = context_.LedgerOf(event.job_id());
  std::vector<int> slots;
  for (const v1::Evidence& evidence : event.verdict().evidence()) {
    const int slot = SlotOf(evidence.observer());
    slots.push_back(slot);
    if (slot < 0) continue;
    // It is told to give up what it holds.
    for (const auto& [member, incarnation] : ledger.NewestMembers()) {
      if (member != slot) continue;
      NoteLost(JobOfId(event.job_id()), slot, incarnation, /*has_left=*/true);
    }
  }
  if (!event.has_verdict()) slots.push_back(SlotOf(event.worker()));
  ledger.OnContradiction(slots, event.message());
}

void SimCoordinator::Do(coordinator::EmitEvent& action) {
  if (first_journal_.has_value()) return;
  const v1::Event& event = action.event;
  if (event.type() == "job.contradicted" ||
      event.type() == "job.claim_dropped") {
    CheckContradiction(event);
    return;
  }
  const bool is_lost = event.type() == "worker.lost";
  // Politely, by itself or as it was let go.
  const bool has_left = event.type() == "worker.left" ||
                        event.type() == "worker.relieved" ||
                        event.type() == "worker.not_relieved";
  const bool has_failed = event.type() == "worker.failed";
  const bool fails_job =
      event.has_verdict() &&
      event.verdict().decision() == v1::VERDICT_DECISION_FAIL_JOB;
  if (fails_job && MayFail(event.job_id(), event.verdict().exit_code()))
    may_fail_.insert(event.job_id());
  const bool hands_over = event.type() == "worker.hands_over";
  if ((has_failed || hands_over) && !fails_job) CheckOwnFailure(event);
  if (!is_lost && !has_left && !has_failed) return;
  const int slot = SlotOf(event.worker());
  const int64_t pid = event.verdict().pid();
  Ledger& ledger = context_.LedgerOf(event.job_id());
  if (slot >= 0) ledger.OnHolderLost(slot);
  if (slot >= 0 && event.has_verdict()) {
    for (const auto& [member, incarnation] : ledger.NewestMembers()) {
      // Whoever failed by its own fault is not asked for what it holds.
      if (member != slot) continue;
      NoteLost(JobOfId(event.job_id()), slot, incarnation,
               has_left || has_failed);
    }
  }
  if (!is_lost) return;
  if (slot >= 0 && slot == context_.liar && event.has_verdict()) {
    const v1::EvidenceKind kind = event.verdict().evidence(0).kind();
    if (kind == v1::EVIDENCE_KIND_PEER_REPORT) ++context_.liar_evictions;
    if (kind == v1::EVIDENCE_KIND_FALSE_REPORT) ++context_.refutations;
  }
  ledger.OnMemberLost(event, context_.now, witness_.is_alive(slot, pid));
}

}  // namespace ringmaster::simulator
