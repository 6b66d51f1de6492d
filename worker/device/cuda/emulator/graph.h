// Graph is work whose order only its dependencies determine, and CaptureTable
// knows the streams that collect the work queued on them in a graph (stream
// capture).
//
// The rules are those of the CUDA runtime: a stream joins a capture by waiting
// for an event of it. A stream that has not been joined again at the end, a
// wait for an event from outside, or a call that may synchronise (unless the
// capture's mode allows it) invalidates the capture.
// Thread-safety: CaptureTable is thread-safe; a graph is constant once
// captured.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_GRAPH_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_GRAPH_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "common/sync/mutex.h"
#include "common/sync/thread_annotations.h"
#include "worker/device/cuda/emulator/stream.h"

namespace ringmaster::cuda_emulator {

struct GraphNode {
  std::function<void()> work = nullptr;
  // Instead of work: an event that the node records.
  cudaEvent_t record = nullptr;
  std::set<int> after = {};
};

struct Graph {
  int device = 0;
  std::vector<GraphNode> nodes;
};

// Returns an order that keeps the dependencies and is otherwise as far as
// possible from the order in which the nodes were queued, so that a missing
// dependency shows.
std::vector<int> AdverseOrder(const Graph& graph);

// The point in a capture that an event recorded in it stands for.
struct CapturePoint {
  uint64_t capture = 0;  // its number; 0: the event was recorded outside
  std::set<int> nodes;
};

class CaptureTable {
 public:
  cudaStreamCaptureStatus Status(const Stream& stream);
  // `stream` is not the null stream.
  //   cudaErrorIllegalState  it captures already
  cudaError_t Begin(const Stream& stream, cudaStreamCaptureMode mode);
  // Sets `*graph` to the captured work; or sets it to null and returns the
  // reason.
  cudaError_t End(const Stream& stream, std::shared_ptr<const Graph>* graph);

  bool IsCapturing(const Stream& stream) {
    return Status(stream) != cudaStreamCaptureStatusNone;
  }
  // The following require IsCapturing; they return the capture's error if it is
  // invalid.
  cudaError_t Add(const Stream& stream, GraphNode node);
  cudaError_t Mark(const Stream& stream, CapturePoint* point);
  // Invalidates the stream's capture; returns `error`.
  cudaError_t Fail(const Stream& stream, cudaError_t error);

  // Orders what `stream` queues next behind `point`; a stream that does not
  // capture joins the capture by that.
  cudaError_t Join(const Stream& stream, const CapturePoint& point);

  // Checks work on the device's null stream: every blocking stream would wait
  // for it.
  cudaError_t CheckNullStream(int device);
  // Checks a call that may synchronise with the device.
  cudaError_t CheckUnsafe(int device);
  // Checks a call that waits for the whole device.
  cudaError_t CheckDeviceWait(int device);
  // Checks a call on an event: cudaErrorCapturedEvent if its last record was
  // captured.
  cudaError_t CheckEvent(const CapturePoint& point);
  // Forgets a stream that is destroyed.
  void Forget(const Stream& stream);
  void Clear();

 private:
  struct Capture {
    const Stream* origin = nullptr;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::thread::id thread;
    bool is_valid = true;
    // True if a blocking stream takes part.
    bool is_blocking = false;
    std::shared_ptr<Graph> graph;
  };
  struct Member {
    uint64_t capture = 0;
    std::set<int> last;  // what its next node comes after
  };

  // Returns the stream's capture and sets `*member`; null if the stream does
  // not capture.
  Capture* Find(const Stream& stream, Member** member) REQUIRES(mutex_);
  // Invalidates the captures on `device` for which `is_hit` is true; returns
  // true if there were any.
  bool Invalidate(int device, const std::function<bool(const Capture&)>& is_hit)
      REQUIRES(mutex_);

  // Saves the look-ups while nothing is captured.
  std::atomic<bool> is_active_{false};
  Mutex mutex_;
  uint64_t last_number_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Capture> captures_ GUARDED_BY(mutex_);
  std::map<const Stream*, Member> members_ GUARDED_BY(mutex_);
};

// The calling thread's capture mode, which decides what other threads' captures
// forbid it.
cudaStreamCaptureMode& ThreadCaptureMode();

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_GRAPH_H_
