// PassGraphs queues a model's training passes; a pass of a kind that it has
// seen before becomes CUDA graphs: the host then spends a few launches on it,
// however many kernels it has.
//
//   first pass of a kind    queued as it is, which makes all plans and scratch
//   second pass             captured, then launched
//   every later one         launched
//
// A graph has the arguments and addresses of the pass that it was captured
// from. So a pass must find in device memory, at one place, whatever may differ
// between two of its kind (batch_upload.h), and Bind forgets all.
// A pass is two graphs, forward and backward, so that timing marks can be set
// between them. Collectives stay outside: where the last gradient of a bucket
// is written, the graph records an event; after the launch the observer is told
// of all tensors in plan order, and CudaStream::MarkReady gives each bucket's
// event to callers that ask.
// If a pass cannot be captured (a library does not support it, a call
// allocates), passes are queued as they are, for good, with one line in the
// log; a capture runs nothing, so no result is ever half of one.
// Thread-safety: thread-compatible, as the stream.
// Ownership: the stream must outlive it. Code that was given an event must have
// waited for it before the next pass.
#ifndef RINGMASTER_WORKER_NN_CUDA_PASS_GRAPHS_H_
#define RINGMASTER_WORKER_NN_CUDA_PASS_GRAPHS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "common/transport/cancel_token.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/compute.h"
#include "worker/nn/model.h"

namespace ringmaster::cuda {

class PassGraphs {
 public:
  // Passes of equal kind queue the same work, except for what lies in device
  // memory.
  struct Kind {
    int64_t samples = 0;
    Write write = Write::kSet;

    auto operator<=>(const Kind&) const = default;
  };
  // Queues one pass, and tells the observer as Model::ForwardBackward does. May
  // stop early once the token, which may be null, is cancelled.
  using Pass =
      absl::FunctionRef<void(const CancelToken* cancel, GradientObserver&)>;

  // Off: all passes are queued as they are.
  PassGraphs(CudaStream& stream, bool is_on) : stream_(stream), is_on_(is_on) {}
  PassGraphs(const PassGraphs&) = delete;
  ~PassGraphs() { Forget(); }

  // Forgets all graphs, since parameters and gradients have moved, or the
  // buckets have changed.
  void Bind(const Plan& plan);

  // Queues `pass`, see above. A graph is launched whole: the token is looked at
  // before. Errors are the stream's.
  void Run(const Kind& kind, const CancelToken* cancel,
           GradientObserver& observer, Pass pass);

 private:
  struct Graphs {
    std::unique_ptr<CudaGraph> forward;
    std::unique_ptr<CudaGraph> backward;
    // The events that mark each bucket's gradient as final, in the order of
    // their tensors.
    std::vector<std::unique_ptr<CudaEvent>> ready;
  };
  class Recorder;

  // Waits for what runs, and frees all graphs.
  void Forget();
  // Returns true if memory that graphs use was freed, see
  // CudaStream::ExpireGraphs.
  [[nodiscard]] bool HasExpired() const;
  // Captures `pass`; runs nothing.
  [[nodiscard]] absl::StatusOr<Graphs> Capture(Pass pass);
  // Turns graphs off from here on.
  void GiveUp(const absl::Status& why);
  void Launch(const Graphs& graphs, GradientObserver& observer);

  CudaStream& stream_;
  bool is_on_;
  std::vector<bool> ends_bucket_;  // by tensor
  // The graphs of each kind that was seen; null if it was seen only once.
  std::map<Kind, Graphs> kinds_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_PASS_GRAPHS_H_
