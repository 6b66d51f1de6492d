// AllReducePair is the same all-reduce by our NcclCommunicator and by NCCL called
// directly, among all GPUs of this process, a thread for each.
//
// Every round is filled afresh, and all of its result is looked at.
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_TESTS_GPU_ALL_REDUCE_ALL_REDUCE_PAIR_H_
#define RINGMASTER_TESTS_GPU_ALL_REDUCE_ALL_REDUCE_PAIR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tensor/allocator.h"
#include "tests/gpu/all_reduce/direct_nccl.h"
#include "worker/collective/nccl/testing/nccl_world.h"

namespace ringmaster {

class AllReducePair {
 public:
  enum class Side { kOurs, kDirect };

  // Of GPUs 0 to `gpus` - 1, and buffers of up to `max_bytes`.
  //   FAILED_PRECONDITION, INVALID_ARGUMENT  they are not there
  //   RESOURCE_EXHAUSTED                     their memory is not enough
  //   else NcclCommunicator::Create's and NCCL's
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AllReducePair>> Create(
      int gpus, int64_t max_bytes);
  AllReducePair(const AllReducePair&) = delete;
  ~AllReducePair();

  // `times` sums in place of `bytes`, a multiple of 4, queued one behind the
  // other: how long all of them took the slowest rank.
  //   DATA_LOSS  a result is wrong; says which
  [[nodiscard]] absl::StatusOr<absl::Duration> Run(Side side, int64_t bytes,
                                                   int times);

  // As NCCL_VERSION_CODE.
  int nccl_version() const { return nccl_version_; }
  const std::string& device_name() { return world_->rank(0).device->name(); }

 private:
  struct Memory {
    Allocation values;  // what is reduced
    Allocation source;  // what it is filled from
    Allocation result;  // pinned: a part of it, to look at
  };

  AllReducePair() = default;
  [[nodiscard]] absl::Status Connect();
  [[nodiscard]] absl::Status Allocate(NcclRank& rank, int index);
  [[nodiscard]] absl::Status Fill(NcclRank& rank, int index, int64_t bytes);
  [[nodiscard]] absl::Status Reduce(Side side, NcclRank& rank, int index,
                                    int64_t bytes, int times);
  [[nodiscard]] absl::Status Check(NcclRank& rank, int index, int64_t bytes,
                                   int times);
  // Which of the ranks `rank` is.
  [[nodiscard]] int IndexOf(const NcclRank& rank);

  int gpus_ = 0;
  int64_t max_bytes_ = 0;
  int nccl_version_ = 0;
  // Its communicators, which use the memory, go in the destructor.
  std::unique_ptr<NcclWorld> world_;
  std::vector<Memory> memory_;
  std::vector<std::unique_ptr<DirectNccl>> direct_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_TESTS_GPU_ALL_REDUCE_ALL_REDUCE_PAIR_H_
