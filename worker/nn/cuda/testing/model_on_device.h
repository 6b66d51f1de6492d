// ModelOnDevice is a small model on a GPU, to be compared with the same one elsewhere;
// ModelCases are the models, in each precision.
//
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_NN_CUDA_TESTING_MODEL_ON_DEVICE_H_
#define RINGMASTER_WORKER_NN_CUDA_TESTING_MODEL_ON_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "worker/nn/cuda/cuda_model_registry.h"
#include "worker/nn/cuda/matmul.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/testing/model_testing.h"

namespace ringmaster::cuda {

inline ModelConfig SmallBigram() {
  return {.kind = "bigram",
          .settings = {
              {"vocabulary", {40}}, {"window", {5}}, {"embedding_dim", {16}}}};
}

inline ModelConfig SmallMlp() {
  return {.kind = "mlp",
          .settings = {{"window", {5}},
                       {"embedding_dim", {8}},
                       {"hidden_dim", {24}},
                       {"hidden_layers", {2}}}};
}

inline ModelConfig SmallCnn() {
  return {.kind = "cnn",
          .settings = {{"height", {10}},
                       {"width", {9}},
                       {"channels", {2}},
                       {"classes", {7}},
                       {"filters", {8, 16}},
                       {"hidden_dim", {24}}}};
}

inline ModelConfig SmallGpt(double dropout = 0) {
  return {.kind = "gpt",
          .settings = {{"vocabulary", {61}},
                       {"window", {20}},
                       {"layers", {2}},
                       {"heads", {2}},
                       {"width", {16}},
                       {"dropout", {dropout}}}};
}

inline ModelConfig SmallLlama(double kv_heads, double tied) {
  return {.kind = "llama",
          .settings = {{"vocabulary", {61}},
                       {"window", {20}},
                       {"layers", {2}},
                       {"heads", {4}},
                       {"kv_heads", {kv_heads}},
                       {"width", {32}},
                       {"hidden", {40}},
                       {"tied", {tied}}}};
}

inline ModelConfig SmallBert(double roberta, double classes,
                             double dropout = 0) {
  return {.kind = "bert",
          .settings = {{"vocabulary", {61}},
                       {"window", {20}},
                       {"layers", {2}},
                       {"heads", {2}},
                       {"width", {16}},
                       {"hidden", {40}},
                       {"roberta", {roberta}},
                       {"separator", {3}},
                       {"classes", {classes}},
                       {"dropout", {dropout}}}};
}

inline ModelConfig SmallResnet(double depth, double norm_group) {
  return {.kind = "resnet",
          .settings = {{"depth", {depth}},
                       {"height", {40}},
                       {"width", {36}},
                       {"classes", {7}},
                       {"filters", {8}},
                       {"norm_group", {norm_group}}}};
}

struct ModelCase {
  std::string name;
  ModelConfig config;
  Precision precision = Precision::kFloat32;
};

inline std::vector<ModelCase> ModelCases() {
  return {
      ModelCase{"Bert", SmallBert(0, 0)},
      ModelCase{"BertOfClasses", SmallBert(0, 3)},
      ModelCase{"BertDropout", SmallBert(0, 0, 0.2)},
      ModelCase{"BertBFloat16", SmallBert(0, 3), Precision::kBFloat16},
      ModelCase{"RobertaOfClassesDropout", SmallBert(1, 3, 0.2)},
      ModelCase{"RobertaBFloat16", SmallBert(1, 0), Precision::kBFloat16},
      ModelCase{"RobertaFloat16", SmallBert(1, 3), Precision::kFloat16},
      ModelCase{"Bigram", SmallBigram()},
      ModelCase{"BigramBFloat16", SmallBigram(), Precision::kBFloat16},
      ModelCase{"Mlp", SmallMlp()},
      ModelCase{"MlpBFloat16", SmallMlp(), Precision::kBFloat16},
      ModelCase{"MlpFloat16", SmallMlp(), Precision::kFloat16},
      ModelCase{"Cnn", SmallCnn()},
      ModelCase{"CnnBFloat16", SmallCnn(), Precision::kBFloat16},
      ModelCase{"CnnFloat16", SmallCnn(), Precision::kFloat16},
      ModelCase{"Gpt", SmallGpt()},
      ModelCase{"GptDropout", SmallGpt(0.2)},
      ModelCase{"GptBFloat16", SmallGpt(), Precision::kBFloat16},
      ModelCase{"GptFloat16", SmallGpt(), Precision::kFloat16},
      ModelCase{"Llama", SmallLlama(2, 0)},
      ModelCase{"LlamaTied", SmallLlama(4, 1)},
      ModelCase{"LlamaBFloat16", SmallLlama(1, 0), Precision::kBFloat16},
      ModelCase{"LlamaFloat16", SmallLlama(2, 1), Precision::kFloat16},
      ModelCase{"Resnet", SmallResnet(10, 1)},
      ModelCase{"ResnetOfBottlenecks", SmallResnet(14, 1)},
      ModelCase{"ResnetBFloat16", SmallResnet(10, 1), Precision::kBFloat16}};
}

// A model on the GPU with the parameters of one on the CPU.
class ModelOnDevice {
 public:
  static constexpr int64_t kMaxBatch = 6;

  ModelOnDevice(CudaStream& stream, const ModelInstance<float>& cpu,
                const ModelCase& test_case, bool use_graphs = true)
      : device_(*CudaDevice::Open(0)),
        matmul_(*CudaMatmul::Create(*device_, stream, {.measure = false})),
        model_(CreateCudaModel(
                   {*device_, {stream, *matmul_}, kMaxBatch, use_graphs},
                   test_case.precision, test_case.config)
                   .value()),
        plan_(cpu.plan),
        parameters_(cpu.parameters),
        gradients_(plan_.total_elems()) {
    const auto elems = static_cast<size_t>(plan_.total_elems());
    EXPECT_TRUE(model_
                    ->Bind(plan_, absl::MakeConstSpan(parameters_.get(), elems),
                           absl::MakeSpan(gradients_.get(), elems))
                    .ok());
  }

  Model<float>& model() { return *model_; }
  RecordOrder& observer() { return observer_; }
  double Train(const Batch& batch, const TrainOptions& options) {
    EXPECT_EQ(model_->ForwardBackward(batch, options, observer_), 0);
    const absl::StatusOr<DeviceReport> report = model_->AwaitDevice();
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->loss_sum : 0;
  }
  // Without padding, tensor by tensor.
  std::vector<float> Gradients() const {
    const std::vector<float> all = gradients_.Floats();
    std::vector<float> elems;
    for (const PlannedTensor& tensor : plan_.tensors()) {
      const auto begin = all.begin() + tensor.range.begin;
      elems.insert(elems.end(), begin, begin + tensor.range.count);
    }
    return elems;
  }

 private:
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaMatmul> matmul_;
  std::unique_ptr<Model<float>> model_;
  const Plan& plan_;
  const DeviceArray<float> parameters_;
  const DeviceArray<float> gradients_;
  RecordOrder observer_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_TESTING_MODEL_ON_DEVICE_H_
