// CudaStream is an ordered queue of work on a GPU, CudaEvent a mark in one, and
// CudaGraph work that was queued once, to be queued again as a whole.
//
// A stream remembers the first error of the work queued through it: operators
// queue and go on, and the code that needs the result asks status() or
// Synchronize(). An error of a kernel that runs later shows when the stream is
// next waited for.
// Thread-safety: thread-compatible; CudaEvent::IsDone from any thread.
// Ownership: wait for queued work before freeing device memory that it uses.
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

  // Returns true if all work before the mark is done, and before the first
  // Record.
  // Errors as CudaStatus, of anything that ran on the device.
  [[nodiscard]] absl::StatusOr<bool> IsDone() const;
  // Waits until it is.
  [[nodiscard]] absl::Status Wait() const;
  // Returns the time from the mark of `begin` to that of `end`, both with
  // Timing::kOn and done.
  [[nodiscard]] static absl::StatusOr<absl::Duration> Between(
      const CudaEvent& begin, const CudaEvent& end);
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  explicit CudaEvent(cudaEvent_t event) : event_(event) {}

  const cudaEvent_t event_;
};

// Work of a stream, captured: one launch queues all of it, with the arguments
// and addresses that it was captured with.
//
// Ownership: must outlive its launches.
class CudaGraph {
 public:
  CudaGraph(const CudaGraph&) = delete;
  ~CudaGraph();

  // The launches of all graphs of this process so far. Thread-safe.
  [[nodiscard]] static int64_t TotalLaunches();

 private:
  friend class CudaStream;
  CudaGraph(cudaGraphExec_t exec, int64_t memory_epoch)
      : exec_(exec), memory_epoch_(memory_epoch) {}

  const cudaGraphExec_t exec_;
  const int64_t memory_epoch_;  // see CudaStream::ExpireGraphs
};

class CudaStream {
 public:
  // If two streams have work, the device takes that of kHigh first.
  enum class Priority : bool { kNormal, kHigh };

  // Makes a stream on the current device of the calling thread, beside the null
  // stream. `name` is for messages.
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

  // Marks the end of the work queued so far; an earlier mark of the event is
  // forgotten. Within a capture, each launch of the graph does so.
  void Record(CudaEvent& event);
  // Makes work queued from here on wait for the event's last mark.
  void WaitFor(const CudaEvent& event);

  // Returns a mark of what is ready now, for others to wait for: `own`,
  // recorded here, or the event given to SetReady. Valid until the marked work
  // is queued again.
  const CudaEvent& MarkReady(CudaEvent& own);
  // Sets where MarkReady finds the next part of a launched graph ready: at
  // `event`, which the graph records. Null: at the stream's end.
  void SetReady(const CudaEvent* event) { ready_ = event; }

  // From here to EndCapture nothing that is queued runs: it becomes a graph. A
  // call of this thread that may wait for the device, or allocates its memory,
  // fails, and the capture with it. Requires status() to be OK.
  [[nodiscard]] absl::Status BeginCapture();
  // Returns the graph, ready to be launched, or the first error since
  // BeginCapture, which status() does not keep, since nothing ran.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<CudaGraph>> EndCapture();
  // Queues what `graph` holds. Requires that it has not expired.
  void Launch(const CudaGraph& graph);
  // Call it before freeing memory that work queued so far may use: graphs of
  // that work must not be launched any more.
  void ExpireGraphs() { ++memory_epoch_; }
  [[nodiscard]] bool IsExpired(const CudaGraph& graph) const {
    return graph.memory_epoch_ != memory_epoch_;
  }

  // Waits until all queued work is done, however long that takes: a device that
  // hangs is found by those who see the process make no progress. Returns the
  // first error, of queueing or of running; from then on status() is that
  // error.
  [[nodiscard]] absl::Status Synchronize();

 private:
  CudaStream(cudaStream_t stream, std::string name)
      : stream_(stream), name_(std::move(name)) {}

  const cudaStream_t stream_;
  const std::string name_;
  absl::Status status_;
  bool is_capturing_ = false;
  const CudaEvent* ready_ = nullptr;
  int64_t memory_epoch_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_CUDA_STREAM_H_
