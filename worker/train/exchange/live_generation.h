// LiveGeneration is the part of the training thread's current generation that
// other threads can reach: they abort it and watch its communication.
//
// Thread-safe. Exposed objects are called under a mutex, so that only the
// training thread ever destroys a communicator: until its thread has been
// joined, the gradients may be written to.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_LIVE_GENERATION_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_LIVE_GENERATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "common/sync/mutex.h"
#include "common/transport/cancel_token.h"
#include "worker/collective/communicator.h"
#include "worker/data/prefetcher.h"
#include "worker/train/exchange/parameter_sync.h"

namespace ringmaster {

class LiveGeneration {
 public:
  // `generation` takes the place of the one before, with a token of its own;
  // an Abort of it may have come already.
  void Begin(int64_t generation) EXCLUDES(mutex_);

  // Cancelled by Abort.
  [[nodiscard]] std::shared_ptr<const CancelToken> cancel() const
      EXCLUDES(mutex_);

  // Lets Abort and communication() reach these, until Unexpose, which must come
  // before they go; a prefetcher may be null. ABORTED if the generation was
  // aborted before.
  [[nodiscard]] absl::Status Expose(Communicator& communicator,
                                    Prefetcher* prefetcher) EXCLUDES(mutex_);
  // The same with what a job with parameter servers has besides: `host`, which
  // may be null, is cancelled as well.
  [[nodiscard]] absl::Status ExposeServers(
      std::function<SyncProgress()> progress, CancelToken* host)
      EXCLUDES(mutex_);
  void Unexpose() EXCLUDES(mutex_);

  // Ends `generation` and all before it, now or once they begin; one that
  // follows is left alone.
  void Abort(int64_t generation, std::string_view why) EXCLUDES(mutex_);

  // Returns the progress of what is exposed; if nothing is, then nothing done
  // and nobody waited for.
  [[nodiscard]] CollectiveProgress communication() const EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  int64_t generation_ GUARDED_BY(mutex_) = 0;
  // This one and all before it are over.
  int64_t aborted_generation_ GUARDED_BY(mutex_) = 0;
  std::shared_ptr<CancelToken> cancel_ GUARDED_BY(mutex_) =
      std::make_shared<CancelToken>();
  Communicator* communicator_ GUARDED_BY(mutex_) = nullptr;
  Prefetcher* prefetcher_ GUARDED_BY(mutex_) = nullptr;
  std::function<SyncProgress()> servers_ GUARDED_BY(mutex_);  // may be empty
  CancelToken* host_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_LIVE_GENERATION_H_
