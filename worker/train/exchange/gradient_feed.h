// GradientFeed pushes each bucket's gradient as soon as an accelerator's copy
// of it is on the host, while the training thread queues passes or waits for
// them.
//
// It pushes in the order of Add, and polls the copy under way every few
// microseconds, on a thread of its own, since copies end while the training
// thread is busy.
// Guarantees: nothing is pushed whose copy has failed, nor after the
// destructor.
// Thread-safety: on the training thread.
// Ownership: copies and clock must outlive it.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_GRADIENT_FEED_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_GRADIENT_FEED_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "worker/train/state/accelerator.h"

namespace ringmaster {

class GradientFeed {
 public:
  GradientFeed(ServerCopies& copies, Clock& clock);
  ~GradientFeed();  // waits for no copy
  GradientFeed(const GradientFeed&) = delete;
  GradientFeed& operator=(const GradientFeed&) = delete;

  // Starts the copy of a bucket's gradients to `host`; once it is done, `push`
  // is called on the feed's thread. Errors as ServerCopies::StartGradients.
  [[nodiscard]] absl::Status Add(int bucket, absl::Span<float> host,
                                 std::function<void()> push);

  // Waits until all that was added is pushed. The first error stays.
  //   INTERNAL  the accelerator did not finish the copies in time; no peer's
  //             fault
  //   the errors of ServerCopies::HasGradients
  [[nodiscard]] absl::Status Await(MonotonicTime deadline);

 private:
  struct Entry {
    int bucket = 0;
    std::function<void()> push;
  };

  void Run();
  // The bucket to look at next, once there is one; -1: the feed ends.
  [[nodiscard]] int AwaitEntry();
  // Pushes the first entry, whose copy is done.
  void PushFirst();

  ServerCopies& copies_;
  Clock& clock_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Entry> entries_ GUARDED_BY(mutex_);  // the first is looked at
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  absl::Status failure_ GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_GRADIENT_FEED_H_
