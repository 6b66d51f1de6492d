#include "server/coordinator/core/life/probing.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/life/membership.h"

namespace ringmaster::coordinator {
namespace {

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
  const auto answer = job.probing->answers.find(rank);
  const bool has_answered =
      answer != job.probing->answers.end() && answer->second.has_value();
  return !member.is_lost && worker != nullptr && worker->session != 0 &&
         (has_answered || worker->last_heard > job.probing->due);
}

}  // namespace

bool BeginProbing(Turn& turn, Job& job, const SuspicionReport& report) {
  if (job.state != v1::JOB_STATE_RUNNING || job.probing.has_value() ||
      report.failure == v1::LINK_FAILURE_CLOSED) {
    return false;
  }
  const int ends[] = {report.observer_rank, report.peer_rank};
  for (const int rank : ends) {
    if (ProberAt(turn.state, job, rank) == 0) return false;
  }
  job.probing =
      Probing{.since = turn.now, .due = turn.now + turn.config.probe_timeout};
  auto& asked = job.probing->answers;
  for (const int rank : ends) asked[rank] = std::nullopt;
  for (const Member& member : job.members) {
    const int rank = member.identity.rank;
    if (static_cast<int>(asked.size()) == kMostProbers) break;
    if (ProberAt(turn.state, job, rank) != 0) asked[rank] = std::nullopt;
  }
  for (const auto& [rank, none] : asked) {
    SendProbe send = {.session = ProberAt(turn.state, job, rank)};
    send.probe.set_generation(job.generation);
    *send.probe.mutable_timeout() = ToProto(turn.config.probe_timeout);
    for (const auto& [other, unused] : asked) {
      if (other == rank) continue;
      v1::ProbePeer& peer = *send.probe.add_peers();
      peer.set_rank(other);
      peer.set_data_address(MemberAt(job, other).identity.data_address);
    }
    turn.Do(std::move(send));
  }
  return true;
}

void OnProbed(Turn& turn, Worker& worker, const ProbedReceived& probed) {
  const Member* const member = MemberOf(turn.state, worker);
  if (member == nullptr) return;
  Job& job = *turn.state.JobOf(worker);
  if (!job.probing.has_value() ||
      probed.probed.generation() != job.generation) {
    return;  // It comes too late.
  }
  auto& answers = job.probing->answers;
  const auto answer = answers.find(member->identity.rank);
  if (answer == answers.end()) return;
  answer->second = probed.probed;
}

bool HasAllAnswers(const Job& job) {
  return job.probing.has_value() &&
         std::all_of(
             job.probing->answers.begin(), job.probing->answers.end(),
             [](const auto& entry) { return entry.second.has_value(); });
}

bool IsProbed(const Job& job, const SuspicionReport& report) {
  // An end says nothing of a peer that it could not try.
  const auto has_tried = [&job](int rank, int peer) {
    const auto answer = job.probing->answers.find(rank);
    if (answer == job.probing->answers.end() || !answer->second.has_value())
      return false;
    const auto& results = answer->second->results();
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
  if (!job.probing.has_value()) return links;
  for (const auto& [rank, answer] : job.probing->answers) {
    if (!answer.has_value() || !IsHeard(state, job, rank)) continue;
    for (const v1::ProbeResult& result : answer->results()) {
      if (result.reached() || !IsHeard(state, job, result.peer_rank())) {
        continue;
      }
      links.push_back({.observer = MemberAt(job, rank).identity.worker,
                       .observer_rank = rank,
                       .peer_rank = result.peer_rank(),
                       .detail = LinkText(result.failure(), result.detail()),
                       .is_unreached = true,
                       .failure = result.failure(),
                       .time = job.probing->since});
    }
  }
  return links;
}

}  // namespace ringmaster::coordinator
