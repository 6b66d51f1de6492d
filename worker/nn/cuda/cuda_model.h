// CudaModel is what all models on a GPU have in common: the working copy of the
// parameters, the batch's way to the device, and what a pass leaves there for
// the host to ask for.
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
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"
#include "common/status/status_macros.h"
#include "common/tensor/allocator.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/compute.h"
#include "worker/nn/context_window.h"
#include "worker/nn/cuda/batch_upload.h"
#include "worker/nn/cuda/cuda_compute.h"
#include "worker/nn/cuda/device_buffers.h"
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

// The options for queueing a training pass; its data come with the batch.
struct PassOptions {
  Write write = Write::kSet;
  const CancelToken* cancel = nullptr;  // may be null
};

template <typename T>
class CudaModel : public Model<float> {
 public:
  // Plans the buffers with Cut; the last step of a model's creation, see
  // CreateCudaModelOf. RESOURCE_EXHAUSTED: the device has no memory for them.
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
  // The sums that the device adds up, in its memory and, once fetched, in the
  // host's.
  struct Sums {
    double loss_sum = 0;        // of training passes
    double predicted_loss = 0;  // of one Predict
    int64_t correct = 0;        // of one Predict
  };

  explicit CudaModel(const CudaModelParts& parts)
      : device_(parts.device),
        compute_(parts.compute),
        max_batch_(parts.max_batch),
        graphs_(parts.compute.stream, parts.use_graphs) {}

  // Takes the model's buffers for max_batch() samples.
  virtual void Cut(DeviceCutter& cutter) = 0;
  // For messages: "gpt".
  virtual const char* kind() const = 0;
  // Queues a training pass, adding its loss to sums()->loss_sum; tells
  // `observer` as ForwardBackward does.
  virtual void Train(const DeviceBatch& batch, const PassOptions& options,
                     GradientObserver& observer) = 0;
  // Queues an evaluation, adding to the rest of sums().
  virtual void Evaluate(const DeviceBatch& batch) = 0;

  // Makes a working copy of the parameters as they are now.
  void RefreshParameters();
  // Brings the end of a text to the device, as a batch of one sample, see
  // FillWindow, and the parameters as they are now: for NextTokenLogits, with
  // its requirements.
  DeviceBatch UploadContext(absl::Span<const int32_t> context,
                            WindowPadding padding);
  // Copies `count` logits to the host and waits for them.
  [[nodiscard]] absl::StatusOr<absl::Span<const float>> FetchLogits(
      const T* logits, int64_t count);

  // By tensor index, for kernels. Require Bind.
  const T* parameter(int index) const {
    return working_parameters_ + begins_[static_cast<size_t>(index)];
  }
  float* gradient(int index) const { return bound_.gradient(index); }

  CudaDevice& device() const { return device_; }
  CudaStream& stream() const { return compute_.stream; }
  const CudaCompute& compute() const { return compute_; }
  Sums* sums() const { return sums_; }

 private:
  // The marks that time one pass.
  struct PassMarks {
    std::unique_ptr<CudaEvent> begin;
    std::unique_ptr<CudaEvent> turn;  // from forward to backward
    std::unique_ptr<CudaEvent> end;
  };
  // Marks the turn on the way to another observer.
  class MarkTurn;

  [[nodiscard]] absl::Status MakeWorkingCopy(int64_t elems);
  // The marks of the next pass; null where there was no memory for more.
  PassMarks* NextMarks();
  [[nodiscard]] absl::StatusOr<DeviceReport> ReadMarks();

  CudaDevice& device_;
  const CudaCompute compute_;
  const int64_t max_batch_;

  DeviceBuffers buffers_;
  Sums* sums_ = nullptr;     // in buffers_
  float* logits_ = nullptr;  // in buffers_, of FetchLogits
  Allocation host_sums_;     // pinned
  Allocation working_copy_;  // empty where T is float
  const T* working_parameters_ = nullptr;
  BoundTensors<float> bound_;
  absl::Span<const float> parameters_;
  std::vector<int64_t> begins_;  // of the tensors in the arenas
  std::unique_ptr<BatchUpload> upload_;
  std::vector<PassMarks> marks_;
  size_t passes_ = 0;  // since AwaitDevice
  std::vector<float> host_logits_;
  Batch context_{0, SampleShape()};  // of UploadContext
  PassGraphs graphs_;                // of what is above, and gone before it
};

// Makes a ModelOf<T>, of the T that `precision` computes in.
// RESOURCE_EXHAUSTED: the device has no memory for the buffers.
template <template <typename> class ModelOf, typename Settings>
[[nodiscard]] absl::StatusOr<std::unique_ptr<Model<float>>> CreateCudaModelOf(
    const CudaModelParts& parts, Precision precision,
    const Settings& settings) {
  const auto create =
      [&]<typename T>(
          T /*element*/) -> absl::StatusOr<std::unique_ptr<Model<float>>> {
    auto model = std::make_unique<ModelOf<T>>(parts, settings);
    RETURN_IF_ERROR(model->PlanBuffers());
    return model;
  };
  switch (precision) {
    case Precision::kBFloat16:
      return create(__nv_bfloat16());
    case Precision::kFloat16:
      return create(__half());
    case Precision::kFloat32:
    case Precision::kTf32:
      break;  // parts.compute knows which
  }
  return create(float());
}

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_CUDA_MODEL_H_
