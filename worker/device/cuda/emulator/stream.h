// Stream is an ordered queue of work with a thread of its own, and Mark a point
// in one that others can wait for.
//
// Thread-safety: thread-safe.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_STREAM_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_STREAM_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "common/sync/mutex.h"
#include "common/sync/thread_annotations.h"

namespace ringmaster::cuda_emulator {

class Stream {
 public:
  // A blocking stream keeps order with the device's null stream.
  Stream(int device, bool is_blocking);
  Stream(const Stream&) = delete;
  // Waits for the queued work.
  ~Stream();

  int device() const { return device_; }
  bool is_blocking() const { return is_blocking_; }

  // Queues `work` behind all before it; returns its number, from 1 up.
  uint64_t Submit(std::function<void()> work);
  // The number of the last work queued; 0 if there was none.
  uint64_t submitted() const;
  // Returns true if work `number`, and all before it, is done.
  bool IsDone(uint64_t number) const;
  void Await(uint64_t number) const;

 private:
  void Run();

  const int device_;
  const bool is_blocking_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::deque<std::function<void()>> queue_ GUARDED_BY(mutex_);
  uint64_t submitted_ GUARDED_BY(mutex_) = 0;
  uint64_t done_ GUARDED_BY(mutex_) = 0;
  bool is_closing_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// The point in a stream that an event stands for; the stream reaches it once.
class Mark {
 public:
  // Binds the mark to the end of work `number` of `stream`, so that it is
  // reached at the very moment that the work is done. Call it before anybody
  // else sees the mark. A mark that is not bound is reached by Reach.
  void Bind(std::shared_ptr<Stream> stream, uint64_t number);
  // Called by the work itself.
  void Reach();

  bool IsReached() const;
  void Await() const;
  // The time of Reach. Requires IsReached.
  std::chrono::steady_clock::time_point time() const;

 private:
  std::shared_ptr<Stream> stream_;
  uint64_t number_ = 0;

  mutable Mutex mutex_;
  mutable CondVar reached_;
  bool is_reached_ GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point time_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_STREAM_H_
