// Models on a GPU against the same models on the CPU: losses, gradients,
// predictions, and what they tell an observer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/transport/cancel_token.h"
#include "worker/nn/cuda/cuda_model_registry.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/cuda/testing/matmul_testing.h"
#include "worker/nn/testing/model_testing.h"

namespace ringmaster::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMaxBatch = 6;

ModelConfig Mlp() {
  return {.kind = "mlp",
          .settings = {{"window", {5}},
                       {"embedding_dim", {8}},
                       {"hidden_dim", {24}},
                       {"hidden_layers", {2}}}};
}

ModelConfig Cnn() {
  return {.kind = "cnn",
          .settings = {{"height", {10}},
                       {"width", {9}},
                       {"channels", {2}},
                       {"classes", {7}},
                       {"filters", {8, 16}},
                       {"hidden_dim", {24}}}};
}

ModelConfig Gpt(double dropout = 0) {
  return {.kind = "gpt",
          .settings = {{"vocabulary", {61}},
                       {"window", {20}},
                       {"layers", {2}},
                       {"heads", {2}},
                       {"width", {16}},
                       {"dropout", {dropout}}}};
}

struct Case {
  std::string name;
  ModelConfig config;
  Precision precision = Precision::kFloat32;
};

// Relative, of losses and of all gradients together, in the Euclidean norm. Where
// rounding decides who wins a pooling, a whole gradient goes another way, which is
// much for a batch of a few images.
double Tolerance(const Case& test_case) {
  switch (test_case.precision) {
    case Precision::kFloat32:
      return 5e-5;
    case Precision::kFloat16:
      return test_case.config.kind == "cnn" ? 4e-2 : 1e-2;
    default:
      return 6e-2;
  }
}

// A model on the GPU with the parameters of one on the CPU.
class OnDevice {
 public:
  OnDevice(CudaStream& stream, const ModelInstance<float>& cpu,
           const Case& test_case)
      : device_(*CudaDevice::Open(0)),
        matmul_(*CudaMatmul::Create(*device_, stream, {.measure = false})),
        model_(CreateCudaModel(*device_, {stream, *matmul_}, test_case.config,
                               test_case.precision, kMaxBatch)
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

class CudaModelTest : public DeviceTest,
                      public ::testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    cpu_ = std::make_unique<ModelInstance<float>>(GetParam().config, kMaxBatch);
    cpu_->RandomizeParameters();
    gpu_ = std::make_unique<OnDevice>(stream(), *cpu_, GetParam());
  }
  double tolerance() const { return Tolerance(GetParam()); }
  void ExpectSameGradients() {
    EXPECT_LE(RelativeError(gpu_->Gradients(), cpu_->Gradients()), tolerance());
  }

  std::unique_ptr<ModelInstance<float>> cpu_;
  std::unique_ptr<OnDevice> gpu_;
};

TEST_P(CudaModelTest, LossAndGradientsAreTheCpus) {
  for (const int64_t size : {kMaxBatch, int64_t{1}, int64_t{3}}) {
    const Batch batch = cpu_->RandomBatch(size, /*key=*/40 + size);
    const TrainOptions options = {.scale = 0.25, .dropout_key = 77};
    const double want = cpu_->Train(batch, options);
    const double got = gpu_->Train(batch, options);
    EXPECT_NEAR(got, want, tolerance() * std::abs(want)) << "size " << size;
    ExpectSameGradients();
  }
}

TEST_P(CudaModelTest, MicroBatchesAddUp) {
  const Batch whole = cpu_->RandomBatch(5, /*key=*/50);
  const Batch first = PickSamples(whole, {0, 1, 2});
  const Batch second = PickSamples(whole, {3, 4});
  TrainOptions options = {.scale = 0.125, .dropout_key = 5};
  const double want = cpu_->Train(whole, options);
  gpu_->model().ForwardBackward(first, options, gpu_->observer());
  options.write = Write::kAdd;
  const double got = gpu_->Train(second, options);
  EXPECT_NEAR(got, want, tolerance() * std::abs(want));
  ExpectSameGradients();
  // What was told once is not told again.
  const absl::StatusOr<DeviceReport> again = gpu_->model().AwaitDevice();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->loss_sum, 0);
}

TEST_P(CudaModelTest, AnEmptyBatchHasNoLossAndNoGradients) {
  const Batch empty = cpu_->RandomBatch(0, /*key=*/1);
  EXPECT_EQ(gpu_->Train(empty, {}), 0);
  for (const float gradient : gpu_->Gradients()) ASSERT_EQ(gradient, 0);
}

TEST_P(CudaModelTest, TellsOfTensorsInPlanOrder) {
  const Batch batch = cpu_->RandomBatch(2, /*key=*/3);
  cpu_->Train(batch);
  gpu_->Train(batch, {});
  EXPECT_EQ(gpu_->observer().order, cpu_->observer.order);
  EXPECT_EQ(gpu_->observer().forward_done_at, cpu_->observer.forward_done_at);
}

