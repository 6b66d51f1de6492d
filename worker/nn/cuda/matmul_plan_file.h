// MatmulPlanFile keeps MatmulPlans in a directory, for the next process on the
// same kind of GPU.
//
// A fault of the file or the directory costs time, not results: it is logged
// once, and products are measured again. Processes may share a directory; a
// file is replaced as a whole, and what others found is kept.
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_NN_CUDA_MATMUL_PLAN_FILE_H_
#define RINGMASTER_WORKER_NN_CUDA_MATMUL_PLAN_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "worker/nn/cuda/matmul_plans.h"

namespace ringmaster {

class MatmulPlanFile {
 public:
  // For plans that were found on `gpu` with that version of the library. If
  // `directory` is empty, there is no file. Logs matmul.plans_ignored if there
  // is a file that cannot be read or is damaged.
  MatmulPlanFile(std::string_view directory, std::string gpu,
                 int64_t library_version);

  // Returns the algorithm of `product`, if it is known.
  [[nodiscard]] std::optional<MatmulAlgorithm> Find(
      const std::string& product) const;
  // Remembers it, here and in the file. Logs matmul.plans_not_written at the
  // first failure, and leaves the file alone from then on.
  void Add(const std::string& product, const MatmulAlgorithm& algorithm);

 private:
  [[nodiscard]] absl::Status Read(MatmulPlans* plans) const;
  [[nodiscard]] absl::Status Write() const;

  std::string directory_;
  std::string path_;  // empty: there is none
  MatmulPlans plans_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CUDA_MATMUL_PLAN_FILE_H_
