#include "server/coordinator/rpc/trace_gathering.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/rpc/newest_steps.h"

namespace ringmaster::coordinator {
namespace {

class TraceGathering final : public Gathering {
 public:
  TraceGathering(int64_t first_step, int64_t last_step,
                 std::map<std::string, int> ranks,
                 std::vector<std::string> missing, TraceReply reply)
      : ranks_(std::move(ranks)),
        missing_(std::move(missing)),
        reply_(std::move(reply)) {
    request_.set_first_step(first_step);
    request_.set_last_step(last_step);
  }

  v1::SessionResponse QuestionTo(const std::string& /*worker*/,
                                 int64_t request_id) const override {
    v1::SessionResponse message;
    *message.mutable_trace_request() = request_;
    message.mutable_trace_request()->set_request_id(request_id);
    return message;
  }

  int64_t IdIn(const v1::SessionRequest& message) const override {
    return message.trace_reply().request_id();
  }

  void Add(const std::string& worker, v1::SessionRequest answer) override {
    v1::RankTrace& trace = *answer.mutable_trace_reply()->mutable_trace();
    // The worker may have been released meanwhile and know no rank any more.
    trace.set_rank(ranks_.at(worker));
    trace.set_worker(worker);
    answers_.Add(std::move(trace));
  }

  void Miss(const std::string& worker, const std::string& /*why*/) override {
    missing_.push_back(worker);
  }

  void Finish(const absl::Status& status) override {
    if (!status.ok()) {
      reply_(status);
      return;
    }
    absl::StatusOr<v1::GetTraceResponse> response = answers_.Take();
    if (response.ok()) {
      for (std::string& worker : missing_)
        response->add_missing_workers(std::move(worker));
    }
    reply_(std::move(response));
  }

 private:
  const std::map<std::string, int> ranks_;  // by worker
  v1::TraceRequest request_;
  NewestSteps answers_;
  std::vector<std::string> missing_;
  TraceReply reply_;
};

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

void GatherTrace(const State& state, const Job& job, int64_t first_step,
                 int64_t last_step, MonotonicTime now, TraceReply reply,
                 Gatherings& gatherings) {
  std::map<SessionId, std::string> asked;
  std::map<std::string, int> ranks;
  std::vector<std::string> missing;
  for (const Member& member : job.members) {
    const MemberIdentity& identity = member.identity;
    if (!StillHasTrace(state, job, member)) {
      missing.push_back(identity.worker);
      continue;
    }
    ranks.emplace(identity.worker, identity.rank);
    asked.emplace(state.FindWorker(identity.worker)->session, identity.worker);
  }
  gatherings.Start(
      std::make_unique<TraceGathering>(first_step, last_step, std::move(ranks),
                                       std::move(missing), std::move(reply)),
      std::move(asked), now);
}

}  // namespace ringmaster::coordinator
