#include "server/coordinator/rpc/gatherings.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/state/limit_reached.h"

namespace ringmaster::coordinator {

void Gatherings::Start(std::unique_ptr<Gathering> gathering,
                       std::map<SessionId, std::string> workers,
                       MonotonicTime now) {
  if (running_.size() >= max_running_) {
    gathering->Finish(LimitReached(static_cast<int64_t>(max_running_),
                                   "questions to workers under way",
                                   "max_gatherings"));
    return;
  }
  Running& running =
      running_.emplace_back(Running{.request_id = ++last_request_id_,
                                    .deadline = now + kGatherBudget,
                                    .waiting = std::move(workers),
                                    .gathering = std::move(gathering)});
  for (const auto& [session, worker] : running.waiting)
    send_(session, running.gathering->QuestionTo(worker, running.request_id));
  FinishComplete();
}

void Gatherings::Add(SessionId session, v1::SessionRequest answer) {
  for (Running& running : running_) {
    if (running.gathering->IdIn(answer) != running.request_id) continue;
    const auto asked = running.waiting.find(session);
    if (asked == running.waiting.end()) return;
    running.gathering->Add(asked->second, std::move(answer));
    running.waiting.erase(asked);
    FinishComplete();
    return;
  }
}

void Gatherings::Forget(SessionId session) {
  for (Running& running : running_) {
    const auto it = running.waiting.find(session);
    if (it == running.waiting.end()) continue;
    running.gathering->Miss(it->second, "left before it answered");
    running.waiting.erase(it);
  }
  FinishComplete();
}

void Gatherings::Expire(MonotonicTime now) {
  for (Running& running : running_) {
    if (running.deadline > now) break;
    for (const auto& [session, worker] : running.waiting) {
      running.gathering->Miss(
          worker, absl::StrCat("did not answer within ",
                               absl::FormatDuration(kGatherBudget)));
    }
    running.waiting.clear();
  }
  FinishComplete();
}

MonotonicTime Gatherings::NextDeadline() const {
  return running_.empty() ? MonotonicTime::InfiniteFuture()
                          : running_.front().deadline;
}

void Gatherings::Abort(const absl::Status& status) {
  for (Running& running : std::exchange(running_, {}))
    running.gathering->Finish(status);
}

void Gatherings::FinishComplete() {
  std::list<Running> complete;
  for (auto it = running_.begin(); it != running_.end();) {
    const auto here = it++;
    if (here->waiting.empty()) complete.splice(complete.end(), running_, here);
  }
  for (Running& running : complete) running.gathering->Finish(absl::OkStatus());
}

}  // namespace ringmaster::coordinator