TEST_P(CudaModelTest, PredictsWhatTheCpuPredicts) {
  const Batch batch = cpu_->RandomBatch(4, /*key=*/9);
  const Prediction want = cpu_->model->Predict(batch);
  const Prediction got = gpu_->model().Predict(batch);
  EXPECT_NEAR(got.loss_sum, want.loss_sum,
              tolerance() * std::abs(want.loss_sum));
  if (GetParam().precision == Precision::kFloat32) {
    EXPECT_EQ(got.correct, want.correct);
  }
  // It is no training: nothing is left for AwaitDevice.
  EXPECT_EQ(gpu_->model().AwaitDevice()->loss_sum, 0);
}

TEST_P(CudaModelTest, ContinuesTextAsTheCpuDoes) {
  for (const size_t length : {1, 3, 30}) {
    const std::vector<int32_t> context = RandomIds(
        static_cast<int64_t>(length), cpu_->model->input().vocabulary, 4);
    const auto want = cpu_->model->NextTokenLogits(context);
    const auto got = gpu_->model().NextTokenLogits(context);
    ASSERT_EQ(got.ok(), want.ok()) << got.status();
    if (!want.ok()) continue;
    EXPECT_LE(RelativeError(std::vector<float>(got->begin(), got->end()),
                            std::vector<float>(want->begin(), want->end())),
              tolerance());
  }
}

TEST_P(CudaModelTest, TwoRunsGiveTheSameBits) {
  const Batch batch = cpu_->RandomBatch(kMaxBatch, /*key=*/8);
  const TrainOptions options = {.scale = 0.5, .dropout_key = 2};
  const double loss = gpu_->Train(batch, options);
  const std::vector<float> gradients = gpu_->Gradients();
  EXPECT_EQ(gpu_->Train(batch, options), loss);
  EXPECT_EQ(gpu_->Gradients(), gradients);
}

TEST_P(CudaModelTest, KnowsTheCpusShapeAndCosts) {
  EXPECT_EQ(gpu_->model().input().shape, cpu_->model->input().shape);
  EXPECT_EQ(gpu_->model().flops_per_sample(), cpu_->model->flops_per_sample());
  EXPECT_EQ(gpu_->model().HuggingFaceConfig(),
            cpu_->model->HuggingFaceConfig());
  EXPECT_TRUE(gpu_->model().is_asynchronous());
  EXPECT_GT(gpu_->model().buffer_bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Models, CudaModelTest,
    ::testing::Values(Case{"Mlp", Mlp()},
                      Case{"MlpBFloat16", Mlp(), Precision::kBFloat16},
                      Case{"MlpFloat16", Mlp(), Precision::kFloat16},
                      Case{"Cnn", Cnn()},
                      Case{"CnnBFloat16", Cnn(), Precision::kBFloat16},
                      Case{"CnnFloat16", Cnn(), Precision::kFloat16},
                      Case{"Gpt", Gpt()}, Case{"GptDropout", Gpt(0.2)},
                      Case{"GptBFloat16", Gpt(), Precision::kBFloat16},
                      Case{"GptFloat16", Gpt(), Precision::kFloat16}),
    [](const auto& info) { return info.param.name; });

using CudaModelErrorsTest = DeviceTest;

TEST_F(CudaModelErrorsTest, SaysWhichModelsThereAre) {
  const auto device = *CudaDevice::Open(0);
  const auto matmul =
      *CudaMatmul::Create(*device, stream(), {.measure = false});
  const auto model = CreateCudaModel(
      *device, {stream(), *matmul}, {.kind = "bigram"}, Precision::kFloat32, 1);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(model.status().message()),
              HasSubstr("those that compute on a GPU are cnn, gpt, mlp"));
}

TEST_F(CudaModelErrorsTest, SaysThatTheDeviceIsTooSmall) {
  const auto device = *CudaDevice::Open(0);
  const auto matmul =
      *CudaMatmul::Create(*device, stream(), {.measure = false});
  ModelConfig config = Gpt();
  config.settings["window"] = {4096};
  config.settings["width"] = {4096};
  const auto model =
      CreateCudaModel(*device, {stream(), *matmul}, config, Precision::kFloat32,
                      /*max_batch=*/100'000);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("bytes free; "));
}

TEST_F(CudaModelErrorsTest, StopsWhenItIsCancelled) {
  const ModelConfig config = Gpt();
  ModelInstance<float> cpu(config, kMaxBatch);
  OnDevice gpu(stream(), cpu, {"Gpt", config});
  CancelToken cancel;
  cancel.Cancel("enough");
  TrainOptions options;
  options.cancel = &cancel;
  gpu.model().ForwardBackward(cpu.RandomBatch(1, 1), options, gpu.observer());
  EXPECT_TRUE(gpu.observer().order.empty());
  // The next step is whole again.
  const Batch batch = cpu.RandomBatch(2, 2);
  const double want = cpu.Train(batch);
  EXPECT_NEAR(gpu.Train(batch, {}), want, 1e-4 * want);
}

}  // namespace
}  // namespace ringmaster::cuda
