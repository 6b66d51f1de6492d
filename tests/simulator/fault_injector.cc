#include "tests/simulator/fault_injector.h"

#include "absl/strings/str_cat.h"

namespace ringmaster::simulator {
namespace {

int64_t Aftermath(const coordinator::Config& config) {
  return absl::ToInt64Nanoseconds(config.reattach_budget + 2 * config.lease +
                                  absl::Seconds(2));
}

}  // namespace

FaultInjector::FaultInjector(Context& context, Cluster cluster)
    : context_(context),
      cluster_(cluster),
      aftermath_(Aftermath(context.shape.config)) {}

void FaultInjector::Begin() {
  for (int i = 0; i < kFaults; ++i) {
    Fault& fault = context_.faults[i];
    if (fault.moment != Moment::kNone) continue;
    fault.is_scheduled = true;
    SimEvent event;
    event.kind = EventKind::kFault;
    event.detail = static_cast<uint8_t>(i);
    context_.At(fault.time, event);
  }
}

int FaultInjector::PickTarget(int slot) {
  if (slot >= 0 && context_.random.Chance(60)) return slot;
  return static_cast<int>(context_.random.Between(0, kWorkers - 1));
}

int FaultInjector::PickHolder() {
  int slot = 0;
  do {
    slot = static_cast<int>(context_.random.Between(0, kWorkers - 1));
  } while (!context_.shape.IsHolder(slot));
  return slot;
}

int FaultInjector::PickGiver(int slot) {
  if (slot < 0) return PickHolder();
  const agent::AssignmentPayload& assignment =
      cluster_.workers[slot]->trainer().assignment();
  if (assignment.placements == nullptr) return PickHolder();
  for (const ShardPlacement& shard : *assignment.placements) {
    const bool is_taken = shard.primary_rank == assignment.rank ||
                          shard.backup_rank == assignment.rank;
    if (is_taken && shard.source_rank >= 0 &&
        shard.source_rank != assignment.rank) {
      return assignment.slots[static_cast<size_t>(shard.source_rank)];
    }
  }
  return PickHolder();
}

int FaultInjector::TargetOf(const Fault& fault, int slot) {
  switch (fault.kind) {
    case FaultKind::kKillHolder:
      return PickHolder();
    case FaultKind::kKillGiver:
      return PickGiver(slot);
    default:
      return PickTarget(slot);
  }
}

int FaultInjector::PickPeer(int slot) {
  const int next = cluster_.workers[slot]->trainer().assignment().next_slot;
  if (next >= 0 && next != slot && context_.random.Chance(80)) return next;
  return static_cast<int>(slot + context_.random.Between(1, kWorkers - 1)) %
         kWorkers;
}

void FaultInjector::Strike(int index, int slot) {
  if (context_.is_calm) return;
  const Fault fault = context_.faults[index];
  ++counts_[static_cast<size_t>(fault.kind)];
  const int target = TargetOf(fault, slot);
  if (context_.traced) {
    context_.Tell(
        absl::StrCat("FAULT ", Sv(NameOf(fault.kind)), " ", WorkerName(target),
                     " for ", fault.duration / kMillisecond, " ms, directions ",
                     fault.directions, ", at ", Sv(NameOf(fault.moment))));
  }
  Apply(fault, target);
  if (fault.kind == FaultKind::kKillHolder) KillGiverLater(index);
}

void FaultInjector::KillGiverLater(int index) {
  context_.faults[index] = {
      .kind = FaultKind::kKillGiver,
      .time = context_.now,
      .moment = Moment::kStateCopy,
      .delay = context_.random.Between(0, 3'000) * kMicrosecond};
}

void FaultInjector::KillWorker(int slot, bool is_silent, bool stays_away) {
  Touch(slot, context_.now);
  context_.fault_log.Disturb(context_.now);
  cluster_.workers[slot]->Kill(is_silent);
  if (is_silent) {
    for (int peer = 0; peer < kWorkers; ++peer) ProbeLater(peer, slot);
  }
  if (stays_away && context_.random.Chance(30)) return;
  cluster_.workers[slot]->StartLater(context_.random.Between(50, 6'000) *
                                     kMillisecond);
}

void FaultInjector::CutPeers(int from, int to, int directions, int64_t until) {
  if ((directions & 1) != 0) cluster_.peers.Cut(from, to, until);
  if ((directions & 2) != 0) cluster_.peers.Cut(to, from, until);
  ProbeLater(from, to);
  ProbeLater(to, from);
}

// As common/transport does: half of what connecting may take.
void FaultInjector::ProbeLater(int slot, int peer) {
  SimEvent event;
  event.kind = EventKind::kPeerSilent;
  event.slot = static_cast<int8_t>(slot);
  event.from = static_cast<int8_t>(peer);
  const int64_t limit =
      absl::ToInt64Nanoseconds(context_.shape.config.connect_timeout / 2);
  context_.After(limit + context_.random.Between(0, 1'000) * kMillisecond,
                 event);
}

void FaultInjector::OnPeerSilent(int slot, int peer) {
  if (cluster_.peers.IsCut(slot, peer) || cluster_.peers.IsCut(peer, slot) ||
      !cluster_.workers[peer]->is_alive()) {
    cluster_.workers[slot]->trainer().OnLinkFailed(peer,
                                                   v1::LINK_FAILURE_NO_ANSWER);
  }
}

void FaultInjector::StopCoordinator(const Fault& fault) {
  const int64_t until = context_.now + fault.duration;
  context_.fault_log.TouchAll(until + aftermath_);
  context_.fault_log.Disturb(until);
  if (fault.kind == FaultKind::kCoordinatorStall) {
    cluster_.coordinator.Stall(until);
    cluster_.sessions.StallCoordinator(until);
    return;
  }
  cluster_.coordinator.Kill();
  SimEvent event;
  event.kind = EventKind::kCoordinatorStart;
  context_.At(until, event);
}

void FaultInjector::SpoilHosts(const Fault& fault, int slot) {
  context_.bad_way = fault.way;
  context_.bad_hosts =
      fault.is_everywhere ? ~0u : 1u << context_.shape.host_of[slot];
}

void FaultInjector::OnOutOfMemory(int slot) {
  KillWorker(slot, /*is_silent=*/false, /*stays_away=*/false);
}

void FaultInjector::StartTwin(int64_t until) {
  if (!cluster_.coordinator.StartTwin()) return;
  context_.fault_log.TouchAll(until + aftermath_);
  context_.fault_log.Disturb(until);
  SimEvent event;
  event.kind = EventKind::kTwinEnd;
  context_.At(until, event);
}

void FaultInjector::SilenceAll(const Fault& fault, int64_t until) {
  context_.fault_log.TouchAll(until + aftermath_);
  context_.fault_log.Disturb(until);
  for (int slot = 0; slot < kWorkers; ++slot) {
    switch (fault.kind) {
      case FaultKind::kFreezeAll:
        cluster_.workers[slot]->Freeze(until);
        break;
      case FaultKind::kCutCoordinator:
        cluster_.sessions.Cut(slot, fault.directions, until);
        break;
      default:
        cluster_.sessions.Reset(slot);
        break;
    }
  }
}

void FaultInjector::LeaveAll(bool everybody) {
  context_.fault_log.Disturb(context_.now);
  for (int slot = 0; slot < kWorkers; ++slot) {
    SimWorker& worker = *cluster_.workers[slot];
    if (everybody || worker.trainer().position().applied > 0) {
      worker.Terminate();
    }
  }
}

void FaultInjector::Apply(const Fault& fault, int slot) {
  const int64_t until = context_.now + fault.duration;
  switch (fault.kind) {
    case FaultKind::kKill:
    case FaultKind::kKillGiver:
      KillWorker(slot, /*is_silent=*/false, /*stays_away=*/true);
      return;
    case FaultKind::kKillHolder:
      KillWorker(slot, /*is_silent=*/false, /*stays_away=*/false);
      return;
    case FaultKind::kKillSeveral: {
      const int count = static_cast<int>(context_.random.Between(2, kWorkers));
      for (int i = 0; i < count; ++i) {
        KillWorker((slot + i) % kWorkers, /*is_silent=*/false,
                   /*stays_away=*/true);
      }
      return;
    }
    case FaultKind::kHostLost:
      for (int i = 0; i < kWorkers; ++i) {
        if (context_.shape.host_of[i] == context_.shape.host_of[slot]) {
          KillWorker(i, /*is_silent=*/true, /*stays_away=*/true);
        }
      }
      return;
    case FaultKind::kCoordinatorKill:
    case FaultKind::kCoordinatorStall:
      StopCoordinator(fault);
      return;
    case FaultKind::kBadHost:
      SpoilHosts(fault, slot);
      return;
    case FaultKind::kTwin:
      StartTwin(until);
      return;
    case FaultKind::kFreezeAll:
    case FaultKind::kCutCoordinator:
    case FaultKind::kResetSessions:
      SilenceAll(fault, until);
      return;
    case FaultKind::kMute:
      context_.mute = slot;
      context_.mute_until = until;
      Touch(slot, until);
      context_.fault_log.OnMute(slot, until);
      return;
    case FaultKind::kLeaveAll:
      LeaveAll(/*everybody=*/fault.directions == 1);
      return;
    case FaultKind::kJournalFails:
      cluster_.coordinator.FailJournal(until);
      context_.fault_log.Disturb(until);
      return;
    default:
      break;
  }
  Touch(slot, until);
  context_.fault_log.Disturb(until);
  switch (fault.kind) {
    case FaultKind::kFreeze:
      cluster_.workers[slot]->Freeze(until);
      return;
    case FaultKind::kCutSession:
      cluster_.sessions.Cut(slot, fault.directions, until);
      return;
    case FaultKind::kCutPeers: {
      const int peer = PickPeer(slot);
      Touch(peer, until);
      CutPeers(slot, peer, fault.directions, until);
      return;
    }
    case FaultKind::kIsolate:
      cluster_.sessions.Cut(slot, 3, until);
      for (int peer = 0; peer < kWorkers; ++peer) {
        if (peer == slot) continue;
        CutPeers(slot, peer, 3, until);
      }
      return;
    case FaultKind::kResetSession:
      cluster_.sessions.Reset(slot);
      return;
    case FaultKind::kResetPeers: {
      const int peer = PickPeer(slot);
      Touch(peer, context_.now);
      cluster_.workers[slot]->trainer().OnLinkFailed(peer,
                                                     v1::LINK_FAILURE_CLOSED);
      cluster_.workers[peer]->trainer().OnLinkFailed(slot,
                                                     v1::LINK_FAILURE_CLOSED);
      return;
    }
    case FaultKind::kSlow:
      cluster_.workers[slot]->trainer().SlowDown(until);
      return;
    case FaultKind::kDrain:
      // By SIGTERM, after which it ends; or by an operator's word.
      if (fault.directions == 1) {
        cluster_.workers[slot]->Terminate();
      } else {
        cluster_.coordinator.Drain(slot, fault.duration);
      }
      return;
    case FaultKind::kLiar:
      context_.liar = slot;
      context_.fault_log.OnLiar(slot, until);
      cluster_.workers[slot]->LieUntil(until);
      return;
    default:
      return;
  }
}

void FaultInjector::Calm() {
  context_.is_calm = true;
  for (int slot = 0; slot < kWorkers; ++slot) {
    cluster_.workers[slot]->StartLater(context_.random.Between(0, 1'000) *
                                       kMillisecond);
  }
}

}  // namespace ringmaster::simulator
