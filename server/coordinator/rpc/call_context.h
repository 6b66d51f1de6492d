// CallContext breaks a call's connection from any thread, also when the call may be over.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_CALL_CONTEXT_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_CALL_CONTEXT_H_

#include <grpcpp/server_context.h>

#include "common/sync/mutex.h"

namespace ringmaster::coordinator {

// Thread-safe. gRPC owns `context`, and destroys it once the reactor's OnDone returns:
// Forget must be called there.
class CallContext {
 public:
  explicit CallContext(grpc::CallbackServerContext* context)
      : context_(context) {}

  // gRPC calls no reaction on the calling thread, so the lock may be held.
  void TryCancel() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }

  void Forget() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    context_ = nullptr;
  }

 private:
  Mutex mutex_;
  grpc::CallbackServerContext* context_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_CALL_CONTEXT_H_
