// Model is a neural network with an explicit forward and backward pass, on
// parameters that someone else owns.
//
// Guarantees: all buffers are planned at creation for a largest batch, and once
// each thread has met a shape and made its scratch for it, nothing is
// allocated. Results depend on parameters, batch and options alone, not on the
// number of threads; those of NextTokenLogits, to rounding, also on whether a
// context was known in part. Any batch of 0 to max_batch samples is fine; an
// empty one has loss 0 and zero gradients.
// Thread-safety: thread-compatible; one call at a time.
// Ownership: the spans given to Bind, and what Compute refers to, must outlive
// the model's use.
// Example:
//   ASSIGN_OR_RETURN(std::unique_ptr<Model<float>> model,
//                    CreateModel<float>(config, compute, max_batch));
//   ASSIGN_OR_RETURN(Plan plan,
//                    Plan::Create(config.kind, model->specs(), options));
//   InitializeParameters(plan, seed, parameters);  // absl::Span<float>
//   RETURN_IF_ERROR(model->Bind(plan, parameters, gradients));
//   double loss_sum = model->ForwardBackward(
//       batch, {.scale = 1.0 / global_targets}, observer);
#ifndef RINGMASTER_WORKER_NN_MODEL_H_
#define RINGMASTER_WORKER_NN_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"
#include "worker/data/batch.h"
#include "worker/nn/class_outcome.h"
#include "worker/nn/compute.h"

namespace ringmaster {

class CancelToken;

// Follows the progress of ForwardBackward, on its thread.
class GradientObserver {
 public:
  virtual ~GradientObserver() = default;
  // The loss is known, and the gradients of the layers below the head begin; a
  // classifier makes the head's own with the loss.
  virtual void OnForwardDone() {}
  // Called once for each tensor, in plan order: 0, 1, 2, ... The gradient of
  // `tensor_index` is final until the next ForwardBackward, and may be read, or
  // reduced in place, by any thread from here on.
  virtual void OnTensorDone(int tensor_index) = 0;
};

// The input that a model takes.
struct ModelInput {
  SampleShape shape;
  int64_t vocabulary = 0;  // ids of tokens, or classes, are [0, vocabulary)
  // Samples that have tokens and a class: it is in [0, classes).
  int64_t classes = 0;
  // Their ids of padding, and of the token that ends a text; -1:
  // the model knows none.
  int64_t padding = 0;
  int64_t separator = -1;

  // The number of classes that a sample is of one of; 0: it is of none.
  int64_t sample_classes() const {
    return classes > 0 ? classes : (shape.pixels > 0 ? vocabulary : 0);
  }
  // The number of values that a target may have.
  int64_t outcomes() const { return classes > 0 ? classes : vocabulary; }
};

// The options of training on one micro-batch.
struct TrainOptions {
  // Gradients are those of `scale` times the loss sum; 1 / (targets of the
  // global batch) makes the sum over all ranks the gradient of the mean.
  double scale = 1;
  // Share of each target that is spread over all classes, in the loss that
  // ForwardBackward returns and differentiates; Predict knows none.
  double label_smoothing = 0;
  // kAdd adds this micro-batch's gradients to those that are there.
  Write write = Write::kSet;
  // Decides, with each sample's id, what dropout drops; each step has another
  // one.
  uint64_t dropout_key = 0;
  // Once cancelled, ForwardBackward of a model with many layers returns at the
  // next of them, where it computes layer by layer; loss and gradients are then
  // worth nothing. May be null.
  const CancelToken* cancel = nullptr;
};

// The quality of a model's predictions for a batch.
struct Prediction {
  double loss_sum = 0;  // of the cross entropy in nats, over all targets
  int64_t correct = 0;  // targets that were the most probable class
  // By sample, of models whose samples have classes; until the next call.
  absl::Span<const ClassOutcome> outcomes = {};
};

// The results of a device since it was last asked.
struct DeviceReport {
  double loss_sum = 0;
  // The time of all passes, as the device measured it.
  absl::Duration forward;
  absl::Duration backward;
};

// T is the type of parameters, gradients and activations: float, or double for
// checks. (A model on a device has its own type to compute in; parameters and
// gradients are T there, too.)
template <typename T>
class Model {
 public:
  virtual ~Model() = default;

