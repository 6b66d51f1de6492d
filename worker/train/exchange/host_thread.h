// HostThread lets a worker's ShardHost serve a generation beside the training
// thread.
//
// Thread-safety: on the training thread; Cancel from any.
// Ownership: the host must outlive it. The destructor cancels and joins.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_HOST_THREAD_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_HOST_THREAD_H_

#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/parameter_server/shard_host.h"
#include "common/transport/cancel_token.h"

namespace ringmaster {

class HostThread {
 public:
  // `rank` is the worker's, for messages.
  HostThread(ShardHost& host, std::vector<ShardHostLinks> links, int rank);
  ~HostThread();
  HostThread(const HostThread&) = delete;
  HostThread& operator=(const HostThread&) = delete;

  // Ends the host's run within milliseconds when cancelled.
  CancelToken& cancel() { return cancel_; }
  // Waits until it ends, by itself or cancelled; the result of ShardHost::Run.
  //   RESOURCE_EXHAUSTED  the host's memory ended
  [[nodiscard]] absl::StatusOr<DoneKind> Join();

 private:
  CancelToken cancel_;
  // Written by the thread before it ends.
  absl::StatusOr<DoneKind> end_;
  std::thread thread_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_HOST_THREAD_H_
