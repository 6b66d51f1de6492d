#include "worker/train/exchange/host_thread.h"

#include <pthread.h>

#include <utility>

#include "worker/member/catch_exhaustion.h"

namespace ringmaster {

HostThread::HostThread(ShardHost& host, std::vector<ShardHostLinks> links,
                       int rank)
    : end_(absl::UnknownError("it has not ended")),
      thread_([this, &host, links = std::move(links), rank]() mutable {
        pthread_setname_np(pthread_self(), "shard host");
        end_ = CatchExhaustion(
            rank, [&] { return host.Run(std::move(links), cancel_); });
      }) {}

HostThread::~HostThread() {
  if (!thread_.joinable()) return;
  cancel_.Cancel("the worker's generation is over");
  thread_.join();
}

absl::StatusOr<DoneKind> HostThread::Join() {
  if (thread_.joinable()) thread_.join();
  return end_;
}

}  // namespace ringmaster
