#include "server/coordinator/core/life/probing.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/progress.h"

namespace ringmaster::coordinator {
namespace {

constexpr int kLooksPerInterval = 8;

const Member& MemberAt(const Job& job, int rank) {
  return job.members[static_cast<size_t>(rank)];
}

// Its session, if the member of that rank can be asked; else 0.
SessionId ProberAt(const State& state, const Job& job, int rank) {
  const Member& member = MemberAt(job, rank);
  const Worker* const worker = state.FindWorker(member.identity.worker);
  const bool can_be_asked =
      !member.is_lost && worker != nullptr && worker->can_probe;
  return can_be_asked ? worker->session : 0;
}

// Returns true if it lives: it has answered, or was heard when it should have.
// A newcomer with the name of a member that is lost is not that member.
bool IsHeard(const State& state, const Job& job, int rank) {
  const Member& member = MemberAt(job, rank);
  const Worker* const worker = state.FindWorker(member.identity.worker);
  const auto prober = job.suspicions.probing->probers.find(rank);
  const bool has_answered = prober != job.suspicions.probing->probers.end() &&
                            prober->second.answer.has_value();
  return !member.is_lost && worker != nullptr && worker->session != 0 &&
         (has_answered || worker->last_heard > job.suspicions.probing->due);
}

// By the rank of a member that is asked: the ranks that it is to connect to.
using Links = std::map<int, std::set<int>>;

// Takes out the links inside a container, which are no TCP connections: whether
// one could be made there says nothing about them.
Links BetweenHosts(const Job& job, const Links& links) {
  Links between;
  for (const auto& [rank, others] : links) {
    for (const int other : others) {
      if (ContainerOf(MemberAt(job, rank).identity) !=
          ContainerOf(MemberAt(job, other).identity)) {
        between[rank].insert(other);
      }
    }
  }
  return between;
}

Links AllBetween(const std::set<int>& ranks) {
  Links links;
  for (const int rank : ranks) {
    links[rank] = ranks;
    links[rank].erase(rank);
  }
  return links;
}

// Adds members that can be asked to `ranks`, up to kMostProbers.
void AddOthers(const State& state, const Job& job, std::set<int>& ranks) {
  for (const Member& member : job.members) {
    if (static_cast<int>(ranks.size()) == kMostProbers) return;
    const int rank = member.identity.rank;
    if (ProberAt(state, job, rank) != 0) ranks.insert(rank);
  }
}

void Ask(Turn& turn, Job& job, const Links& links, bool is_early) {
  job.suspicions.probing = Probing{.since = turn.now,
                                   .due = turn.now + turn.config.probe_timeout,
                                   .is_early = is_early,
                                   .number = ++job.suspicions.probes,
                                   .missing = links.size()};
  // As long again as the members have, for their answers to arrive.
  if (is_early)
    job.suspicions.probing->over = turn.now + 2 * turn.config.probe_timeout;
  for (const auto& [rank, others] : links) {
    job.suspicions.probing->probers[rank] = {
        .peers = others, .last_progress = MemberAt(job, rank).last_progress};
    SendProbe send = {.session = ProberAt(turn.state, job, rank)};
    send.probe.set_generation(job.generation);
    send.probe.set_number(job.suspicions.probing->number);
    *send.probe.mutable_timeout() = ToProto(turn.config.probe_timeout);
    for (const int other : others) {
      v1::ProbePeer& peer = *send.probe.add_peers();
      peer.set_rank(other);
      peer.set_data_address(MemberAt(job, other).identity.data_address);
    }
    turn.Do(std::move(send));
  }
}

// Returns the links over which members wait, both ways: of each member no more
// than its port's queue has places for.
Links LinksWaitedOn(const State& state, const Job& job,
                    const std::vector<int>& waits) {
  Links links;
  for (int rank = 0; rank < static_cast<int>(waits.size()); ++rank) {
    const int peer = waits[rank];
    if (peer < 0 || ProberAt(state, job, rank) == 0 ||
        ProberAt(state, job, peer) == 0) {
      continue;
    }
    const auto is_full = [&links](int end) {
      const auto found = links.find(end);
      return found != links.end() && found->second.size() + 1 == kMostProbers;
    };
    if (is_full(rank) || is_full(peer)) continue;
    links[rank].insert(peer);
    links[peer].insert(rank);
  }
  return links;
}

bool MayProbeEarly(const Turn& turn, const Job& job) {
  return job.state() == v1::JOB_STATE_RUNNING &&
         !job.suspicions.probing.has_value() &&
         job.suspicions.reports.empty() && !job.runs_commands &&
         !job.ending.has_value() &&
         job.reattach_deadline == MonotonicTime::InfiniteFuture() &&
         job.suspicions.early_probes.in_all < kMostEarlyProbes &&
         job.suspicions.early_probes.next_look <= turn.now;
}

}  // namespace

bool BeginProbing(Turn& turn, Job& job, const SuspicionReport& report) {
  if (job.state() != v1::JOB_STATE_RUNNING ||
      report.failure == v1::LINK_FAILURE_CLOSED) {
    return false;
  }
  if (job.suspicions.probing.has_value() && !job.suspicions.probing->is_early)
    return false;
  std::set<int> ranks = {report.observer_rank, report.peer_rank};
  for (const int rank : ranks) {
    if (ProberAt(turn.state, job, rank) == 0) return false;
  }
  AddOthers(turn.state, job, ranks);
  Ask(turn, job, AllBetween(ranks), /*is_early=*/false);
  return true;
}

void ProbeEarly(Turn& turn, Job& job, const Member& member) {
  if (!MayProbeEarly(turn, job)) return;
  EarlyProbes& early = job.suspicions.early_probes;
  if (turn.now - early.last >= kEarlyProbeMemory) early.lately = 0;
  const absl::Duration patience =
      turn.config.lease / 2 * (int64_t{1} << early.lately);
  if (!member.last_progress.has_value() ||
      turn.now - *member.last_progress < patience) {
    return;
  }
  // Members beat too often for each beat to be a reason to look at all of them.
  early.next_look = turn.now + turn.config.beat_interval / kLooksPerInterval;
  // The beats of the others told of their last progress up to an interval
  // later.
  Links links = BetweenHosts(
      job, LinksWaitedOn(
               turn.state, job,
               WaitsInVain(turn, job, patience - turn.config.beat_interval)));
  if (links.empty()) return;
  if (static_cast<int>(job.members.size()) <= kMostProbers) {
    std::set<int> ranks;
    AddOthers(turn.state, job, ranks);
    links = BetweenHosts(job, AllBetween(ranks));
  }
  early.last = turn.now;
  ++early.in_all;
  ++early.lately;
  Ask(turn, job, links, /*is_early=*/true);
}

MonotonicTime EarlyProbeDeadline(const Job& job) {
  if (!job.suspicions.probing.has_value() ||
      !job.suspicions.probing->is_early ||
      job.suspicions.deadline != MonotonicTime::InfiniteFuture()) {
    return MonotonicTime::InfiniteFuture();
  }
  return job.suspicions.probing->over;
}

void ExtendProbing(Job& job, absl::Duration delay) {
  if (!job.suspicions.probing.has_value()) return;
  // Not `since`, which has been.
  job.suspicions.probing->due += delay;
  job.suspicions.probing->over += delay;
  for (auto& [rank, prober] : job.suspicions.probing->probers) {
    if (prober.last_progress.has_value()) *prober.last_progress += delay;
  }
}

void OnProbed(Turn& turn, Worker& worker, const ProbedReceived& probed) {
  const Member* const member = MemberOf(turn.state, worker);
  if (member == nullptr) return;
  Job& job = *turn.state.JobOf(worker);
  if (!job.suspicions.probing.has_value() ||
      probed.probed.generation() != job.generation) {
    return;  // It comes too late.
  }
  // A release that does not say which one it answers may mean the first.
  const uint32_t number = probed.probed.number();
  if (number == 0) job.suspicions.early_probes.stay_in_queue = true;
  if (std::max(number, 1U) != job.suspicions.probing->number) return;
  const auto prober =
      job.suspicions.probing->probers.find(member->identity.rank);
  if (prober == job.suspicions.probing->probers.end() ||
      prober->second.answer.has_value()) {
    return;
  }
  v1::Probed& answer = prober->second.answer.emplace();
  for (const v1::ProbeResult& result : probed.probed.results()) {
    if (!prober->second.peers.contains(result.peer_rank())) continue;
    *answer.add_results() = result;
    const Worker* const peer = turn.state.FindWorker(
        MemberAt(job, result.peer_rank()).identity.worker);
    if (!result.reached() && peer != nullptr &&
        peer->last_heard < job.suspicions.probing->since &&
        turn.now - peer->last_heard > turn.config.lease / 2) {
      prober->second.silent_peers.insert(result.peer_rank());
    }
  }
  --job.suspicions.probing->missing;
}

bool HasAllAnswers(const Job& job) {
  return job.suspicions.probing.has_value() &&
         job.suspicions.probing->missing == 0;
}

bool IsProbed(const Job& job, const SuspicionReport& report) {
  // An end says nothing of a peer that it could not try.
  const auto has_tried = [&job](int rank, int peer) {
    const auto prober = job.suspicions.probing->probers.find(rank);
    if (prober == job.suspicions.probing->probers.end() ||
        !prober->second.answer.has_value()) {
      return false;
    }
    const auto& results = prober->second.answer->results();
    return std::any_of(results.begin(), results.end(),
                       [peer](const v1::ProbeResult& result) {
                         return result.peer_rank() == peer;
                       });
  };
  return has_tried(report.observer_rank, report.peer_rank) ||
         has_tried(report.peer_rank, report.observer_rank);
}

std::vector<SuspicionReport> LinksNotMade(const State& state, const Job& job) {
  std::vector<SuspicionReport> links;
  if (!job.suspicions.probing.has_value()) return links;
  for (const auto& [rank, prober] : job.suspicions.probing->probers) {
    if (!prober.answer.has_value() || !IsHeard(state, job, rank)) continue;
    for (const v1::ProbeResult& result : prober.answer->results()) {
      if (result.reached() || !IsHeard(state, job, result.peer_rank())) {
        continue;
      }
      links.push_back({.observer = MemberAt(job, rank).identity.worker,
                       .observer_rank = rank,
                       .peer_rank = result.peer_rank(),
                       .detail = LinkText(result.failure(), result.detail()),
                       .is_unreached = true,
                       .failure = result.failure(),
                       .time = job.suspicions.probing->since});
    }
  }
  return links;
}

std::set<std::string> SilentPeers(const Job& job) {
  std::set<std::string> peers;
  if (!job.suspicions.probing.has_value()) return peers;
  for (const auto& [rank, prober] : job.suspicions.probing->probers) {
    for (const int peer : prober.silent_peers)
      peers.insert(MemberAt(job, peer).identity.worker);
  }
  return peers;
}

bool IsStillWaitedOn(const State& state, const Job& job,
                     const SuspicionReport& link) {
  const auto waits = [&](int rank, int peer) {
    const Member& member = MemberAt(job, rank);
    const Worker* const worker = state.FindWorker(member.identity.worker);
    const auto prober = job.suspicions.probing->probers.find(rank);
    return worker != nullptr && worker->waiting_for_rank == peer &&
           prober != job.suspicions.probing->probers.end() &&
           member.last_progress.has_value() &&
           member.last_progress == prober->second.last_progress;
  };
  return waits(link.observer_rank, link.peer_rank) ||
         waits(link.peer_rank, link.observer_rank);
}

std::vector<SuspicionReport> LinksMadeByNeither(const State& state,
                                                const Job& job) {
  std::vector<SuspicionReport> links = LinksNotMade(state, job);
  std::set<std::pair<int, int>> not_made;
  for (const SuspicionReport& link : links)
    not_made.emplace(link.observer_rank, link.peer_rank);
  std::erase_if(links, [&](const SuspicionReport& link) {
    return !not_made.contains({link.peer_rank, link.observer_rank});
  });
  return links;
}

}  // namespace ringmaster::coordinator
