// CuptiLibrary is CUPTI's activity API, loaded while the program runs: NVIDIA's
// record of what ran on a GPU, and when.
//
// Thread-safety: immutable; CUPTI's own rules hold for its functions.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_CUPTI_LIBRARY_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_CUPTI_LIBRARY_H_

#include <cupti.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ringmaster {

// The functions of CUPTI that we call, without the prefix.
#define RINGMASTER_CUPTI_FUNCTIONS(X) \
  X(GetVersion)                       \
  X(GetResultString)                  \
  X(ActivityRegisterCallbacks)        \
  X(ActivityEnable)                   \
  X(ActivityDisable)                  \
  X(ActivityFlushAll)                 \
  X(ActivityGetNextRecord)            \
  X(ActivityGetNumDroppedRecords)

struct CuptiFunctions {
#define RINGMASTER_CUPTI_POINTER(name) decltype(cupti##name)* name = nullptr;
  RINGMASTER_CUPTI_FUNCTIONS(RINGMASTER_CUPTI_POINTER)
#undef RINGMASTER_CUPTI_POINTER
};

class CuptiLibrary {
 public:
  // Loads it from the place of CUDA's libraries (cuda_libraries.h).
  //   NOT_FOUND      it is not installed
  //   UNIMPLEMENTED  it is of another major version than the headers of this
  //                  build: its records may be laid out otherwise
  [[nodiscard]] static absl::StatusOr<CuptiLibrary> Load();

  // As CUPTI_API_VERSION: 130001 is that of CUDA 13.0 Update 1.
  uint32_t version() const { return version_; }
  const CuptiFunctions& functions() const { return functions_; }

  // OK for CUPTI_SUCCESS; otherwise FAILED_PRECONDITION where this process may
  // not look, or another profiler does, INTERNAL for the rest, and a message
  // "<what>: <CUPTI's words>".
  [[nodiscard]] absl::Status ToStatus(CUptiResult result,
                                      std::string_view what) const;

 private:
  CuptiLibrary() = default;
  [[nodiscard]] absl::Status Bind();

  uint32_t version_ = 0;
  CuptiFunctions functions_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_CUPTI_LIBRARY_H_
