// ViewClient is a command's end of its views (view.h).
//
// Thread-safe. A thread of its own takes what comes.
#ifndef RINGMASTER_WORKER_VIEWS_VIEW_CLIENT_H_
#define RINGMASTER_WORKER_VIEWS_VIEW_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "common/transport/unique_fd.h"
#include "worker/views/view.h"

namespace ringmaster {

class ViewClient {
 public:
  // `name` is that of kViewsVariable; the clock outlives this.
  //   UNAVAILABLE  no worker listens there, or it does not answer within `limit`
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ViewClient>> Connect(
      const std::string& name, absl::Duration limit, Clock& clock);
  ~ViewClient();
  ViewClient(const ViewClient&) = delete;
  ViewClient& operator=(const ViewClient&) = delete;

  // Tells the worker; a worker that is gone takes the command with it.
  void TellCanGoOn(int rank, int world_size);
  void TellHasMet();
  void TellTakesNewcomers(const std::string& group);
  void TellJoins(const std::string& member);
  // A refusal that came before is void.
  void TellLost(int rank, int64_t view);

  // Views after the one of `number`, the oldest first.
  [[nodiscard]] std::vector<View> Since(int64_t number) const;

  // Waits for a view after `number`, as long as its worker has not said that
  // none comes on account of `lost_rank` (-1: of nobody).
  //   FAILED_PRECONDITION  it has
  //   DEADLINE_EXCEEDED    none has come
  //   UNAVAILABLE          the worker is gone
  [[nodiscard]] absl::Status WaitForView(int64_t number, int lost_rank,
                                         MonotonicTime deadline);

  // Has `on_view` called after each new view, on the client's thread, until the
  // returned value is gone; its end waits for a call that is under way.
  using Subscription = std::shared_ptr<void>;
  [[nodiscard]] Subscription Subscribe(std::function<void()> on_view);

 private:
  ViewClient(UniqueFd socket, UniqueFd stop, Clock& clock);

  void Tell(const ViewMessage& message);
  void ThreadMain();
  // False: the worker is gone.
  [[nodiscard]] bool TakeAll();
  void Take(const ViewMessage& message);

  Clock& clock_;
  const UniqueFd socket_;
  const UniqueFd stop_;  // an eventfd
  mutable Mutex mutex_;
  CondVar came_;
  std::vector<View> views_ GUARDED_BY(mutex_);
  std::set<int> refused_ GUARDED_BY(mutex_);  // in the newest view
  bool is_gone_ GUARDED_BY(mutex_) = false;
  // Held while they are called.
  Mutex subscriber_mutex_;
  std::map<int64_t, std::function<void()>> subscribers_
      GUARDED_BY(subscriber_mutex_);
  int64_t subscriptions_ GUARDED_BY(subscriber_mutex_) = 0;
  std::thread thread_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_VIEWS_VIEW_CLIENT_H_
