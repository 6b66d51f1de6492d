#include "tests/simulator/simulation.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/simulator/context.h"
#include "tests/simulator/fault_injector.h"
#include "tests/simulator/peer_links.h"
#include "tests/simulator/session_links.h"
#include "tests/simulator/sim_coordinator.h"
#include "tests/simulator/sim_worker.h"

namespace ringmaster::simulator {
namespace {

constexpr int64_t kWatchInterval = 500 * kMillisecond;
// After the last fault a job has this long; its steps alone take a minute.
constexpr int64_t kEndBound = 180 * kSecond;

class Simulation {
 public:
  Simulation(uint64_t seed, const RunOptions& options)
      : context_(seed, options.bug, options.holders, options.has_liar,
                 options.has_many_jobs, options.is_traced),
        sessions_(context_),
        peers_(context_),
        coordinator_(context_, sessions_, Witness()) {
    context_.max_lines = options.max_lines;
    for (int slot = 0; slot < kWorkers; ++slot) {
      workers_[slot] = std::make_unique<SimWorker>(
          context_, sessions_, peers_, slot,
          [this](int leaver, int64_t since) { CheckLeft(leaver, since); },
          [this](int from, int to) {
            return workers_[to]->is_alive() && !peers_.IsCut(from, to) &&
                   !peers_.IsCut(to, from);
          });
    }
    able_since_.assign(context_.shape.jobs.size(), -1);
    injector_ = std::make_unique<FaultInjector>(
        context_, Cluster{sessions_, peers_, coordinator_, workers_});
  }

  RunResult Run();

 private:
  SimCoordinator::Witness Witness();
  void Begin();
  // False if the event has to wait until its process runs again.
  bool IsDue(const SimEvent& event);
  void Handle(const SimEvent& event);
  void HandleWorker(const SimEvent& event, SimWorker& worker);
  void Watch();
  // Checks that `job` makes progress; `able`: the workers that can train.
  void CheckProgress(int job, int able);
  // Checks that all jobs end.
  void CheckEnd();
  [[nodiscard]] bool HoldsNewest(const SimWorker& worker, int job) const {
    return worker.trainer().job_index() == job &&
           context_.ledgers[static_cast<size_t>(job)].HoldsNewest(
               worker.trainer().position());
  }
  // Lets the ledgers know if every shard is there twice.
  void NoteCopies();
  void NoteCopiesOf(int job);
  void CheckLeft(int slot, int64_t since);

