// Model is a neural network with an explicit forward and backward pass, on
// parameters that someone else owns.
//
// Guarantees: all buffers are planned at creation for a largest batch; Forward
// and Backward allocate nothing. Results depend on parameters and batch alone.
// Any batch of 0 to max_batch samples is fine; an empty one has loss 0 and zero
// gradients.
// Thread-safety: thread-compatible; one step at a time.
// Ownership: the spans given to Bind must outlive the model's use.
// Example:
//   ASSIGN_OR_RETURN(std::unique_ptr<Model<float>> model,
//                    CreateModel<float>(config, max_batch));
//   ASSIGN_OR_RETURN(Plan plan,
//                    Plan::Create(config.kind, model->specs(), options));
//   InitializeParameters(plan, seed, parameters);  // absl::Span<float>
//   RETURN_IF_ERROR(model->Bind(plan, parameters, gradients));
//   double loss_sum = model->Forward(batch);
//   model->Backward(batch, 1.0 / global_batch, observer);
#ifndef RINGMASTER_WORKER_NN_MODEL_H_
#define RINGMASTER_WORKER_NN_MODEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"
#include "worker/data/batch.h"

namespace ringmaster {

// Is told, during Backward and on its thread, as soon as a tensor's gradient is
// complete.
class GradientObserver {
 public:
  virtual ~GradientObserver() = default;
  // Called once for each tensor, in plan order: 0, 1, 2, ... The gradient of
  // `tensor_index` is final until the next Backward, and may be read, or
  // reduced in place, by any thread from here on.
  virtual void OnTensorDone(int tensor_index) = 0;
};

// T is the type of parameters, gradients and activations: float, or double for
// checks.
template <typename T>
class Model {
 public:
  virtual ~Model() = default;

  // The parameter tensors in reverse execution order: the order in which
  // Backward finishes them. Constant.
  virtual absl::Span<const TensorSpec> specs() const = 0;
  virtual int64_t max_batch() const = 0;

  // Says where parameters and gradients lie; needed before the first Forward,
  // and again if they move.
  //   INVALID_ARGUMENT  the plan is not one of specs(), or a span has not
  //                     plan.total_elems() elements
  [[nodiscard]] virtual absl::Status Bind(const Plan& plan,
                                          absl::Span<const T> parameters,
                                          absl::Span<T> gradients) = 0;

  // Returns the sum (not the mean) over the batch of the cross entropy in nats,
  // added in double. Keeps what Backward needs. Requires Bind, batch.size() <=
  // max_batch(), the model's window, and token ids in range.
  virtual double Forward(const Batch& batch) = 0;

  // Writes (=, not +=) `scale` times the gradient of the loss sum to the whole
  // gradient span, tensor by tensor. `scale` is 1 / global batch size where the
  // sum over all ranks is to be the gradient of the mean. Padding is left
  // alone. Requires that Forward(batch) was the last call.
  virtual void Backward(const Batch& batch, double scale,
                        GradientObserver& observer) = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_MODEL_H_
