// CallContext breaks a call's connection from any thread, also when the call may be over.
#ifndef RINGMASTER_COMMON_RPC_CALL_CONTEXT_H_
#define RINGMASTER_COMMON_RPC_CALL_CONTEXT_H_

#include <grpcpp/server_context.h>

#include "common/sync/mutex.h"

namespace ringmaster {

// Thread-safe. gRPC owns `context`, and destroys it once the handler, or the reactor's
// OnDone, returns: Forget must be called there.
class CallContext {
 public:
  explicit CallContext(grpc::ServerContextBase* context) : context_(context) {}

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
  grpc::ServerContextBase* context_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_RPC_CALL_CONTEXT_H_
