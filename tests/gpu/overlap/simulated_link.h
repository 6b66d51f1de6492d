// SimulatedLink is a link between GPUs where there is only one: for each bucket
// that is reduced, a stream of its own copies from the device to the host for as
// long as the bucket would take over a link of a given rate. It tells how much of
// that the compute stream did not hide.
//
//   compute  ...bucket 0 |ready| ...bucket 1 |ready| (end of backward)
//                         \                   \           .
//   link                   |==== bucket 0 ====|==== bucket 1 ====|
//                                                       |exposed |
//
// All times are those of events on the device. Unlike copies, NCCL's kernels
// take multiprocessors and more of the memory's bandwidth; a copy takes only
// the path to the host.
// Thread-safety: thread-compatible; all on the training thread.
#ifndef RINGMASTER_TESTS_GPU_OVERLAP_SIMULATED_LINK_H_
#define RINGMASTER_TESTS_GPU_OVERLAP_SIMULATED_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tensor/allocator.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster {

class SimulatedLink {
 public:
  enum class Mode {
    kOff,         // nothing is transferred
    kOverlapped,  // each bucket as soon as it is ready
    kAfter,       // all buckets when the last is ready: after the backward pass
  };
  struct Options {
    int ranks = 8;  // of a ring: a bucket is sent 2(N-1)/N times
    double bytes_per_second = 25e9;
  };
  struct Step {
    absl::Duration busy;  // what all transfers took
    absl::Duration
        exposed;  // from the last bucket's ready to the last one's end
  };
  // Queues in a stream that it waits until a bucket is ready.
  using WaitUntilReady = std::function<absl::Status(CudaStream&)>;

  // Also finds out how fast copies are. `device` is current and outlives it.
  // Errors as CudaStream's and Allocator's.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<SimulatedLink>> Create(
      CudaDevice& device, const Options& options);
  SimulatedLink(const SimulatedLink&) = delete;
  ~SimulatedLink();

  // Not while something is under way.
  void SetMode(Mode mode) { mode_ = mode; }
  // The time of a bucket of `bytes` bytes.
  [[nodiscard]] absl::Duration TransferTime(int64_t bytes) const;

  // Starts the transfer of a bucket.
  [[nodiscard]] absl::Status Start(int64_t bytes, const WaitUntilReady& ready);
  // Waits for all that was started, which is then a step.
  [[nodiscard]] absl::Status Await();
  // Those since the last call.
  [[nodiscard]] std::vector<Step> TakeSteps();

 private:
  struct Transfer {
    int64_t bytes = 0;
    std::unique_ptr<CudaEvent> begin;
    std::unique_ptr<CudaEvent> end;
  };

  explicit SimulatedLink(const Options& options) : options_(options) {}
  [[nodiscard]] absl::Status Open(CudaDevice& device);
  [[nodiscard]] absl::Status MeasureCopies();
  // Queues copies of `bytes` bytes.
  void Copy(int64_t bytes);
  void Queue(const Transfer& transfer);
  [[nodiscard]] absl::StatusOr<Transfer*> NextTransfer();
  [[nodiscard]] absl::StatusOr<Step> Measured() const;

  const Options options_;
  Mode mode_ = Mode::kOff;
  Allocation source_;  // on the device
  Allocation target_;  // pinned
  std::unique_ptr<CudaStream> link_;
  // Marks when the last started bucket is ready.
  std::unique_ptr<CudaStream> marks_;
  std::unique_ptr<CudaEvent> last_ready_;
  double copied_per_second_ = 0;  // bytes
  // The first `started_` are this step's; the others are kept for the next.
  std::vector<Transfer> transfers_;
  size_t started_ = 0;
  std::vector<Step> steps_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_GPU_OVERLAP_SIMULATED_LINK_H_