  Context context_;
  SessionLinks sessions_;
  PeerLinks peers_;
  SimCoordinator coordinator_;
  Workers workers_;
  std::unique_ptr<FaultInjector> injector_;
  // By job: since when enough workers can train, or, where there are many jobs, it
  // has members at work; -1: so it is not.
  std::vector<int64_t> able_since_;
};

SimCoordinator::Witness Simulation::Witness() {
  return {
      .is_alive =
          [this](int slot, int64_t pid) {
            const SimWorker& worker = *workers_[slot];
            return worker.is_alive() && (pid == 0 || pid == worker.pid());
          },
      .holds_newest =
          [this](int job, int slot, uint64_t incarnation) {
            const SimWorker& worker = *workers_[slot];
            return worker.is_alive() && worker.incarnation() == incarnation &&
                   HoldsNewest(worker, job);
          },
      .shards_of =
          [this](int slot, uint64_t incarnation) {
            const SimWorker& worker = *workers_[slot];
            return worker.is_alive() && worker.incarnation() == incarnation
                       ? worker.trainer().shards()
                       : std::vector<HeldShard>();
          },
  };
}

void Simulation::Begin() {
  SimEvent event;
  event.kind = EventKind::kCoordinatorStart;
  context_.After(0, event);
  for (int slot = 0; slot < kWorkers; ++slot) {
    workers_[slot]->StartLater(context_.random.Between(0, 400) * kMillisecond);
  }
  event.kind = EventKind::kWatch;
  context_.After(kWatchInterval, event);
  event.kind = EventKind::kCalm;
  context_.After(kFaultyTime, event);
  event.kind = EventKind::kSubmit;
  for (const JobShape& job : context_.shape.jobs)
    if (job.submit_time > 0) context_.At(job.submit_time, event);
  event.kind = EventKind::kUserAction;
  for (size_t i = 0; i < context_.shape.actions.size(); ++i) {
    event.detail = static_cast<uint8_t>(i);
    context_.At(context_.shape.actions[i].time, event);
  }
  injector_->Begin();
}

bool Simulation::IsDue(const SimEvent& event) {
  int64_t until = 0;
  switch (event.kind) {
    case EventKind::kToWorker:
    case EventKind::kPost:
    case EventKind::kWorkerTimer:
    case EventKind::kTrainerTimer:
    case EventKind::kFrame:
    case EventKind::kProbeEnd:
      until = workers_[event.slot]->frozen_until();
      break;
    case EventKind::kToCoordinator:
    case EventKind::kCoordinatorTimer:
    case EventKind::kJournalAnswer:
    case EventKind::kJournalWorks:
      until = coordinator_.stalled_until();
      break;
    default:
      break;
  }
  if (until <= context_.now) return true;
  context_.At(until, event);
  return false;
}

void Simulation::HandleWorker(const SimEvent& event, SimWorker& worker) {
  switch (event.kind) {
    case EventKind::kToWorker:
      worker.OnMessage(event.version);
      return;
    case EventKind::kPost:
      worker.OnPost();
      return;
    case EventKind::kWorkerTimer:
      worker.OnTimer(event.version);
      return;
    case EventKind::kTrainerTimer:
      worker.trainer().OnTimer(event.version, event.detail);
      return;
    case EventKind::kFrame:
      if (worker.is_alive()) worker.trainer().OnFrame(event.from, event.frame);
      return;
    case EventKind::kProbeEnd:
      worker.OnProbeEnd(event.version);
      return;
    case EventKind::kWorkerStart:
      worker.Start();
      return;
    default:
      return;
  }
}

void Simulation::Handle(const SimEvent& event) {
  switch (event.kind) {
    case EventKind::kToCoordinator:
      coordinator_.OnMessage(event.version);
      return;
    case EventKind::kCoordinatorTimer:
      coordinator_.OnTimer(event.version);
      return;
    case EventKind::kJournalWritten:
      coordinator_.OnJournalWritten(event.version);
      return;
    case EventKind::kJournalAnswer:
      coordinator_.OnJournalAnswer(event.version);
      return;
    case EventKind::kJournalWorks:
      coordinator_.OnJournalWorks();
      return;
    case EventKind::kCoordinatorStart:
      coordinator_.Start();
      return;
    case EventKind::kOutOfMemory:
      if (workers_[event.slot]->IsLife(event.version)) {
        injector_->OnOutOfMemory(event.slot);
      }
      return;
    case EventKind::kTwinEnd:
      coordinator_.EndTwin();
      return;
    case EventKind::kDrainEnd:
      coordinator_.Uncordon(event.slot);
      return;
    case EventKind::kSessionHeal:
      sessions_.Heal(event.slot);
      return;
    case EventKind::kSessionDead:
      sessions_.GiveUp(event.slot);
      return;
    case EventKind::kPeerHeal:
      peers_.Heal(event.from, event.slot);
      return;
    case EventKind::kPeerSilent:
      injector_->OnPeerSilent(event.slot, event.from);
      return;
    case EventKind::kFault:
      NoteCopies();
      injector_->Strike(event.detail, event.slot);
      return;
    case EventKind::kSubmit:
      // Else it is submitted as the coordinator starts.
      if (coordinator_.is_alive()) coordinator_.Submit();
      return;
    case EventKind::kUserAction:
      coordinator_.OnUserAction(event.detail);
      return;
    case EventKind::kResumeAll:
      coordinator_.ResumeAll();
      return;
    case EventKind::kCalm:
      injector_->Calm();
      if (!context_.shape.actions.empty()) coordinator_.ResumeAll();
      return;
    case EventKind::kWatch:
      Watch();
      context_.After(kWatchInterval, event);
      return;
    default:
      HandleWorker(event, *workers_[event.slot]);
      return;
  }
}

void Simulation::NoteCopies() {
  for (size_t job = 0; job < context_.ledgers.size(); ++job)
    NoteCopiesOf(static_cast<int>(job));
}

void Simulation::NoteCopiesOf(int job) {
  const auto index = static_cast<size_t>(job);
  Ledger& ledger = context_.ledgers[index];
  const int shards =
      context_.shape.ShardingOf(context_.shape.jobs[index]).shards;
  if (shards == 0 || ledger.best_step() == 0) return;
  std::array<int, kWorkers> copies = {};  // by shard
  for (const auto& [slot, incarnation] : ledger.NewestMembers()) {
    const SimWorker& worker = *workers_[slot];
    if (!worker.is_alive() || worker.incarnation() != incarnation ||
        coordinator_.HasGivenUp(slot, incarnation)) {
      continue;
    }
    for (const HeldShard& held : worker.trainer().shards()) {
      if (held.complete_step >= ledger.best_step()) ++copies[held.shard];
    }
  }
  if (std::all_of(copies.begin(), copies.begin() + shards,
                  [](int count) { return count >= 2; })) {
    ledger.OnAllTwice();
  }
}

// Undisturbed, the last holder of a step leaves it to an idle worker, or in a
// checkpoint.
void Simulation::CheckLeft(int slot, int64_t since) {
  const int job = workers_[slot]->trainer().job_index();
  const JobShape& shape = context_.shape.jobs[static_cast<size_t>(job)];
  Ledger& ledger = context_.ledgers[static_cast<size_t>(job)];
  if (slot == ledger.step_liar()) return;  // evicted for its own word
  // Older processes leave by themselves.
  if (ProtocolOfLife(workers_[slot]->incarnation()) <
      coordinator::kLeaveProtocol) {
    return;
  }
  if (context_.shape.holders != Holders::kRanks || ledger.IsSaved() ||
      ledger.best_step() == 0 || context_.fault_log.calm_since() > since ||
      !HoldsNewest(*workers_[slot], job)) {
    return;
  }
  bool has_successor = false;
  for (int other = 0; other < kWorkers; ++other) {
    const SimWorker& worker = *workers_[other];
    if (other == slot || !worker.is_alive()) continue;
    if (HoldsNewest(worker, job)) return;
    has_successor |= !worker.is_leaving() && worker.started() < since &&
                     worker.state() == agent::AgentState::kIdle;
  }
  if (!has_successor && !shape.keeps_checkpoints) return;
  ledger.Fail(
      Invariant::kNoStepLost,
      absl::StrCat(
          WorkerName(slot), " left with the only copy of step ",
          ledger.best_step(), ", though ",
          has_successor ? "a worker is idle" : "the job keeps checkpoints"));
}

void Simulation::Watch() {
  int able = 0;
  int able_servers = 0;
  for (int slot = 0; slot < kWorkers; ++slot) {
    const SimWorker& worker = *workers_[slot];
    if (!worker.is_alive() || worker.frozen_until() > context_.now ||
        worker.is_leaving() || sessions_.IsCut(slot) ||
        context_.IsOnBadHost(slot) || context_.IsMute(slot)) {
      continue;
    }
    ++(context_.shape.RoleOf(slot) == v1::ROLE_WORKER ? able : able_servers);
  }
  const bool is_alone = context_.shape.jobs.size() == 1;
  for (size_t i = 0; i < context_.shape.jobs.size(); ++i) {
    const JobShape& job = context_.shape.jobs[i];
    // A job begins with all of its servers, and goes on with one.
    const bool has_begun = coordinator_.HasBegun(static_cast<int>(i));
    const int servers = has_begun ? std::min(1, job.servers) : job.servers;
    // Where there are many, it may be the turn of another.
    const bool is_able =
        able >= job.min_workers && able_servers >= servers &&
        (is_alone || coordinator_.IsAtWork(static_cast<int>(i)));
    if (!is_able) {
      able_since_[i] = -1;
    } else if (able_since_[i] < 0) {
      able_since_[i] = context_.now;
    }
  }
  if (coordinator_.KeepsLinkApart() || coordinator_.AwaitsAbsent()) {
    context_.fault_log.Disturb(context_.now);
  }
  if (coordinator_.LeavesHostOut()) {
    context_.fault_log.Disturb(context_.now);
    return;
  }
  for (size_t i = 0; i < context_.shape.jobs.size(); ++i)
    CheckProgress(static_cast<int>(i), able);
  CheckEnd();
}

void Simulation::CheckProgress(int job, int able) {
  const auto index = static_cast<size_t>(job);
  Ledger& ledger = context_.ledgers[index];
  if (ledger.end().has_value()) return;
  const int64_t since = std::max({context_.fault_log.calm_since(),
                                  ledger.last_commit(), able_since_[index]});
  if (able_since_[index] < 0 || context_.now <= since + kProgressBound) return;
  ledger.Fail(Invariant::kProgress,
              absl::StrCat("no step since step ", ledger.best_step(), " at ",
                           ledger.last_commit() / kMillisecond, " ms, with ",
                           able, " workers of at least ",
                           context_.shape.jobs[index].min_workers));
}

// Nor does one wait for ever for the others.
void Simulation::CheckEnd() {
  const auto jobs = static_cast<int64_t>(context_.shape.jobs.size());
  if (context_.now <= std::max(kFaultyTime, context_.fault_log.calm_since()) +
                          jobs * kEndBound) {
    return;
  }
  for (size_t i = 0; i < context_.shape.jobs.size(); ++i) {
    Ledger& ledger = context_.ledgers[i];
    if (ledger.end().has_value()) continue;
    ledger.Fail(Invariant::kProgress,
                absl::StrCat("the job has not ended; it is at step ",
                             ledger.best_step(), " of ",
                             context_.shape.jobs[i].total_steps));
  }
}

RunResult Simulation::Run() {
  RunResult result;
  Begin();
  const auto have_ended = [this] {
    return std::ranges::all_of(context_.ledgers, [](const Ledger& ledger) {
      return ledger.end().has_value();
    });
  };
  while (!context_.queue.empty() && !have_ended() &&
         !context_.violation().has_value()) {
    const SimEvent event = context_.queue.Pop();
    context_.now = event.time;
    if (!IsDue(event)) continue;
    ++result.events;
    result.history_hash =
        Mix(result.history_hash ^
            Mix(static_cast<uint64_t>(event.time) ^
                (static_cast<uint64_t>(event.kind) << 56) ^ event.frame.value ^
                (static_cast<uint64_t>(event.version) << 24) ^
                static_cast<uint64_t>(event.slot + 1)));
    const int64_t commits = context_.commits();
    Handle(event);
    if (context_.commits() > commits) NoteCopies();
  }
  result.violation = context_.violation();
  result.faults = injector_->counts();
  result.commits = static_cast<int>(context_.commits());
  for (const Ledger& ledger : context_.ledgers) {
    result.rollbacks += ledger.rollbacks();
    result.suspensions += ledger.suspensions();
    result.recoveries.insert(result.recoveries.end(),
                             ledger.interruptions().begin(),
                             ledger.interruptions().end());
  }
  result.lies = context_.lies;
  result.liar_evictions = context_.liar_evictions;
  result.refutations = context_.refutations;
  result.duration = context_.now;
  result.lines.assign(context_.lines.begin(), context_.lines.end());
  return result;
}

}  // namespace

RunResult RunSeed(uint64_t seed, const RunOptions& options) {
  // Large: kept off the stack.
  return std::make_unique<Simulation>(seed, options)->Run();
}

}  // namespace ringmaster::simulator
