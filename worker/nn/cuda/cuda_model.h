// CudaModel is the backend (worker/nn/backend.h) of models on a GPU: the working
// copy of the parameters, the batch's way to the device, and what a pass leaves
// there for the host to ask for.
//
// T is what activations and the working copy of the parameters are made of:
// float, __nv_bfloat16 or __half. Parameters, gradients and losses are float
// and double, see Model. A pass only queues work; its errors are the stream's.
// Thread-safety: thread-compatible; one thread at a time, whose current device
// is the model's.
// Ownership: what CudaCompute refers to, and the device, must outlive it.
#ifndef RINGMASTER_WORKER_NN_CUDA_CUDA_MODEL_H_
#define RINGMASTER_WORKER_NN_CUDA_CUDA_MODEL_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"
#include "common/tensor/allocator.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/backend.h"
#include "worker/nn/buffer_cutter.h"
#include "worker/nn/compute.h"
#include "worker/nn/context_window.h"
#include "worker/nn/cuda/batch_upload.h"
#include "worker/nn/cuda/classifier.h"
#include "worker/nn/cuda/classifier_scratch.h"
#include "worker/nn/cuda/cuda_compute.h"
#include "worker/nn/cuda/device_dropout.h"
#include "worker/nn/cuda/pass_graphs.h"
#include "worker/nn/model.h"

namespace ringmaster::cuda {

// The parts of a model, apart from its settings.
struct CudaModelParts {
  CudaDevice& device;
  CudaCompute compute;
  int64_t max_batch = 0;
  bool use_graphs = true;  // for training passes, see PassGraphs
};

template <typename T>
class CudaModel : public Model<float> {
 public:
  using Element = T;
  using Sum = float;
  using Parameter = float;
  using Parts = CudaModelParts;
  using PlacedBatch = DeviceBatch;
  using ClassifierScratch = cuda::ClassifierScratch<T>;

  // Plans the buffers with Cut; the last step of a model's creation.
  // RESOURCE_EXHAUSTED: the device has no memory for them.
  [[nodiscard]] absl::Status PlanBuffers();

  int64_t max_batch() const override { return max_batch_; }
  int64_t buffer_bytes() const override { return buffers_.size_bytes(); }
  absl::Status Bind(const Plan& plan, absl::Span<const float> parameters,
                    absl::Span<float> gradients) override;
  bool is_asynchronous() const override { return true; }
  double ForwardBackward(const Batch& batch, const TrainOptions& options,
                         GradientObserver& observer) final;
  Prediction Predict(const Batch& batch) final;
  absl::StatusOr<DeviceReport> AwaitDevice() final;

 protected:
  explicit CudaModel(const CudaModelParts& parts)
      : device_(parts.device),
        compute_(parts.compute),
        max_batch_(parts.max_batch),
        graphs_(parts.compute.stream, parts.use_graphs) {}

  virtual void Cut(BufferCutter& cutter) = 0;
  virtual const char* kind() const = 0;
  virtual void Train(const DeviceBatch& batch, const PassOptions& options,
                     GradientObserver& observer, PassSums* sums) = 0;
  virtual void Evaluate(const DeviceBatch& batch, PassSums* sums) = 0;
  virtual void FillConstants() {}

  // As CpuModel's, in device memory.
  ClassOutcome* NoteOutcomes() {
    has_outcomes_ = true;
    return outcomes_;
  }

  static DeviceDropout DropoutAt(const DeviceBatch& batch, double rate,
                                 uint64_t site, int64_t elems_per_sample) {
    return {.rate = rate,
            .pass_key = batch.dropout_key,
            .site = site,
            .sample_ids = batch.sample_ids,
            .elems_per_sample = elems_per_sample};
  }

  static constexpr bool kKeepsContext = false;

  // The most tokens of a context that NextTokenLogits sees: what a batch has
  // room for.
  static int64_t ContextTokens(int64_t /*window*/, int64_t sample_tokens) {
    return sample_tokens;
  }
  // Requires what NextTokenLogits does. Brings the parameters as they are now,
  // too. Always as long as a sample: operators are planned for that shape.
  PlacedContext<DeviceBatch> PlaceContext(absl::Span<const int32_t> context,
                                          WindowPadding padding,
                                          int64_t window);
  // Copies `count` logits to the host and waits for them.
  [[nodiscard]] absl::StatusOr<absl::Span<const float>> FetchLogits(
      const T* logits, int64_t count);

  // By tensor index, for kernels. Require Bind.
  const T* parameter(int index) const {
    return working_parameters_ + begins_[static_cast<size_t>(index)];
  }
  const float* statistic(int index) const { return bound_.parameter(index); }
  float* gradient(int index) const { return bound_.gradient(index); }

  const CudaCompute& compute() const { return compute_; }

 private:
  // The marks that time one pass.
  struct PassMarks {
    std::unique_ptr<CudaEvent> begin;
    std::unique_ptr<CudaEvent> turn;  // from forward to backward
    std::unique_ptr<CudaEvent> end;
  };
  // Marks the turn on the way to another observer.
  class MarkTurn;

  CudaStream& stream() const { return compute_.stream; }
  [[nodiscard]] absl::Status MakeWorkingCopy(int64_t elems);
  // Makes a working copy of the parameters as they are now.
  void RefreshParameters();
  // The marks of the next pass; null where there was no memory for more.
  PassMarks* NextMarks();
  [[nodiscard]] absl::StatusOr<DeviceReport> ReadMarks();

  CudaDevice& device_;
  const CudaCompute compute_;
  const int64_t max_batch_;

  ModelBuffers buffers_;
  PassSums* sums_ = nullptr;          // in buffers_
  float* logits_ = nullptr;           // in buffers_, of FetchLogits
  Allocation host_sums_;              // pinned
  ClassOutcome* outcomes_ = nullptr;  // in buffers_
  std::vector<ClassOutcome> host_outcomes_;
  bool has_outcomes_ = false;  // of Predict
  Allocation working_copy_;    // empty where T is float
  const T* working_parameters_ = nullptr;
  BoundTensors<float> bound_;
  absl::Span<const float> parameters_;
  std::vector<int64_t> begins_;  // of the tensors in the arenas
  std::unique_ptr<BatchUpload> upload_;
  std::vector<PassMarks> marks_;
  size_t passes_ = 0;  // since AwaitDevice
  std::vector<float> host_logits_;
  Batch context_{0, SampleShape()};  // of PlaceContext
  PassGraphs graphs_;                // of what is above, and gone before it
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDA_MODEL_H_
