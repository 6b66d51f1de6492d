// CpuModel is the backend (backend.h) of models on this host's processors.
//
// T, float or double, is what everything is made of.
// Thread-safety and ownership: as Model.
#ifndef RINGMASTER_WORKER_NN_CPU_MODEL_H_
#define RINGMASTER_WORKER_NN_CPU_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/counter_random.h"
#include "common/plan/plan.h"
#include "common/tensor/allocator.h"
#include "worker/nn/backend.h"
#include "worker/nn/buffer_cutter.h"
#include "worker/nn/classifier.h"
#include "worker/nn/compute.h"
#include "worker/nn/context_window.h"
#include "worker/nn/model.h"

namespace ringmaster {

// The parts of a model, apart from its settings.
struct CpuModelParts {
  Compute compute;
  int64_t max_batch = 0;
};

// A batch as operators are given it; see Batch. Arrays that its shape does not
// have are null.
struct HostBatch {
  int64_t size = 0;
  const int32_t* inputs = nullptr;      // [size, tokens]
  const uint8_t* pixels = nullptr;      // [size, pixels]
  const int32_t* targets = nullptr;     // [size, targets]
  const int64_t* sample_ids = nullptr;  // [size]
  // Of a training pass; see TrainOptions.
  LossTerms scale = {};
  uint64_t dropout_key = 0;
};

template <typename T>
class CpuModel : public Model<T> {
 public:
  using Element = T;
  using Sum = T;
  using Parameter = T;
  using Parts = CpuModelParts;
  using PlacedBatch = HostBatch;
  using ClassifierScratch = ringmaster::ClassifierScratch<T>;

  // Plans the buffers with Cut; the last step of a model's creation.
  // RESOURCE_EXHAUSTED: there is no memory for them.
  [[nodiscard]] absl::Status PlanBuffers();

  int64_t max_batch() const override { return max_batch_; }
  int64_t buffer_bytes() const override { return buffers_.size_bytes(); }
  absl::Status Bind(const Plan& plan, absl::Span<const T> parameters,
                    absl::Span<T> gradients) override;
  double ForwardBackward(const Batch& batch, const TrainOptions& options,
                         GradientObserver& observer) final;
  Prediction Predict(const Batch& batch) final;
  void ForgetContext() final { is_context_kept_ = false; }

 protected:
  explicit CpuModel(const CpuModelParts& parts)
      : compute_(parts.compute), max_batch_(parts.max_batch) {}

  virtual void Cut(BufferCutter& cutter) = 0;
  virtual const char* kind() const = 0;
  virtual void Train(const HostBatch& batch, const PassOptions& options,
                     GradientObserver& observer, PassSums* sums) = 0;
  virtual void Evaluate(const HostBatch& batch, PassSums* sums) = 0;
  virtual void FillConstants() {}

  // By tensor index. Require Bind.
  const T* parameter(int index) const { return bound_.parameter(index); }
  const T* statistic(int index) const { return bound_.parameter(index); }
  T* gradient(int index) const { return bound_.gradient(index); }
  const Compute& compute() const { return compute_; }

  // Where a model whose samples have classes writes what it says of each, in
  // Evaluate.
  ClassOutcome* NoteOutcomes() {
    has_outcomes_ = true;
    return outcomes_.data();
  }

  static Dropout DropoutAt(const HostBatch& batch, double rate, uint64_t site,
                           int64_t elems_per_sample) {
    return {.rate = rate,
            .key = CounterRandom(batch.dropout_key, site),
            .sample_ids = batch.sample_ids,
            .elems_per_sample = elems_per_sample};
  }

  static constexpr bool kKeepsContext = true;

  // The most tokens of a context that NextTokenLogits sees: all that the model
  // can, even where samples are shorter.
  static int64_t ContextTokens(int64_t window, int64_t /*sample_tokens*/) {
    return window;
  }
  // Requires what NextTokenLogits does. With zeros before it a text fills the
  // window; zeros after it would be computed in vain, and what was computed for
  // the last context is known, if this one begins with it and no pass came
  // between.
  PlacedContext<HostBatch> PlaceContext(absl::Span<const int32_t> context,
                                        WindowPadding padding, int64_t window);
  [[nodiscard]] absl::StatusOr<absl::Span<const T>> FetchLogits(const T* logits,
                                                                int64_t count) {
    return absl::Span<const T>(logits, static_cast<size_t>(count));
  }

 private:
  const Compute compute_;
  const int64_t max_batch_;
  HeapAllocator allocator_;  // outlives the buffers
  ModelBuffers buffers_;
  BoundTensors<T> bound_;
  std::vector<ClassOutcome> outcomes_;  // of Predict
  bool has_outcomes_ = false;
  // Of PlaceContext.
  std::vector<int32_t> context_;
  bool is_context_kept_ = false;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CPU_MODEL_H_
