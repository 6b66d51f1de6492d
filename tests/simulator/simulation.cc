#include "tests/simulator/simulation.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

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
                 options.is_traced),
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
  // Lets the ledger know if every shard is there twice.
  void NoteCopies();
  void CheckLeft(int slot, int64_t since);

  Context context_;
  SessionLinks sessions_;
  PeerLinks peers_;
  SimCoordinator coordinator_;
  Workers workers_;
  std::unique_ptr<FaultInjector> injector_;
  // Since when enough workers can train; -1: they are too few.
  int64_t able_since_ = -1;
};

SimCoordinator::Witness Simulation::Witness() {
  return {
      .is_alive =
          [this](int slot, int64_t pid) {
            const SimWorker& worker = *workers_[slot];
            return worker.is_alive() && (pid == 0 || pid == worker.pid());
          },
      .holds_newest =
          [this](int slot, uint64_t incarnation) {
            const SimWorker& worker = *workers_[slot];
            return worker.is_alive() && worker.incarnation() == incarnation &&
                   context_.ledger.HoldsNewest(worker.trainer().position());
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
    case EventKind::kCalm:
      injector_->Calm();
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
  Ledger& ledger = context_.ledger;
  const int shards = context_.shape.Sharding().shards;
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
  Ledger& ledger = context_.ledger;
  // Older processes leave by themselves.
  if (ProtocolOfLife(workers_[slot]->incarnation()) <
      coordinator::kLeaveProtocol) {
    return;
  }
  if (context_.shape.holders != Holders::kRanks || ledger.IsSaved() ||
      ledger.best_step() == 0 || ledger.calm_since() > since ||
      !ledger.HoldsNewest(workers_[slot]->trainer().position())) {
    return;
  }
  bool has_successor = false;
  for (int other = 0; other < kWorkers; ++other) {
    const SimWorker& worker = *workers_[other];
    if (other == slot || !worker.is_alive()) continue;
    if (ledger.HoldsNewest(worker.trainer().position())) return;
    has_successor |= !worker.is_leaving() && worker.started() < since &&
                     worker.state() == agent::AgentState::kIdle;
  }
  if (!has_successor && !context_.shape.keeps_checkpoints) return;
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
  // A job begins with all of its servers, and goes on with one.
  const bool has_begun = !context_.ledger.NewestMembers().empty();
  const int servers =
      has_begun ? std::min(1, context_.shape.servers) : context_.shape.servers;
  if (able < context_.shape.min_workers || able_servers < servers) {
    able_since_ = -1;
  } else if (able_since_ < 0) {
    able_since_ = context_.now;
  }
  if (coordinator_.KeepsLinkApart() || coordinator_.AwaitsAbsent()) {
    context_.ledger.Disturb(context_.now);
  }
  if (coordinator_.LeavesHostOut()) {
    context_.ledger.Disturb(context_.now);
    return;
  }
  const Ledger& ledger = context_.ledger;
  const int64_t since =
      std::max({ledger.calm_since(), ledger.last_commit(), able_since_});
  if (able_since_ >= 0 && context_.now > since + kProgressBound) {
    context_.ledger.Fail(
        Invariant::kProgress,
        absl::StrCat("no step since step ", ledger.best_step(), " at ",
                     ledger.last_commit() / kMillisecond, " ms, with ", able,
                     " workers of at least ", context_.shape.min_workers));
  }
  if (context_.now > std::max(kFaultyTime, ledger.calm_since()) + kEndBound) {
    context_.ledger.Fail(
        Invariant::kProgress,
        absl::StrCat("the job has not ended; it is at step ",
                     ledger.best_step(), " of ", context_.shape.total_steps));
  }
}

RunResult Simulation::Run() {
  RunResult result;
  Begin();
  while (!context_.queue.empty() && !context_.ledger.end().has_value() &&
         !context_.ledger.violation().has_value()) {
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
    const int commits = context_.ledger.commits();
    Handle(event);
    if (context_.ledger.commits() > commits) NoteCopies();
  }
  const Ledger& ledger = context_.ledger;
  result.violation = ledger.violation();
  result.faults = injector_->counts();
  result.commits = ledger.commits();
  result.rollbacks = ledger.rollbacks();
  result.lies = context_.lies;
  result.liar_evictions = context_.liar_evictions;
  result.refutations = context_.refutations;
  result.duration = context_.now;
  result.recoveries = ledger.interruptions();
  result.lines.assign(context_.lines.begin(), context_.lines.end());
  return result;
}

}  // namespace

RunResult RunSeed(uint64_t seed, const RunOptions& options) {
  // Large: kept off the stack.
  return std::make_unique<Simulation>(seed, options)->Run();
}

}  // namespace ringmaster::simulator