  // The parameter tensors in reverse execution order: the order in which the
  // backward pass finishes them. Constant.
  virtual absl::Span<const TensorSpec> specs() const = 0;
  virtual const ModelInput& input() const = 0;
  virtual int64_t max_batch() const = 0;
  // Bytes of the buffers for max_batch samples, without the threads' scratch
  // (gemm.h, attention.h).
  virtual int64_t buffer_bytes() const = 0;
  // Floating-point operations of training on one sample, counting a multiply
  // and an add as two: forward and backward, matrix products alone, and nothing
  // twice. Model FLOP utilisation is computed from it (Chowdhery et al.,
  // "PaLM", 2022, appendix B).
  virtual double flops_per_sample() const = 0;
  // The model's settings in the form of Hugging Face's config.json; empty if it
  // has none.
  virtual std::string HuggingFaceConfig() const { return ""; }

  // Says where parameters and gradients lie; needed before anything below, and
  // again if they move.
  //   INVALID_ARGUMENT  the plan is not one of specs(), or a span has not
  //                     plan.total_elems() elements
  [[nodiscard]] virtual absl::Status Bind(const Plan& plan,
                                          absl::Span<const T> parameters,
                                          absl::Span<T> gradients) = 0;

  // Trains on a micro-batch: returns the sum (not the mean) of the cross
  // entropy in nats over the targets, added in double, and writes the gradient
  // to the whole gradient span, tensor by tensor. Padding is left alone.
  // Requires Bind, batch.size() <= max_batch(), input()'s shape, and ids in
  // range.
  virtual double ForwardBackward(const Batch& batch,
                                 const TrainOptions& options,
                                 GradientObserver& observer) = 0;

  // Evaluates a batch, without dropout. Requires as above.
  virtual Prediction Predict(const Batch& batch) = 0;

  // Returns true if passes only queue work on a device: ForwardBackward then
  // returns 0, OnTensorDone says that the gradient is final for work queued
  // behind it on that device, and AwaitDevice returns the rest.
  [[nodiscard]] virtual bool is_asynchronous() const { return false; }
  // Waits for all passes. The error is the device's; a Predict that it spoils
  // gives a loss that is NaN.
  [[nodiscard]] virtual absl::StatusOr<DeviceReport> AwaitDevice() {
    return DeviceReport();
  }

  // The logits [vocabulary] of the token that follows `context`, which is cut
  // to the last tokens that the model can see. Valid until the next call. A
  // context that begins with that of the call before, and fits into what the
  // model can see, may cost its new tokens alone: if parameters change between
  // the two without a pass or Bind, ForgetContext must be called.
  // Requires a non-empty context, ids in range, and max_batch() >= 1.
  //   FAILED_PRECONDITION  the model does not continue tokens
  [[nodiscard]] virtual absl::StatusOr<absl::Span<const T>> NextTokenLogits(
      absl::Span<const int32_t> /*context*/) {
    return absl::FailedPreconditionError("this model does not continue text");
  }
  // The next context is computed from its first token on.
  virtual void ForgetContext() {}
};

// The addresses of the tensors that a model is bound to. Every model has one.
//
// Thread-safety: thread-compatible.
template <typename T>
class BoundTensors {
 public:
  // Does what Model::Bind promises; `kind` is for the message. After an error
  // all is as it was.
  [[nodiscard]] absl::Status Bind(absl::Span<const TensorSpec> specs,
                                  const Plan& plan,
                                  absl::Span<const T> parameters,
                                  absl::Span<T> gradients,
                                  const std::string& kind);
  bool is_bound() const { return !tensors_.empty(); }
  // Checks what every pass requires, see Model::ForwardBackward.
  void CheckBatch(const Batch& batch, const ModelInput& input,
                  int64_t max_batch) const;
  // By tensor index. Requires is_bound().
  const T* parameter(int index) const { return tensors_[index].parameter; }
  T* gradient(int index) const { return tensors_[index].gradient; }

 private:
  struct Tensor {
    const T* parameter;
    T* gradient;
  };
  std::vector<Tensor> tensors_;  // empty until Bind
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_MODEL_H_
