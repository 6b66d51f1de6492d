// Plan is the static layout of a job: where each tensor lies in the arenas, and
// which slices are reduced together.
//
// Pure and immutable: the same inputs give the same plan, and the same hash, on
// every rank. Ranks compare hashes before step 1, so that a difference in
// model, settings or order is a message instead of a wrong sum.
//
// Guarantees (all of them tested):
//   - tensors lie in the given order; each begins at a multiple of
//     kTensorAlignElems; they do not overlap;
//   - offsets are in elements and do not depend on a dtype, so arenas of
//     different dtypes share one layout;
//   - buckets tile [0, total_elems()) in order; each begins at a multiple of
//     kTensorAlignElems; none is empty and none is larger than
//     max(bucket_bytes, one alignment unit);
//   - `ready_tensor` never decreases from bucket to bucket, so buckets become
//     ready in order.
// Elements between tensors are padding: zero in every arena, and they stay zero
// through reduction and optimizer.
// Thread-safety: immutable.
// Example:
//   ASSIGN_OR_RETURN(Plan plan, Plan::Create("mlp", model->specs(), options));
//   for (const Bucket& bucket : plan.BucketsCompletedBy(tensor_index)) {
//     StartReduction(gradients.Slice<float>(bucket.range));
//   }
#ifndef RINGMASTER_COMMON_PLAN_PLAN_H_
#define RINGMASTER_COMMON_PLAN_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/partition.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"

namespace ringmaster {

inline constexpr int64_t kTensorAlignElems = 64;

// The initial values of a tensor.
struct Initializer {
  enum class Kind { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  // kConstant: the value. kUniform: values lie in [-value, value). kNormal:
  // mean 0 and standard deviation `value`.
  double value = 0;

  static Initializer Constant(double value) { return {Kind::kConstant, value}; }
  static Initializer Uniform(double bound) { return {Kind::kUniform, bound}; }
  static Initializer Normal(double deviation) {
    return {Kind::kNormal, deviation};
  }
};

// One parameter tensor of a model.
struct TensorSpec {
  std::string name;  // unique in the model, no spaces: "hidden.1.weight"
  Shape shape;
  Initializer init;
  // The rate of a running statistic, which is not trained: each step takes it
  // this part of the way to the step's own value. Its gradient, as reduced, is
  // the distance from there. 0: a parameter.
  double tracking_rate = 0;
};

struct PlannedTensor {
  TensorSpec spec;
  ElemRange range;  // its elements in every arena, padding not included
};

// A contiguous slice of the gradient arena that is reduced, and updated, as
// one.
struct Bucket {
  ElemRange range;       // may begin or end inside a tensor; includes padding
  int ready_tensor = 0;  // index of the tensor whose gradient is the last one
                         // that this bucket needs
};

struct PlanOptions {
  DType parameter_dtype = DType::kFloat32;
  DType gradient_dtype = DType::kFloat32;
  // Upper bound of a bucket's size in the gradient dtype.
  int64_t bucket_bytes = int64_t{4} << 20;
  // All other settings that the ranks must agree on, as canonical text (model,
  // optimizer and data settings, global batch, seed, data fingerprint, ...).
  // Part of ToString and of the hash.
  std::string settings = "";
};

class Plan {
 public:
  // `tensors` are in reverse execution order: the order in which backward
  // finishes their gradients.
  //   INVALID_ARGUMENT  no tensor, an empty tensor, a bad or repeated name, a
  //                     tracking rate outside [0, 1], a running statistic after
  //                     a parameter, a bucket size below 1
  [[nodiscard]] static absl::StatusOr<Plan> Create(
      std::string_view model, absl::Span<const TensorSpec> tensors,
      const PlanOptions& options);

  absl::Span<const PlannedTensor> tensors() const { return tensors_; }
  absl::Span<const Bucket> buckets() const { return buckets_; }
  // The buckets (adjacent, maybe none) that may be reduced once tensor
  // `tensor_index` has its gradient, given that all tensors before it have
  // theirs.
  absl::Span<const Bucket> BucketsCompletedBy(int tensor_index) const;

  // Size of every arena in elements, padding included.
  int64_t total_elems() const { return total_elems_; }
  // Number of parameters, without padding and running statistics.
  int64_t parameter_count() const { return parameter_count_; }
  // The first elements of every arena, which are running statistics and their
  // padding.
  int64_t statistic_elems() const { return statistic_elems_; }
  DType parameter_dtype() const { return parameter_dtype_; }
  DType gradient_dtype() const { return gradient_dtype_; }

  // XXH3-64 of ToString().
  uint64_t hash() const { return hash_; }
  // The canonical text: one line for the model, each tensor and each bucket,
  // then the settings. Readable, and complete: plans with equal text are equal,
  // so a `diff` of two texts shows why two hashes differ.
  std::string ToString() const;

 private:
  Plan() = default;
  void PlaceTensors(absl::Span<const TensorSpec> tensors);
  void CutBuckets(int64_t bucket_elems);

  std::string model_;
  std::string settings_;
  DType parameter_dtype_ = DType::kFloat32;
  DType gradient_dtype_ = DType::kFloat32;
  int64_t total_elems_ = 0;
  int64_t parameter_count_ = 0;
  int64_t statistic_elems_ = 0;
  std::vector<PlannedTensor> tensors_;
  std::vector<Bucket> buckets_;
  std::vector<int> first_bucket_;  // per tensor: its first completed bucket;
                                   // one extra entry at the end
  uint64_t hash_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PLAN_PLAN_H_
