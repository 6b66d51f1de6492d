#include "tests/parity/parity_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/optimizer/norm.h"
#include "common/optimizer/optimizer.h"
#include "common/plan/plan.h"
#include "common/status/status_macros.h"
#include "common/sync/thread_pool.h"
#include "nlohmann/json.hpp"
#include "worker/checkpoint/safetensors.h"
#include "worker/nn/model_registry.h"

namespace ringmaster::parity {
namespace {

using nlohmann::json;

class IgnoreGradients final : public GradientObserver {
 public:
  void OnTensorDone(int /*tensor_index*/) override {}
};

// A case's config in our terms.
struct Config {
  ModelConfig model;
  OptimizerConfig optimizer;
  int64_t batch = 0;
  int64_t steps = 0;
};

Config ParseConfig(const SafetensorsFile& file) {
  const json config = json::parse(file.metadata().at("config"));
  Config parsed;
  parsed.model.kind = config.at("model");
  for (const auto& [name, value] : config.at("settings").items()) {
    parsed.model.settings[name] = value.is_array()
                                      ? value.get<std::vector<double>>()
                                      : std::vector<double>{value};
  }
  const json& optimizer = config.at("optimizer");
  parsed.optimizer.kind = optimizer.at("kind");
  parsed.optimizer.learning_rate = optimizer.at("learning_rate");
  parsed.optimizer.weight_decay = optimizer.at("weight_decay");
  parsed.optimizer.clip_norm = optimizer.at("clip_norm");
  parsed.optimizer.beta1 = optimizer.value("beta1", parsed.optimizer.beta1);
  parsed.optimizer.beta2 = optimizer.value("beta2", parsed.optimizer.beta2);
  parsed.optimizer.epsilon =
      optimizer.value("epsilon", parsed.optimizer.epsilon);
  parsed.optimizer.momentum = optimizer.value("momentum", 0.0);
  parsed.batch = config.at("batch");
  parsed.steps = config.at("steps");
  return parsed;
}

template <typename T>
class Runner {
 public:
  Runner(const SafetensorsFile& file, Config config, Precision precision)
      : file_(file),
        config_(std::move(config)),
        compute_{.pool = pool_, .precision = precision} {}

  absl::StatusOr<Results> Run() {
    ASSIGN_OR_RETURN(model_,
                     CreateModel<T>(config_.model, compute_, config_.batch));
    ASSIGN_OR_RETURN(Plan plan,
                     Plan::Create(config_.model.kind, model_->specs(), {}));
    plan_ = std::make_unique<Plan>(std::move(plan));
    const size_t total = static_cast<size_t>(plan_->total_elems());
    gradients_.resize(total);
    parameters_.resize(total);
    RETURN_IF_ERROR(
        model_->Bind(*plan_, parameters_, absl::MakeSpan(gradients_)));
    RETURN_IF_ERROR(RunOnce());
    RETURN_IF_ERROR(RunSteps());
    return std::move(results_);
  }

 private:
  absl::StatusOr<const SafetensorsEntry*> Find(const std::string& name) const {
    const SafetensorsEntry* const entry = file_.Find(name);
    if (entry != nullptr) return entry;
    return absl::NotFoundError(absl::StrCat(file_.path(), " has no ", name));
  }

  absl::Status LoadParameters() {
    for (const PlannedTensor& tensor : plan_->tensors()) {
      ASSIGN_OR_RETURN(const SafetensorsEntry* entry,
                       Find("param/" + tensor.spec.name));
      if (!entry->HasShape(tensor.spec.shape)) {
        return absl::FailedPreconditionError(
            absl::StrCat(tensor.spec.name, " has another shape in the case"));
      }
      std::vector<float> elems(static_cast<size_t>(tensor.range.count));
      RETURN_IF_ERROR(file_.ReadFloats(*entry, 0, absl::MakeSpan(elems)));
      std::copy(elems.begin(), elems.end(),
                parameters_.begin() + tensor.range.begin);
    }
    return absl::OkStatus();
  }

  // Part `index` of the tensor `name`, which has `parts` equal ones.
  template <typename Elem>
  absl::Status ReadPart(const std::string& name, int64_t parts, int64_t index,
                        absl::Span<Elem> into) const {
    if (into.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const SafetensorsEntry* entry, Find(name));
    std::vector<uint8_t> bytes(static_cast<size_t>(entry->size_bytes));
    RETURN_IF_ERROR(file_.ReadBytes(*entry, absl::MakeSpan(bytes)));
    if (bytes.size() != into.size() * sizeof(Elem) * static_cast<size_t>(parts))
      return absl::InvalidArgumentError(name + " has another size");
    std::copy_n(bytes.data() + index * into.size() * sizeof(Elem),
                into.size() * sizeof(Elem),
                reinterpret_cast<uint8_t*>(into.data()));
    return absl::OkStatus();
  }

  absl::StatusOr<Batch> ReadBatch(const std::string& prefix, int64_t parts,
                                  int64_t index) const {
    Batch batch(config_.batch, model_->input().shape);
    batch.Resize(config_.batch);
    RETURN_IF_ERROR(ReadPart<int32_t>(prefix + "inputs", parts, index,
                                      batch.mutable_inputs()));
    RETURN_IF_ERROR(ReadPart<uint8_t>(prefix + "inputs", parts, index,
                                      batch.mutable_pixels()));
    RETURN_IF_ERROR(ReadPart<int32_t>(prefix + "targets", parts, index,
                                      batch.mutable_targets()));
    return batch;
  }

