// NcclWorld: a world of ranks in one process, each with a GPU and an
// NcclCommunicator. For tests.
//
// Thread-compatible; the communicators have their own contract.
#ifndef RINGMASTER_WORKER_COLLECTIVE_NCCL_TESTING_NCCL_WORLD_H_
#define RINGMASTER_WORKER_COLLECTIVE_NCCL_TESTING_NCCL_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"
#include "worker/collective/nccl/nccl_communicator.h"
#include "worker/collective/testing/world_of_threads.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster {

// A rank's device and what it computes with.
struct NcclRank {
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<CudaStream> compute;
  std::unique_ptr<Trace> trace;
  CancelToken cancel;  // of Create
  // The status that its destructor reported if NCCL did not come back.
  absl::Status hung;
  NcclRetired retired;
  std::unique_ptr<NcclCommunicator> communicator;
};

class NcclWorld {
 public:
  struct Options {
    int world_size = 2;
    // The device of each rank; empty: each has its own.
    std::vector<int> device_of_rank = {};
    // Those that take part in Create; empty: all.
    std::vector<int> present = {};
    // Returns a rank's arena, for NCCL to register; null: there are none.
    std::function<BufferView(NcclRank&)> arena = {};
    absl::Duration timeout = absl::Seconds(20);
    absl::Duration abort_timeout = absl::Seconds(5);
    // True leaves what NCCL has yet to free to NcclRank::retired.
    bool retire = false;
  };

  // Opens the devices. FAILED_PRECONDITION or INVALID_ARGUMENT: they are not
  // there.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<NcclWorld>> Create(
      const Options& options);

  // Makes the communicators; returns each rank's status.
  std::vector<absl::Status> Connect();
  // Runs `body` for every rank that has a communicator, on a thread of its own.
  std::vector<absl::Status> RunAll(
      const std::function<absl::Status(NcclRank&)>& body);
  NcclRank& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }

 private:
  NcclWorld() = default;

  Options options_;
  std::unique_ptr<WorldOfThreads> hosts_;
  std::vector<std::unique_ptr<NcclRank>> ranks_;
};

// A deadline that a test never reaches.
[[nodiscard]] MonotonicTime InTime();

// Elements in the memory of a rank's device.
template <typename T>
class DeviceBuffer {
 public:
  DeviceBuffer(NcclRank& rank, const std::vector<T>& elements)
      : rank_(rank),
        count_(elements.size()),
        memory_(*rank.device->allocator().Allocate(
            static_cast<int64_t>(count_ * sizeof(T)))) {
    Set(elements);
  }
  void Set(const std::vector<T>& elements) {
    rank_.compute->CopyToDevice(memory_.data(), elements.data(), bytes());
    // The copied memory may soon be gone.
    static_cast<void>(rank_.compute->Synchronize());
  }
  [[nodiscard]] BufferView view(DType dtype) const {
    return {memory_.data(), static_cast<int64_t>(count_), dtype,
            MemoryKind::kCuda};
  }
  [[nodiscard]] std::vector<T> Get() const {
    std::vector<T> elements(count_);
    rank_.compute->CopyToHost(elements.data(), memory_.data(), bytes());
    static_cast<void>(rank_.compute->Synchronize());
    return elements;
  }
  [[nodiscard]] void* data() const { return memory_.data(); }
  [[nodiscard]] int64_t bytes() const {
    return static_cast<int64_t>(count_ * sizeof(T));
  }

 private:
  NcclRank& rank_;
  const size_t count_;
  const Allocation memory_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_NCCL_TESTING_NCCL_WORLD_H_
