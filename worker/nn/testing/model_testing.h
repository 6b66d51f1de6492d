// Helpers for tests of models: random batches, and a model with its arenas.
//
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_NN_TESTING_MODEL_TESTING_H_
#define RINGMASTER_WORKER_NN_TESTING_MODEL_TESTING_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/plan/counter_random.h"
#include "common/plan/plan.h"
#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"
#include "worker/nn/initialize.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"
#include "worker/nn/model_registry.h"

namespace ringmaster {

// A random batch for a model with this input; another `key` gives other values
// and other sample ids.
Batch RandomBatch(const ModelInput& input, int64_t size, uint64_t key);

// The samples at `places` of `batch`, in that order.
Batch PickSamples(const Batch& batch, const std::vector<int64_t>& places);

// Remembers what it was told, without allocating for the first 1000 tensors.
class RecordOrder final : public GradientObserver {
 public:
  RecordOrder() { order.reserve(1000); }
  void OnForwardDone() override { forward_done_at = order.size(); }
  void OnTensorDone(int tensor_index) override {
    order.push_back(tensor_index);
  }
  std::vector<int> order;
  size_t forward_done_at = std::numeric_limits<size_t>::max();
};

// A model, bound to arenas of its own: initial parameters, and gradients that
// are NaN, so that one left unwritten, or one added to where = is promised,
// shows.
template <typename T>
struct ModelInstance {
  explicit ModelInstance(const ModelConfig& config, int64_t max_batch = 8,
                         int threads = 1,
                         Precision precision = Precision::kFloat32)
      : pool(threads),
        model(*CreateModel<T>(config, {pool, precision}, max_batch)),
        plan(*Plan::Create(config.kind, model->specs(), {})),
        parameters(static_cast<size_t>(plan.total_elems())),
        gradients(parameters.size(), std::numeric_limits<T>::quiet_NaN()) {
    InitializeParameters<T>(plan, 1, absl::MakeSpan(parameters));
    EXPECT_TRUE(model->Bind(plan, parameters, absl::MakeSpan(gradients)).ok());
  }

  // Makes parameters larger than the initial ones, and no two alike, so that
  // every part of the model matters, and no mistake hides behind a bias of 0 or
  // a gain of 1.
  void RandomizeParameters() {
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters[i] += static_cast<T>(UnitInterval(CounterRandom(99, i)) - 0.5);
  }
  Batch RandomBatch(int64_t size, uint64_t key) const {
    return ringmaster::RandomBatch(model->input(), size, key);
  }
  double Train(const Batch& batch, const TrainOptions& options = {}) {
    observer.order.clear();
    return model->ForwardBackward(batch, options, observer);
  }
  double Loss(const Batch& batch) { return model->Predict(batch).loss_sum; }
  // All gradients without padding, tensor by tensor.
  std::vector<T> Gradients() const {
    std::vector<T> elems;
    for (const PlannedTensor& tensor : plan.tensors()) {
      const auto begin = gradients.begin() + tensor.range.begin;
      elems.insert(elems.end(), begin, begin + tensor.range.count);
    }
    return elems;
  }
  // parameters -= rate * gradients
  void Descend(T rate) {
    for (const PlannedTensor& tensor : plan.tensors()) {
      for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
        parameters[i] -= rate * gradients[i];
    }
  }
  // "name shape" of each tensor.
  std::vector<std::string> TensorLines() const {
    std::vector<std::string> lines;
    for (const TensorSpec& spec : model->specs())
      lines.push_back(spec.name + " " + spec.shape.ToString());
    return lines;
  }

  ThreadPool pool;
  std::unique_ptr<Model<T>> model;
  Plan plan;
  std::vector<T> parameters;
  std::vector<T> gradients;
  RecordOrder observer;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_TESTING_MODEL_TESTING_H_
