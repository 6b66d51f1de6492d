// NcclLibrary is NCCL, loaded while the program runs.
//
// Thread-safety: immutable; NCCL's own rules hold for its functions.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_NCCL_LIBRARY_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_NCCL_LIBRARY_H_

#include <nccl.h>

#include <utility>

#include "absl/status/statusor.h"
#include "common/machine/shared_library.h"

namespace ringmaster {

class NcclLibrary {
 public:
  // Loads libnccl.so.2 from the system's library path or the CUDA toolkit.
  //   NOT_FOUND      it is not installed
  //   UNIMPLEMENTED  it is older than this build's nccl.h, or its functions are
  //                  not those we call; the message has both versions
  [[nodiscard]] static absl::StatusOr<NcclLibrary> Load();

  // As NCCL_VERSION_CODE: 22809 is 2.28.9.
  int version() const { return version_; }

  // OK for ncclSuccess; otherwise UNAVAILABLE for a peer or the network,
  // FAILED_PRECONDITION for wrong use, INTERNAL for the rest, and a message
  // "<what>: <NCCL's words>".
  [[nodiscard]] absl::Status ToStatus(ncclResult_t result,
                                      const char* what) const;

 private:
  explicit NcclLibrary(SharedLibrary library) : library_(std::move(library)) {}
  absl::Status Bind();

  SharedLibrary library_;
  int version_ = 0;
  decltype(ncclGetVersion)* get_version_ = nullptr;
  decltype(ncclGetErrorString)* get_error_string_ = nullptr;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_NCCL_LIBRARY_H_
