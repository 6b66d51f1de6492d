// BoundedPool: the threads of an HTTP server (cpp-httplib), which lets its listener
// wait while too many connections wait for them. Those wait in the kernel, where they
// take none of the process's descriptors.
#ifndef RINGMASTER_COMMON_HTTP_BOUNDED_POOL_H_
#define RINGMASTER_COMMON_HTTP_BOUNDED_POOL_H_

#include <httplib.h>

#include <cstddef>
#include <functional>

#include "common/sync/mutex.h"

namespace ringmaster {

// Thread-safe.
class BoundedPool final : public httplib::ThreadPool {
 public:
  BoundedPool(size_t threads, int max_queued)
      : ThreadPool(threads), max_queued_(max_queued) {}

  void enqueue(std::function<void()> task) override {
    {
      MutexLock lock(mutex_);
      while (queued_ >= max_queued_) room_.Wait(mutex_);
      ++queued_;
    }
    ThreadPool::enqueue([this, task = std::move(task)] {
      {
        MutexLock lock(mutex_);
        --queued_;
      }
      room_.NotifyOne();
      task();
    });
  }

 private:
  const int max_queued_;
  Mutex mutex_;
  CondVar room_;
  int queued_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_HTTP_BOUNDED_POOL_H_
