// CudaStream is an ordered queue of work on a GPU, and CudaEvent a mark in one.
//
// A stream remembers the first error of what was queued through it: operators
// queue and go on, and who needs the result asks status() or Synchronize(). An
// error of a kernel that runs later shows when the stream is next waited for.
// Thread-safety: thread-compatible; CudaEvent::IsDone from any thread.
// Ownership: a stream and its device's memory: whoever frees what queued work
// uses must have waited for it.
// Example:
//   ASSIGN_OR_RETURN(auto stream, CudaStream::Create("compute"));
//   stream->Check(LaunchKernel(...), "scale");
//   stream->CopyToHost(host, device, bytes);
//   RETURN_IF_ERROR(stream->Synchronize());
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_CUDA_STREAM_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_CUDA_STREAM_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ringmaster {

// A mark in a stream. Another stream, or the host, can wait for what was queued
// before it.
class CudaEvent {
 public:
  enum class Timing : bool { kOff, kOn };
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaEvent>> Create(
      Timing timing = Timing::kOff);
  CudaEvent(const CudaEvent&) = delete;
  ~CudaEvent();

  // Whether all before the mark is done; true before the first Record.
  // Errors as CudaStatus, of anything that ran on the device.
  [[nodiscard]] absl::StatusOr<bool> IsDone() const;
  // Waits until it is.
  [[nodiscard]] absl::Status Wait() const;
  // From the mark of `begin` to that of `end`, both with Timing::kOn and done.
  [[nodiscard]] static absl::StatusOr<absl::Duration> Between(
      const CudaEvent& begin, const CudaEvent& end);
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  explicit CudaEvent(cudaEvent_t event) : event_(event) {}

  const cudaEvent_t event_;
};

class CudaStream {
 public:
  // Of two streams with work, the device takes kHigh's first.
  enum class Priority : bool { kNormal, kHigh };

  // On the current device of the calling thread, beside the null stream. `name`
  // is for messages.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaStream>> Create(
      std::string name, Priority priority = Priority::kNormal);
  CudaStream(const CudaStream&) = delete;
  ~CudaStream();

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // Notes the outcome of queueing `what` here, if it is the first error; the
  // message has the call, the place in the source and the device.
  void Check(cudaError_t error, std::string_view what,
             std::source_location where = std::source_location::current());
  // The same for an error of a library on top of CUDA.
  void Note(const absl::Status& status);
  // The first error noted.
  [[nodiscard]] const absl::Status& status() const { return status_; }

  // Copies between host and device, in order with the rest. The host's memory
  // should be pinned (PinnedAllocator): otherwise the calling thread may wait.
  void CopyToDevice(void* device, const void* host, int64_t bytes);
  void CopyToHost(void* host, const void* device, int64_t bytes);
  void CopyOnDevice(void* to, const void* from, int64_t bytes);
  void FillZero(void* device, int64_t bytes);

  // Marks the end of what was queued so far; an earlier mark of the event is
  // forgotten.
  void Record(CudaEvent& event);
  // What is queued from here on waits for the event's last mark.
  void WaitFor(const CudaEvent& event);

  // Waits until all that was queued is done, however long: that a device hangs is
  // for those to find who see the process make no progress. Returns the first
  // error, of queueing or of running; from then on status() is that error.
  [[nodiscard]] absl::Status Synchronize();

 private:
  CudaStream(cudaStream_t stream, std::string name)
      : stream_(stream), name_(std::move(name)) {}

  const cudaStream_t stream_;
  const std::string name_;
  absl::Status status_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_CUDA_STREAM_H_
