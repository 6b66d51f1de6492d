// WatchReactor is one client's stream of states: it always writes the newest
// state that was offered.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_WATCH_REACTOR_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_WATCH_REACTOR_H_

#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/fail_point/fail_point.h"
#include "common/rpc/call_context.h"
#include "common/rpc/grpc_status.h"
#include "common/sync/mutex.h"
#include "server/coordinator/rpc/open_calls.h"
#include "server/coordinator/rpc/watcher.h"

namespace ringmaster::coordinator {

// Thread-safe. Lives until gRPC is done with the call and the publisher has let
// go of it.
template <typename Message>
class WatchReactor final : public grpc::ServerWriteReactor<Message>,
                           public Watcher<Message> {
 public:
  static std::shared_ptr<WatchReactor> Make(
      grpc::CallbackServerContext* context) {
    const std::shared_ptr<WatchReactor> reactor(new WatchReactor(context));
    reactor->self_ = reactor;
    return reactor;
  }

  // Gives `place` up when the call is over. Before gRPC has this reactor.
  void Hold(std::unique_ptr<OpenCalls::Place> place) {
    place_ = std::move(place);
  }

  void Offer(std::shared_ptr<const Message> message) override {
    {
      MutexLock lock(mutex_);
      if (!end_.has_value()) newest_ = std::move(message);
    }
    Advance();
  }

  void End(const absl::Status& status) override {
    {
      MutexLock lock(mutex_);
      if (end_.has_value()) return;
      end_ = status;
    }
    Advance();
  }

  // Breaks the connection.
  void Cut() { call_.TryCancel(); }

  bool has_waiting() const override {
    MutexLock lock(mutex_);
    return newest_ != nullptr;
  }

  bool is_gone() const override {
    MutexLock lock(mutex_);
    return end_.has_value();
  }

 private:
  explicit WatchReactor(grpc::CallbackServerContext* context)
      : call_(context) {}

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = nullptr;
      if (!ok) {
        newest_ = nullptr;
        if (!end_.has_value()) end_ = absl::CancelledError("the client left");
      }
    }
    Advance();
  }

  void OnCancel() override { End(absl::CancelledError("the client left")); }

  void OnDone() override {
    place_.reset();
    call_.Forget();
    const auto self = std::move(self_);
  }

  void Advance() {
    const Message* message = nullptr;
    std::optional<absl::Status> finish;
    {
      MutexLock lock(mutex_);
      if (writing_ != nullptr || is_finished_) return;
      if (newest_ != nullptr) {
        writing_ = std::move(newest_);
        newest_ = nullptr;
        message = writing_.get();
      } else if (end_.has_value()) {
        is_finished_ = true;
        finish = end_;
      }
    }
    if (message != nullptr) Write(*message);
    if (finish.has_value()) this->Finish(ToGrpcStatus(*finish));
  }

  void Write(const Message& message) {
    const absl::Status status = FAIL_POINT("watch.send");
    if (status.ok()) {
      this->StartWrite(&message);
      return;
    }
    {
      MutexLock lock(mutex_);
      writing_ = nullptr;
      newest_ = nullptr;
      if (!end_.has_value()) end_ = status;
    }
    Advance();
  }

  CallContext call_;
  // Until OnDone.
  std::shared_ptr<WatchReactor> self_;
  std::unique_ptr<OpenCalls::Place> place_;

  mutable Mutex mutex_;
  std::shared_ptr<const Message> newest_ GUARDED_BY(mutex_);
  std::shared_ptr<const Message> writing_ GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ GUARDED_BY(mutex_);
  bool is_finished_ GUARDED_BY(mutex_) = false;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_WATCH_REACTOR_H_
