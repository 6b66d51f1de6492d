#include "server/coordinator/rpc/trace_gathering.h"

#include <algorithm>
#include <utility>

namespace ringmaster::coordinator {
namespace {

// Returns true if the member is still the same process, and `job` its last job.
bool StillHasTrace(const State& state, const Job& job, const Member& member) {
  const std::string& name = member.identity.worker;
  const Worker* const worker = state.FindWorker(name);
  if (worker == nullptr || worker->session == 0 ||
      worker->incarnation != member.identity.incarnation) {
    return false;
  }
  return std::none_of(
      state.jobs.begin(), state.jobs.end(), [&](const auto& entry) {
        const Job& other = entry.second;
        return other.generation > job.generation &&
               std::any_of(other.members.begin(), other.members.end(),
                           [&](const Member& of_other) {
                             return of_other.identity.worker == name;
                           });
      });
}

}  // namespace

void TraceGathering::Start(const State& state, const Job& job,
                           int64_t first_step, int64_t last_step,
                           MonotonicTime now, Reply reply) {
  Gathering& gathering = gatherings_.emplace_back();
  gathering.request_id = ++last_request_id_;
  gathering.deadline = now + kTraceBudget;
  gathering.reply = std::move(reply);
  v1::TraceRequest request;
  request.set_request_id(gathering.request_id);
  request.set_first_step(first_step);
  request.set_last_step(last_step);
  for (const Member& member : job.members) {
    const MemberIdentity& identity = member.identity;
    if (!StillHasTrace(state, job, member)) {
      gathering.missing.push_back(identity.worker);
      continue;
    }
    const SessionId session = state.FindWorker(identity.worker)->session;
    gathering.waiting.emplace(session,
                              Gathering::Asked{identity.worker, identity.rank});
    send_(session, request);
  }
  FinishComplete();
}

void TraceGathering::Add(SessionId session, v1::TraceReply reply) {
  for (Gathering& gathering : gatherings_) {
    if (gathering.request_id != reply.request_id()) continue;
    const auto asked = gathering.waiting.find(session);
    if (asked == gathering.waiting.end()) continue;
    // The worker may have been released meanwhile and know no rank any more.
    reply.mutable_trace()->set_rank(asked->second.rank);
    reply.mutable_trace()->set_worker(asked->second.worker);
    gathering.waiting.erase(asked);
    gathering.answers.Add(std::move(*reply.mutable_trace()));
  }
  FinishComplete();
}

void TraceGathering::Forget(SessionId session) {
  for (Gathering& gathering : gatherings_) {
    const auto it = gathering.waiting.find(session);
    if (it == gathering.waiting.end()) continue;
    gathering.missing.push_back(it->second.worker);
    gathering.waiting.erase(it);
  }
  FinishComplete();
}

void TraceGathering::Expire(MonotonicTime now) {
  for (Gathering& gathering : gatherings_) {
    if (gathering.deadline > now) break;
    for (const auto& [session, asked] : gathering.waiting) {
      gathering.missing.push_back(asked.worker);
    }
    gathering.waiting.clear();
  }
  FinishComplete();
}

MonotonicTime TraceGathering::NextDeadline() const {
  return gatherings_.empty() ? MonotonicTime::InfiniteFuture()
                             : gatherings_.front().deadline;
}

void TraceGathering::Abort(const absl::Status& status) {
  std::list<Gathering> aborted = std::exchange(gatherings_, {});
  for (Gathering& gathering : aborted) gathering.reply(status);
}

void TraceGathering::FinishComplete() {
  std::list<Gathering> complete;
  for (auto it = gatherings_.begin(); it != gatherings_.end();) {
    const auto here = it++;
    if (here->waiting.empty()) {
      complete.splice(complete.end(), gatherings_, here);
    }
  }
  for (Gathering& gathering : complete) Finish(gathering);
}

void TraceGathering::Finish(Gathering& gathering) {
  absl::StatusOr<v1::GetTraceResponse> response = gathering.answers.Take();
  if (response.ok()) {
    for (std::string& worker : gathering.missing) {
      response->add_missing_workers(std::move(worker));
    }
  }
  gathering.reply(std::move(response));
}

}  // namespace ringmaster::coordinator
