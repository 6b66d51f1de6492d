// NcclLibrary is NCCL, loaded while the program runs.
//
// Thread-safety: immutable; NCCL's own rules hold for its functions.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_NCCL_LIBRARY_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_NCCL_LIBRARY_H_

#include <nccl.h>

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/machine/cuda_libraries.h"

namespace ringmaster {

// The functions of NCCL that we call, without the prefix; it has had all of
// them since 2.19.
#define RINGMASTER_NCCL_FUNCTIONS(X) \
  X(GetVersion)                      \
  X(GetErrorString)                  \
  X(GetLastError)                    \
  X(GetUniqueId)                     \
  X(CommInitRankConfig)              \
  X(CommSplit)                       \
  X(CommCount)                       \
  X(CommUserRank)                    \
  X(CommGetAsyncError)               \
  X(CommFinalize)                    \
  X(CommDestroy)                     \
  X(CommAbort)                       \
  X(CommRegister)                    \
  X(CommDeregister)                  \
  X(GroupStart)                      \
  X(GroupEnd)                        \
  X(AllReduce)                       \
  X(ReduceScatter)                   \
  X(AllGather)                       \
  X(Broadcast)                       \
  X(Reduce)

struct NcclFunctions {
#define RINGMASTER_NCCL_POINTER(name) decltype(nccl##name)* name = nullptr;
  RINGMASTER_NCCL_FUNCTIONS(RINGMASTER_NCCL_POINTER)
#undef RINGMASTER_NCCL_POINTER
};

class NcclLibrary {
 public:
  // The oldest that this program can use.
  static constexpr int kOldestVersion = kOldestNccl;

  // Loads it from the place where NVIDIA installs it (cuda_libraries.h).
  //   NOT_FOUND      it is not installed
  //   UNIMPLEMENTED  it is older than kOldestVersion or of another major version,
  //                  or its functions are not those we call
  [[nodiscard]] static absl::StatusOr<NcclLibrary> Load();

  // As NCCL_VERSION_CODE: 22809 is 2.28.9.
  int version() const { return version_; }
  const NcclFunctions& functions() const { return functions_; }

  // OK for ncclSuccess; otherwise UNAVAILABLE for a peer or the network,
  // FAILED_PRECONDITION for wrong use, INTERNAL for the rest, and a message
  // "<what>: <NCCL's words>", with what NCCL says of its last error, if it
  // does.
  [[nodiscard]] absl::Status ToStatus(ncclResult_t result,
                                      std::string_view what) const;

 private:
  NcclLibrary() = default;
  [[nodiscard]] absl::Status Bind();

  int version_ = 0;
  NcclFunctions functions_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_NCCL_LIBRARY_H_
