// MatmulPlans remembers, for each matrix product, the algorithm that a library
// was fastest with, as a text that outlives the process.
//
//   ringmaster matmul plans 1
//   gpu NVIDIA H200
//   library 130100
//   plan 33554432 0123456789abcdef ... (8 words) PRODUCT
//   end 1a2b3c4d
//
// A plan is the bytes of scratch, the words of the algorithm and the product,
// as ProductKey::Name says it: "nt 1024x768x3072 strides 768 768 3072 bf16>bf16
// bias align16"; the last line has the CRC-32C of all before it. An algorithm
// is of use only to the very library and kind of GPU that it was found with.
// Thread-safety: pure functions.
#ifndef RINGMASTER_WORKER_NN_CUDA_MATMUL_PLANS_H_
#define RINGMASTER_WORKER_NN_CUDA_MATMUL_PLANS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ringmaster {

// The algorithm of a product, in the library's own words.
struct MatmulAlgorithm {
  std::array<uint64_t, 8> words = {};
  int64_t workspace_bytes = 0;

  bool operator==(const MatmulAlgorithm&) const = default;
};

struct MatmulPlans {
  std::string gpu;  // not empty, on one line, as all names here
  int64_t library_version = 0;
  std::map<std::string, MatmulAlgorithm> algorithms;  // by product

  bool operator==(const MatmulPlans&) const = default;
};

std::string FormatMatmulPlans(const MatmulPlans& plans);
// The inverse. DATA_LOSS says which line is not as it was written.
[[nodiscard]] absl::StatusOr<MatmulPlans> ParseMatmulPlans(
    std::string_view text);

// The name of the file of these plans: "matmul_NVIDIA_H200_130100.txt".
std::string MatmulPlansFileName(std::string_view gpu, int64_t library_version);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CUDA_MATMUL_PLANS_H_
