// Compute is what an operator runs on; beside it are the few types that all
// operators share.
//
// Thread-safety: values. The pool runs one loop at a time, so two threads must
// not run operators with the same pool at once.
#ifndef RINGMASTER_WORKER_NN_COMPUTE_H_
#define RINGMASTER_WORKER_NN_COMPUTE_H_

#include <cstdint>

namespace ringmaster {

class ThreadPool;

// Type of the operands of matrix products. Parameters, gradients and all sums
// are float in any case, and so are activations, except on GPUs. kTf32 (float
// of which tensor cores see 10 bits after the point) and kFloat16 are for GPUs
// only.
enum class Precision { kFloat32, kBFloat16, kTf32, kFloat16 };

// "float32", "bfloat16", "tf32", "float16".
[[nodiscard]] constexpr const char* PrecisionName(Precision precision) {
  constexpr const char* kNames[] = {"float32", "bfloat16", "tf32", "float16"};
  return kNames[static_cast<int>(precision)];
}

// Passed to every operator.
struct Compute {
  ThreadPool& pool;
  // Concerns T = float only.
  Precision precision = Precision::kFloat32;
};

// The form of GELU that a model was published with:
//   kTanh  x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
//   kErf   x / 2 * (1 + erf(x / sqrt(2))), which the other one approximates
enum class GeluForm { kTanh, kErf };

// The way that a parameter's gradient is stored: written (=), or added to (+=),
// as the second and later micro-batches of a step do.
enum class Write : bool { kSet, kAdd };

// The choice of the elements of an activation that are dropped while training
// (Srivastava et al., "Dropout", JMLR 2014), as a function of the sample and
// not of its place: element i of sample s is kept iff a hash of (key,
// sample_ids[s], i) says so, and then divided by 1 - rate. So a sample is
// treated alike on every rank. A rate of 0 drops nothing, and the other members
// are then unused.
struct Dropout {
  double rate = 0;  // in [0, 1)
  uint64_t key = 0;
  const int64_t* sample_ids = nullptr;
  int64_t elems_per_sample = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_COMPUTE_H_
