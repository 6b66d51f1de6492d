// AskAndWait: CoordinatorRuntime::Ask for a thread that needs the answer.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_ASK_AND_WAIT_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_ASK_AND_WAIT_H_

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "server/coordinator/rpc/runtime.h"

namespace ringmaster::coordinator {

// Returns the answer of `question`, a function from the view that runs on the
// executor, perhaps when nobody waits for it any more. Not for the executor's thread.
//   RESOURCE_EXHAUSTED, UNAVAILABLE  as Ask
//   UNAVAILABLE                      no answer within `patience`
template <typename Question>
[[nodiscard]] auto AskAndWait(CoordinatorRuntime& runtime, Clock& clock,
                              absl::Duration patience, Question question)
    -> absl::StatusOr<
        std::invoke_result_t<const Question&, const CoordinatorView&>> {
  using Answer = std::invoke_result_t<const Question&, const CoordinatorView&>;
  struct Reply {
    Mutex mutex;
    CondVar given;
    std::optional<Answer> answer GUARDED_BY(mutex);
  };
  const auto reply = std::make_shared<Reply>();
  RETURN_IF_ERROR(runtime.Ask(
      [reply, question = std::move(question)](const CoordinatorView& view) {
        Answer answer = question(view);
        MutexLock lock(reply->mutex);
        reply->answer = std::move(answer);
        reply->given.NotifyAll();
      }));
  const MonotonicTime deadline = clock.Now() + patience;
  MutexLock lock(reply->mutex);
  while (!reply->answer.has_value()) {
    if (!reply->given.WaitUntil(reply->mutex, clock, deadline)) {
      return absl::UnavailableError(
          absl::StrCat("the coordinator has not answered for ",
                       absl::FormatDuration(patience), "; see its log"));
    }
  }
  return *std::move(reply->answer);
}

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_ASK_AND_WAIT_H_
