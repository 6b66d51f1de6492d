// Runtime is the state behind the CUDA runtime's functions, and Call the
// wrapper of each of them.
//
// Libraries on top of the runtime (cuBLASLt, NCCL) queue their work with
// Enqueue.
// Thread-safety: thread-safe.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_RUNTIME_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/sync/mutex.h"
#include "common/sync/thread_annotations.h"
#include "worker/device/cuda/emulator/emulator.h"
#include "worker/device/cuda/emulator/graph.h"
#include "worker/device/cuda/emulator/stream.h"

namespace ringmaster::cuda_emulator {

// A GPU.
struct Device {
  explicit Device(int ordinal)
      : ordinal(ordinal),
        null_stream(std::make_shared<Stream>(ordinal, /*is_blocking=*/true)) {}

  const int ordinal;
  const std::shared_ptr<Stream> null_stream;
  // Once set, every call returns it: the context is lost.
  std::atomic<cudaError_t> lost{cudaSuccess};
};

enum class MemoryKind { kPageable, kPinned, kDevice };

// The place of a range of bytes.
struct MemoryRange {
  MemoryKind kind = MemoryKind::kPageable;
  int device = -1;
  // The start of the allocation; null for pageable memory.
  void* base = nullptr;
  // True if the range ends within the allocation that it begins in.
  bool is_whole = true;
};

struct Event {
  bool has_timing = false;
  int device = 0;
  // The mark of the last record; null before the first.
  std::shared_ptr<Mark> mark;
  // The point of the last record, if it was in a capture.
  CapturePoint captured;
};

class Runtime {
 public:
  static Runtime& Get();

  const Settings& settings() const { return settings_; }
  Device& device(int ordinal) { return *devices_[ordinal]; }
  void Reset(const Settings& settings);

  // Returns the stream of a handle; null if there is none. The null stream is
  // `device`'s.
  std::shared_ptr<Stream> FindStream(cudaStream_t handle, int device);
  cudaStream_t AddStream(int device, bool is_blocking);
  // Removes a stream, whose work goes on. Returns false if there is no such
  // stream.
  bool RemoveStream(cudaStream_t handle);

  CaptureTable& captures() { return captures_; }

  // Queues `work` as Submit does or, on a stream that captures, adds it to the
  // graph. An error is that of a capture that this violates.
  cudaError_t Queue(const std::shared_ptr<Stream>& stream,
                    std::function<void()> work, bool always = false);
  // Queues `work`, ordered with other streams as blocking streams are. Skips it
  // if the device is lost by then, unless `always`.
  uint64_t Submit(const std::shared_ptr<Stream>& stream,
                  std::function<void()> work, bool always = false);
  // Waits for all work queued on a device so far.
  void AwaitDevice(int device);
  // Returns true if all work is done that the stream would wait for; for the
  // null stream this includes the blocking streams' work.
  bool IsIdle(const std::shared_ptr<Stream>& stream);

  cudaEvent_t AddEvent(bool has_timing, int device);
  bool RemoveEvent(cudaEvent_t handle);
  // Sets `*event` to a copy; returns false if there is no such event.
  bool FindEvent(cudaEvent_t handle, Event* event);
  void SetMark(cudaEvent_t handle, std::shared_ptr<Mark> mark);
  void SetCaptured(cudaEvent_t handle, CapturePoint point);

  // Allocates device memory (filled with 0xFF) or pinned memory; returns null
  // if there is none left. `bytes` may not be 0.
  void* Allocate(MemoryKind kind, size_t bytes, int device);
  bool Free(MemoryKind kind, void* data);
  // Registers host memory that belongs to somebody else.
  bool Register(void* data, size_t bytes);
  bool Unregister(void* data);
  MemoryRange Find(const void* data, size_t bytes);
  int64_t FreeBytes(int device);

  void FailKernels(cudaError_t error) { failing_kernels_ = error; }
  void FailNextAllocation() { is_allocation_failing_ = true; }
  // Called for a kernel that is about to run on `device`; returns true if it
  // may.
  bool MayRunKernel(int device);

 private:
  struct Position {
    std::shared_ptr<Stream> stream;
    uint64_t number = 0;
  };
  struct Block {
    size_t bytes = 0;
    MemoryKind kind = MemoryKind::kDevice;
    int device = 0;
    bool is_owned = true;
  };

  Runtime() { Reset(SettingsFromEnvironment()); }
  void DropFinishedStreams();

  // Constant between two calls of Reset.
  Settings settings_;
  std::vector<std::unique_ptr<Device>> devices_;

  std::atomic<cudaError_t> failing_kernels_{cudaSuccess};
  std::atomic<int64_t> kernels_{
      0};  // so far; counted if one shall fail or hang
  std::atomic<bool> is_allocation_failing_{false};
  CaptureTable captures_;

  Mutex mutex_;
  std::map<Stream*, std::shared_ptr<Stream>> streams_ GUARDED_BY(mutex_);
  // The streams that the user destroyed while they had work.
  std::vector<std::shared_ptr<Stream>> retired_ GUARDED_BY(mutex_);
  std::map<Event*, std::unique_ptr<Event>> events_ GUARDED_BY(mutex_);
  std::map<uintptr_t, Block> memory_ GUARDED_BY(mutex_);
  std::vector<int64_t> used_bytes_ GUARDED_BY(mutex_);  // by device
};

// The calling thread's current device.
int& CurrentDevice();
// The calling thread's last error.
cudaError_t& LastError();
// True while the calling thread runs a function of cudaLaunchHostFunc, which
// may not call CUDA.
bool& IsInHostFunction();

// Returns the error that every call on the current device returns now, if there
// is one: no driver, no device, a lost context.
cudaError_t StandingError();

// Runs `function`, which returns a cudaError_t, and notes its error as the last
// one; a standing error comes before and after it.
template <typename Function>
cudaError_t Call(Function function) {
  cudaError_t error = StandingError();
  if (error == cudaSuccess) {
    const cudaError_t result = function();
    error = StandingError();
    if (error == cudaSuccess) error = result;
  }
  if (error != cudaSuccess) LastError() = error;
  return error;
}

// Queues `work` on a stream of the current device, like a kernel.
//   cudaErrorInvalidResourceHandle  there is no such stream, or it is another
//                                   device's
cudaError_t Enqueue(cudaStream_t stream, std::function<void()> work);
// The same for work that counts as a kernel for FailKernels.
cudaError_t EnqueueKernel(cudaStream_t stream, std::function<void()> work);

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_RUNTIME_H_
