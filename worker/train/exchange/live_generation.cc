#include "worker/train/exchange/live_generation.h"

#include <algorithm>
#include <utility>

#include "common/status/status_macros.h"

namespace ringmaster {

void LiveGeneration::Begin(int64_t generation) {
  MutexLock lock(mutex_);
  generation_ = generation;
  cancel_ = std::make_shared<CancelToken>();
  if (aborted_generation_ >= generation)
    cancel_->Cancel("the generation was over before it began");
}

std::shared_ptr<const CancelToken> LiveGeneration::cancel() const {
  MutexLock lock(mutex_);
  return cancel_;
}

absl::Status LiveGeneration::Expose(Communicator& communicator,
                                    Prefetcher* prefetcher) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(cancel_->status());
  communicator_ = &communicator;
  prefetcher_ = prefetcher;
  return absl::OkStatus();
}

absl::Status LiveGeneration::ExposeServers(
    std::function<SyncProgress()> progress, CancelToken* host) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(cancel_->status());
  servers_ = std::move(progress);
  host_ = host;
  return absl::OkStatus();
}

void LiveGeneration::Unexpose() {
  MutexLock lock(mutex_);
  servers_ = nullptr;
  host_ = nullptr;
  communicator_ = nullptr;
  prefetcher_ = nullptr;
}

void LiveGeneration::Abort(int64_t generation, std::string_view why) {
  MutexLock lock(mutex_);
  aborted_generation_ = std::max(aborted_generation_, generation);
  if (generation_ > generation) return;
  cancel_->Cancel(why);
  if (communicator_ != nullptr) communicator_->Abort(why);
  if (prefetcher_ != nullptr) prefetcher_->Cancel();
  if (host_ != nullptr) host_->Cancel(why);
}

CollectiveProgress LiveGeneration::communication() const {
  MutexLock lock(mutex_);
  if (communicator_ == nullptr) return CollectiveProgress();
  CollectiveProgress progress = communicator_->progress();
  if (servers_ == nullptr) return progress;
  const SyncProgress servers = servers_();
  progress.completed += servers.completed;
  if (progress.waiting_for_rank < 0)
    progress.waiting_for_rank = servers.waiting_for_rank;
  return progress;
}

}  // namespace ringmaster