  double Train(const Batch& batch) {
    std::fill(gradients_.begin(), gradients_.end(),
              std::numeric_limits<T>::quiet_NaN());
    IgnoreGradients observer;
    const double mean = 1.0 / static_cast<double>(batch.targets().size());
    const double loss =
        mean * model_->ForwardBackward(batch, {.scale = mean}, observer);
    // Padding is nobody's, and the norm is of all elements.
    int64_t end = 0;
    for (const PlannedTensor& tensor : plan_->tensors()) {
      std::fill(gradients_.begin() + end,
                gradients_.begin() + tensor.range.begin, T{0});
      end = tensor.range.end();
    }
    std::fill(gradients_.begin() + end, gradients_.end(), T{0});
    return loss;
  }

  absl::Status RunOnce() {
    RETURN_IF_ERROR(LoadParameters());
    ASSIGN_OR_RETURN(const Batch batch, ReadBatch("", 1, 0));
    results_["loss"] = {Shape({1}), {Train(batch)}};
    Store("grad/", gradients_, /*with_statistics=*/false);
    return RunLogits(batch);
  }

  // The token after each prefix of each sample.
  absl::Status RunLogits(const Batch& batch) {
    const SampleShape& shape = batch.shape();
    const bool continues_text =
        shape.tokens > 0 && !shape.is_masked && model_->input().classes == 0;
    if (!continues_text) return absl::OkStatus();
    Result logits;
    for (int64_t sample = 0; sample < batch.size(); ++sample) {
      for (int64_t length = shape.tokens - shape.targets + 1;
           length <= shape.tokens; ++length) {
        ASSIGN_OR_RETURN(const absl::Span<const T> row,
                         model_->NextTokenLogits(batch.inputs().subspan(
                             sample * shape.tokens, length)));
        logits.elems.insert(logits.elems.end(), row.begin(), row.end());
      }
    }
    const int64_t classes = model_->input().vocabulary;
    logits.shape = shape.targets == 1
                       ? Shape({batch.size(), classes})
                       : Shape({batch.size(), shape.targets, classes});
    results_["logits"] = std::move(logits);
    return absl::OkStatus();
  }

  absl::Status RunSteps() {
    RETURN_IF_ERROR(LoadParameters());
    std::vector<T> first_moment(parameters_.size());
    std::vector<T> second_moment(parameters_.size());
    Result losses = {Shape({config_.steps}), {}};
    for (int64_t step = 1; step <= config_.steps; ++step) {
      ASSIGN_OR_RETURN(const Batch batch,
                       ReadBatch("steps/", config_.steps, step - 1));
      losses.elems.push_back(Train(batch));
      Update update;
      update.step = step;
      update.learning_rate = config_.optimizer.learning_rate;
      update.gradient_scale =
          ClipFactor(SumOfGradientSquares<T>(absl::MakeConstSpan(gradients_),
                                             plan_->statistic_elems()),
                     config_.optimizer.clip_norm);
      for (const PlannedTensor& tensor : plan_->tensors()) {
        const auto part = [&tensor](std::vector<T>& arena) {
          return absl::MakeSpan(arena).subspan(
              static_cast<size_t>(tensor.range.begin),
              static_cast<size_t>(tensor.range.count));
        };
        update.tracking_rate = tensor.spec.tracking_rate;
        ApplyOptimizer<T>(pool_, config_.optimizer, update,
                          {part(parameters_), part(gradients_),
                           part(first_moment), part(second_moment)});
      }
    }
    results_["losses"] = std::move(losses);
    Store("after/", parameters_, /*with_statistics=*/true);
    return absl::OkStatus();
  }

  void Store(const std::string& prefix, const std::vector<T>& arena,
             bool with_statistics) {
    for (const PlannedTensor& tensor : plan_->tensors()) {
      if (tensor.spec.tracking_rate != 0 && !with_statistics) continue;
      results_[prefix + tensor.spec.name] = {
          tensor.spec.shape,
          {arena.begin() + tensor.range.begin,
           arena.begin() + tensor.range.end()}};
    }
  }

  const SafetensorsFile& file_;
  const Config config_;
  ThreadPool pool_{1};
  const Compute compute_;
  std::unique_ptr<Model<T>> model_;
  std::unique_ptr<Plan> plan_;
  std::vector<T> parameters_;
  std::vector<T> gradients_;
  Results results_;
};

}  // namespace

absl::StatusOr<Results> RunCase(const std::string& path,
                                Arithmetic arithmetic) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  if (!file.metadata().contains("config"))
    return absl::InvalidArgumentError(path + " is no parity case");
  const Config config = ParseConfig(file);
  if (arithmetic == Arithmetic::kFloat64)
    return Runner<double>(file, config, Precision::kFloat32).Run();
  return Runner<float>(file, config,
                       arithmetic == Arithmetic::kBFloat16
                           ? Precision::kBFloat16
                           : Precision::kFloat32)
      .Run();
}

}  // namespace ringmaster::parity
