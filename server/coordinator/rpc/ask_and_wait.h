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

// An answer that comes from another thread, perhaps when nobody waits for it any more.
// Thread-safe.
template <typename Answer>
class AwaitedAnswer {
 public:
  void Give(Answer answer) {
    MutexLock lock(mutex_);
    answer_ = std::move(answer);
    given_.NotifyAll();
  }

  // nullopt: it has not been given within `patience`.
  [[nodiscard]] std::optional<Answer> Await(Clock& clock,
                                            absl::Duration patience) {
    const MonotonicTime deadline = clock.Now() + patience;
    MutexLock lock(mutex_);
    while (!answer_.has_value()) {
      if (!given_.WaitUntil(mutex_, clock, deadline)) return std::nullopt;
    }
    return std::move(answer_);
  }

 private:
  Mutex mutex_;
  CondVar given_;
  std::optional<Answer> answer_ GUARDED_BY(mutex_);
};

// Returns the answer of `question`, a function from the view that runs on the
// executor. Not for the executor's thread.
//   RESOURCE_EXHAUSTED, UNAVAILABLE  as Ask
//   UNAVAILABLE                      no answer within `patience`
template <typename Question>
[[nodiscard]] auto AskAndWait(CoordinatorRuntime& runtime, Clock& clock,
                              absl::Duration patience, Question question)
    -> absl::StatusOr<
        std::invoke_result_t<const Question&, const CoordinatorView&>> {
  using Answer = std::invoke_result_t<const Question&, const CoordinatorView&>;
  const auto awaited = std::make_shared<AwaitedAnswer<Answer>>();
  RETURN_IF_ERROR(runtime.Ask(
      [awaited, question = std::move(question)](const CoordinatorView& view) {
        awaited->Give(question(view));
      }));
  std::optional<Answer> answer = awaited->Await(clock, patience);
  if (answer.has_value()) return *std::move(answer);
  return absl::UnavailableError(
      absl::StrCat("the coordinator has not answered for ",
                   absl::FormatDuration(patience), "; see its log"));
}

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_ASK_AND_WAIT_H_
