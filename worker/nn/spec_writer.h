// SpecWriter appends a model's tensors in the order in which backward finishes
// them, with the initial values that GPT-2 has, and Llama after it.
//
// Thread-safety: thread-compatible.
// Ownership: `specs` must outlive it.
#ifndef RINGMASTER_WORKER_NN_SPEC_WRITER_H_
#define RINGMASTER_WORKER_NN_SPEC_WRITER_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/plan/plan.h"

namespace ringmaster {

// Of N(0, kInitialDeviation), and of projections into the residual stream, of
// which a block has two (Radford et al., "Language Models are Unsupervised
// Multitask Learners", 2019, section 2.3).
inline constexpr double kInitialDeviation = 0.02;
inline double ResidualDeviation(int64_t layers) {
  return kInitialDeviation / std::sqrt(2.0 * static_cast<double>(layers));
}

class SpecWriter {
 public:
  explicit SpecWriter(std::vector<TensorSpec>& specs) : specs_(specs) {}

  // Returns the tensor's index.
  int Add(std::string name, Shape shape, Initializer init) {
    specs_.push_back({std::move(name), std::move(shape), init});
    return static_cast<int>(specs_.size()) - 1;
  }

 private:
  std::vector<TensorSpec>& specs_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_SPEC_WRITER_H_
