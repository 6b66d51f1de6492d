#include "worker/nn/gpt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/plan/counter_random.h"
#include "common/plan/plan.h"
#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker/data/batch.h"
#include "worker/nn/allocation_counter.h"
#include "worker/nn/initialize.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"
#include "worker/nn/model_registry.h"

namespace ringmaster {
namespace {

constexpr int64_t kVocabulary = 11;
constexpr int64_t kWindow = 5;

ModelConfig GptConfig(double vocabulary, double window, double layers,
                      double heads, double width, double dropout = 0) {
  return {.kind = "gpt",
          .settings = {{"vocabulary", {vocabulary}},
                       {"window", {window}},
                       {"layers", {layers}},
                       {"heads", {heads}},
                       {"width", {width}},
                       {"dropout", {dropout}}}};
}

const ModelConfig kSmall = GptConfig(kVocabulary, kWindow, 2, 2, 8);
const ModelConfig kSmallDropping =
    GptConfig(kVocabulary, kWindow, 2, 2, 8, 0.2);
// Wide enough for blocked kernels, with sizes that fill no block.
const ModelConfig kMiddle = GptConfig(300, 70, 3, 3, 144);

class RecordOrder final : public GradientObserver {
 public:
  RecordOrder() { order.reserve(100); }
  void OnForwardDone() override { forward_done_at = order.size(); }
  void OnTensorDone(int tensor_index) override {
    order.push_back(tensor_index);
  }
  std::vector<int> order;
  size_t forward_done_at = 999;
};

Batch RandomBatch(int64_t size, int64_t window, int64_t vocabulary,
                  uint64_t key) {
  Batch batch(size, {.tokens = window, .targets = window});
  batch.Resize(size);
  for (int64_t i = 0; i < size * window; ++i) {
    batch.mutable_inputs()[i] =
        static_cast<int32_t>(CounterRandom(key, i) % vocabulary);
    batch.mutable_targets()[i] =
        static_cast<int32_t>(CounterRandom(key + 1, i) % vocabulary);
  }
  for (int64_t i = 0; i < size; ++i)
    batch.mutable_sample_ids()[i] = static_cast<int64_t>(1000 * key) + i;
  return batch;
}

Batch SmallBatch(int64_t size, uint64_t key) {
  return RandomBatch(size, kWindow, kVocabulary, key);
}

// The samples at `places` of `batch`.
Batch Pick(const Batch& batch, const std::vector<int64_t>& places) {
  const int64_t window = batch.shape().tokens;
  Batch picked(static_cast<int64_t>(places.size()), batch.shape());
  picked.Resize(picked.capacity());
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t from = places[i] * window;
    const int64_t to = static_cast<int64_t>(i) * window;
    std::copy_n(batch.inputs().data() + from, window,
                picked.mutable_inputs().data() + to);
    std::copy_n(batch.targets().data() + from, window,
                picked.mutable_targets().data() + to);
    picked.mutable_sample_ids()[i] = batch.sample_ids()[places[i]];
  }
  return picked;
}

// A model with the arenas that it works on.
template <typename T>
struct Instance {
  explicit Instance(const ModelConfig& config = kSmall, int64_t max_batch = 8,
                    int threads = 1, Precision precision = Precision::kFloat32)
      : pool(threads),
        model(*CreateModel<T>(config, {pool, precision}, max_batch)),
        plan(*Plan::Create(config.kind, model->specs(), {})),
        parameters(static_cast<size_t>(plan.total_elems())),
        gradients(parameters.size(), std::numeric_limits<T>::quiet_NaN()) {
    InitializeParameters<T>(plan, 1, absl::MakeSpan(parameters));
    EXPECT_TRUE(model->Bind(plan, parameters, absl::MakeSpan(gradients)).ok());
  }

  // Larger than the initial parameters, and no two alike: so that every part of
  // the model matters, and no mistake hides behind a bias of 0 or a gain of 1.
  void RandomizeParameters() {
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters[i] += static_cast<T>(UnitInterval(CounterRandom(99, i)) - 0.5);
  }
  double Train(const Batch& batch, double scale, uint64_t dropout_key = 0) {
    return model->ForwardBackward(
        batch, {.scale = scale, .dropout_key = dropout_key}, observer);
  }
  double Loss(const Batch& batch) { return model->Predict(batch).loss_sum; }

  ThreadPool pool;
  std::unique_ptr<Model<T>> model;
  Plan plan;
  std::vector<T> parameters;
  std::vector<T> gradients;
  RecordOrder observer;
};

// ||a - b|| / ||b||, without padding.
template <typename T, typename U>
double Distance(const Plan& plan, const std::vector<T>& a,
                const std::vector<U>& b) {
  double distance = 0;
  double length = 0;
  for (const PlannedTensor& tensor : plan.tensors()) {
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i) {
      distance += std::pow(static_cast<double>(a[i]) - b[i], 2);
      length += std::pow(static_cast<double>(b[i]), 2);
    }
  }
  return std::sqrt(distance / length);
}

TEST(GptTest, HasHuggingFacesTensorsInReverseExecutionOrder) {
  ThreadPool pool(1);
  const auto model = *CreateModel<float>(kSmall, {.pool = pool}, 1);
  std::vector<std::string> lines;
  for (const TensorSpec& spec : model->specs())
    lines.push_back(spec.name + " " + spec.shape.ToString());
  std::vector<std::string> want = {"transformer.ln_f.weight [8]",
                                   "transformer.ln_f.bias [8]"};
  for (const std::string block : {"transformer.h.1.", "transformer.h.0."}) {
    for (const char* tensor :
         {"mlp.c_proj.weight [32,8]", "mlp.c_proj.bias [8]",
          "mlp.c_fc.weight [8,32]", "mlp.c_fc.bias [32]", "ln_2.weight [8]",
          "ln_2.bias [8]", "attn.c_proj.weight [8,8]", "attn.c_proj.bias [8]",
          "attn.c_attn.weight [8,24]", "attn.c_attn.bias [24]",
          "ln_1.weight [8]", "ln_1.bias [8]"}) {
      want.push_back(block + tensor);
    }
  }
  want.push_back("transformer.wpe.weight [5,8]");
  want.push_back("transformer.wte.weight [11,8]");
  EXPECT_EQ(lines, want);
}

TEST(GptTest, InitialParametersAreGpt2s) {
  Instance<float> gpt(GptConfig(300, 64, 8, 2, 64));
  for (const PlannedTensor& tensor : gpt.plan.tensors()) {
    double squares = 0;
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
      squares += std::pow(gpt.parameters[i], 2);
    const std::string& name = tensor.spec.name;
    const double size =
        std::sqrt(squares / static_cast<double>(tensor.range.count));
    const bool is_projection = name.find("c_proj.weight") != std::string::npos;
    if (name.ends_with(".bias")) {
      EXPECT_EQ(size, 0) << name;
    } else if (name.find("ln_") != std::string::npos) {
      EXPECT_EQ(size, 1) << name;
    } else {
      const double want = is_projection ? 0.02 / 4 : 0.02;
      EXPECT_NEAR(size, want, 0.06 * want) << name;
    }
  }
}

// Compares gpt.gradients with central differences of `loss`, for every
// `stride`-th element.
void ExpectGradients(Instance<double>& gpt, int64_t stride,
                     const std::function<double()>& loss) {
  constexpr double kStep = 1e-5;
  const std::vector<double> gradients = gpt.gradients;
  int64_t nonzero = 0;
  for (const PlannedTensor& tensor : gpt.plan.tensors()) {
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); i += stride) {
      const double middle =
          std::exchange(gpt.parameters[i], gpt.parameters[i] + kStep);
      const double above = loss();
      gpt.parameters[i] = middle - kStep;
      const double below = loss();
      gpt.parameters[i] = middle;
      ASSERT_NEAR(gradients[i], 0.2 * (above - below) / (2 * kStep),
                  2e-8 * (1 + std::abs(gradients[i])))
          << tensor.spec.name << " at " << i - tensor.range.begin;
      nonzero += std::abs(gradients[i]) > 1e-4 ? 1 : 0;
    }
  }
  EXPECT_GT(nonzero, gpt.plan.parameter_count() / stride * 3 / 4);
}

TEST(GptTest, GradientsMatchFiniteDifferences) {
  Instance<double> gpt;
  gpt.RandomizeParameters();
  const Batch batch = SmallBatch(3, 7);
  gpt.Train(batch, 0.2);
  ExpectGradients(gpt, 1, [&] { return gpt.Loss(batch); });
}

TEST(GptTest, GradientsWithDropoutMatchFiniteDifferences) {
  Instance<double> gpt(kSmallDropping);
  gpt.RandomizeParameters();
  const Batch batch = SmallBatch(3, 7);
  gpt.Train(batch, 0.2, 5);
  ExpectGradients(gpt, 3, [&] { return gpt.Train(batch, 0.2, 5); });
}

TEST(GptTest, TellsEachTensorOnceInPlanOrderWhenItsGradientIsFinal) {
  for (const ModelConfig& config : {kSmall, kSmallDropping}) {
    Instance<float> gpt(config);
    const Batch batch = SmallBatch(5, 7);
    gpt.Train(batch, 1);
    EXPECT_EQ(gpt.observer.forward_done_at, 0u);
    ASSERT_EQ(gpt.observer.order.size(), gpt.plan.tensors().size());
    for (size_t i = 0; i < gpt.observer.order.size(); ++i)
      EXPECT_EQ(gpt.observer.order[i], static_cast<int>(i));

    // Destroying each gradient as soon as it is told must not change a later
    // one.
    class Destroy final : public GradientObserver {
     public:
      explicit Destroy(Instance<float>& gpt) : gpt_(gpt) {}
      void OnTensorDone(int tensor_index) override {
        const ElemRange range = gpt_.plan.tensors()[tensor_index].range;
        for (int64_t i = range.begin; i < range.end(); ++i) {
          seen.push_back(std::exchange(
              gpt_.gradients[i], std::numeric_limits<float>::quiet_NaN()));
        }
      }
      std::vector<float> seen;

     private:
      Instance<float>& gpt_;
    };
    std::vector<float> want;
    for (const PlannedTensor& tensor : gpt.plan.tensors()) {
      for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
        want.push_back(gpt.gradients[i]);
    }
    Destroy destroy(gpt);
    gpt.model->ForwardBackward(batch, {}, destroy);
    EXPECT_EQ(destroy.seen, want);
  }
}

TEST(GptTest, LeavesPaddingAlone) {
  Instance<float> gpt;
  gpt.Train(SmallBatch(2, 1), 1);
  int64_t written = 0;
  for (float gradient : gpt.gradients) written += !std::isnan(gradient);
  EXPECT_EQ(written, gpt.plan.parameter_count());
}

TEST(GptTest, EmptyBatchHasNoLossAndZeroGradients) {
  for (const ModelConfig& config : {kSmall, kSmallDropping}) {
    Instance<float> gpt(config);
    const Batch batch = SmallBatch(0, 1);
    EXPECT_EQ(gpt.Train(batch, 0.1), 0);
    EXPECT_EQ(gpt.Loss(batch), 0);
    EXPECT_EQ(gpt.observer.order.size(), gpt.plan.tensors().size());
    for (const PlannedTensor& tensor : gpt.plan.tensors()) {
      for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
        ASSERT_EQ(gpt.gradients[i], 0) << i;
    }
  }
}

TEST(GptTest, PartsOfABatchAddUpToTheWholeWithDropout) {
  const Batch whole = SmallBatch(8, 3);
  Instance<double> gpt(kSmallDropping);
  gpt.RandomizeParameters();
  const double loss = gpt.Train(whole, 1.0 / 8, 4);
  const std::vector<double> gradients = gpt.gradients;
  double sum_of_losses = 0;
  std::vector<double> sum(gradients.size());
  // In another order, too: neither place nor company matters to a sample.
  for (const std::vector<int64_t>& places :
       std::vector<std::vector<int64_t>>{{7, 2, 0}, {}, {1, 6, 5, 4, 3}}) {
    sum_of_losses += gpt.Train(Pick(whole, places), 1.0 / 8, 4);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += gpt.gradients[i];
  }
  EXPECT_NEAR(sum_of_losses, loss, 1e-11);
  EXPECT_LT(Distance(gpt.plan, sum, gradients), 1e-13);
}

TEST(GptTest, AddsTheGradientsOfMicroBatches) {
  const Batch whole = SmallBatch(8, 3);
  Instance<double> once(kSmallDropping);
  Instance<double> twice(kSmallDropping);
  const double loss = once.Train(whole, 0.5, 6);
  double parts = twice.Train(Pick(whole, {0, 1, 2}), 0.5, 6);
  for (const std::vector<int64_t>& places :
       std::vector<std::vector<int64_t>>{{}, {3, 4, 5, 6, 7}}) {
    parts += twice.model->ForwardBackward(
        Pick(whole, places),
        {.scale = 0.5, .write = Write::kAdd, .dropout_key = 6}, twice.observer);
  }
  EXPECT_NEAR(parts, loss, 1e-11);
  EXPECT_LT(Distance(once.plan, twice.gradients, once.gradients), 1e-13);
}

TEST(GptTest, DropoutIsAFunctionOfTheKeyAndIsOffInPrediction) {
  const Batch batch = SmallBatch(8, 3);
  Instance<double> gpt(kSmallDropping);
  Instance<double> plain(kSmall);
  const double loss = gpt.Train(batch, 1, 4);
  const std::vector<double> gradients = gpt.gradients;
  EXPECT_NE(gpt.Train(batch, 1, 5), loss);
  EXPECT_EQ(gpt.Train(batch, 1, 4), loss);
  EXPECT_EQ(std::memcmp(gpt.gradients.data(), gradients.data(),
                        gradients.size() * sizeof(double)),
            0);
  EXPECT_NE(loss, plain.Loss(batch));
  EXPECT_EQ(gpt.Loss(batch), plain.Loss(batch));
}

TEST(GptTest, FloatFollowsDouble) {
  Instance<float> fast(kMiddle);
  Instance<double> exact(kMiddle);
  const Batch batch = RandomBatch(4, 70, 300, 5);
  EXPECT_NEAR(fast.Train(batch, 1.0 / 280) / exact.Train(batch, 1.0 / 280), 1,
              1e-6);
  EXPECT_LT(Distance(exact.plan, fast.gradients, exact.gradients), 1e-5);
}

TEST(GptTest, BFloat16StaysCloseToFloat) {
  Instance<float> narrow(kMiddle, 4, 1, Precision::kBFloat16);
  Instance<float> wide(kMiddle, 4);
  const Batch batch = RandomBatch(4, 70, 300, 5);
  EXPECT_NEAR(narrow.Train(batch, 1.0 / 280) / wide.Train(batch, 1.0 / 280), 1,
              2e-3);
  EXPECT_LT(Distance(wide.plan, narrow.gradients, wide.gradients), 3e-2);
}

TEST(GptTest, RepeatsItselfBitForBitOnEveryPool) {
  const ModelConfig config = GptConfig(300, 70, 3, 3, 144, 0.1);
  const Batch batch = RandomBatch(4, 70, 300, 5);
  Instance<float> first(config, 4);
  const double loss = first.Train(batch, 1, 2);
  for (int threads : {1, 2, 3}) {
    Instance<float> again(config, 6, threads);
    // What it computed before must not matter.
    again.Train(RandomBatch(6, 70, 300, 6), 1, 3);
    EXPECT_EQ(again.Train(batch, 1, 2), loss) << threads;
    EXPECT_EQ(std::memcmp(first.gradients.data(), again.gradients.data(),
                          first.gradients.size() * sizeof(float)),
              0)
        << threads;
  }
}

TEST(GptTest, AllocatesNothingInAStep) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBFloat16}) {
    Instance<float> gpt(GptConfig(300, 70, 3, 3, 144, 0.1), 4, 1, precision);
    const Batch batch = RandomBatch(4, 70, 300, 5);
    gpt.Train(batch, 1);
    const int64_t before = AllocationCount();
    for (int step = 0; step < 2; ++step) {
      gpt.observer.order.clear();
      gpt.Train(batch, 1);
    }
    EXPECT_EQ(AllocationCount(), before) << static_cast<int>(precision);
    EXPECT_GT(before, 0);
  }
}

TEST(GptTest, FirstLossIsThatOfAGuess) {
  Instance<float> gpt(kMiddle);
  EXPECT_NEAR(gpt.Loss(RandomBatch(4, 70, 300, 5)) / 280, std::log(300), 0.1);
}

TEST(GptTest, LearnsABatchByHeart) {
  Instance<float> gpt;
  const Batch batch = SmallBatch(4, 3);
  const double before = gpt.Loss(batch);
  for (int step = 0; step < 300; ++step) {
    gpt.observer.order.clear();
    gpt.Train(batch, 1.0 / 20);
    for (const PlannedTensor& tensor : gpt.plan.tensors()) {
      for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
        gpt.parameters[i] -= 0.5f * gpt.gradients[i];
    }
  }
  EXPECT_LT(gpt.Loss(batch), 0.2 * before);
}

double CrossEntropy(absl::Span<const double> logits, int32_t target) {
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit);
  return std::log(sum) - logits[target];
}

// In the window, all places are predicted at once; a next token's logits come
// from the tokens before it alone. Were later tokens seen, or positions
// shifted, the two would differ.
TEST(GptTest, PredictsEachTokenFromThoseBeforeIt) {
  Instance<double> gpt;
  gpt.RandomizeParameters();
  const Batch batch = SmallBatch(2, 3);
  double loss_sum = 0;
  int64_t correct = 0;
  for (int64_t sample = 0; sample < 2; ++sample) {
    for (int64_t t = 0; t < kWindow; ++t) {
      const absl::Span<const double> logits = *gpt.model->NextTokenLogits(
          batch.inputs().subspan(sample * kWindow, t + 1));
      const int32_t target = batch.targets()[sample * kWindow + t];
      ASSERT_EQ(logits.size(), static_cast<size_t>(kVocabulary));
      loss_sum += CrossEntropy(logits, target);
      correct +=
          std::max_element(logits.begin(), logits.end()) - logits.begin() ==
                  target
              ? 1
              : 0;
    }
  }
  const Prediction prediction = gpt.model->Predict(batch);
  EXPECT_NEAR(prediction.loss_sum, loss_sum, 1e-11);
  EXPECT_EQ(prediction.correct, correct);
}

TEST(GptTest, CountsTheTargetsThatItPredicts) {
  Instance<float> gpt;
  gpt.RandomizeParameters();
  Batch batch = SmallBatch(2, 3);
  for (int64_t i = 0; i < 2 * kWindow; ++i) {
    const int64_t begin = i / kWindow * kWindow;
    const absl::Span<const float> logits = *gpt.model->NextTokenLogits(
        batch.inputs().subspan(begin, i - begin + 1));
    const auto best = std::max_element(logits.begin(), logits.end());
    // The first seven are predicted, the others are not.
    batch.mutable_targets()[i] = static_cast<int32_t>(
        (best - logits.begin() + (i < 7 ? 0 : 1)) % kVocabulary);
  }
  EXPECT_EQ(gpt.model->Predict(batch).correct, 7);
}

TEST(GptTest, ContinuesTextFromTheLastTokensThatItSees) {
  Instance<float> gpt;
  const auto logits = [&](const std::vector<int32_t>& context) {
    const absl::Span<const float> span = *gpt.model->NextTokenLogits(context);
    return std::vector<float>(span.begin(), span.end());
  };
  EXPECT_EQ(logits({7, 8, 9, 1, 2}), logits({3, 3, 7, 8, 9, 1, 2}));
  EXPECT_NE(logits({7, 8, 9, 1, 2}), logits({8, 7, 9, 1, 2}));
  EXPECT_NE(logits({7}), logits({0, 7}));
}

TEST(GptTest, DescribesItselfAsHuggingFaceDoes) {
  Instance<float> gpt(GptConfig(50257, 16, 2, 2, 8, 0.1), 1);
  const nlohmann::json config =
      nlohmann::json::parse(gpt.model->HuggingFaceConfig());
  EXPECT_EQ(config["architectures"], nlohmann::json({"GPT2LMHeadModel"}));
  EXPECT_EQ(config["model_type"], "gpt2");
  EXPECT_EQ(config["vocab_size"], 50257);
  EXPECT_EQ(config["n_positions"], 16);
  EXPECT_EQ(config["n_embd"], 8);
  EXPECT_EQ(config["n_layer"], 2);
  EXPECT_EQ(config["n_head"], 2);
  EXPECT_EQ(config["activation_function"], "gelu_new");
  EXPECT_EQ(config["layer_norm_epsilon"], 1e-5);
  EXPECT_EQ(config["resid_pdrop"], 0.1);
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_EQ(config["eos_token_id"], 50256);
  Instance<float> bytes(kSmall, 1);
  EXPECT_TRUE(nlohmann::json::parse(bytes.model->HuggingFaceConfig())
                  .at("eos_token_id")
                  .is_null());
}

TEST(GptTest, CountsOperationsAndParametersOfGpt2) {
  ThreadPool pool(1);
  const auto model = *CreateModel<float>(GptConfig(50257, 1024, 12, 12, 768),
                                         {.pool = pool}, 0);
  int64_t parameters = 0;
  for (const TensorSpec& spec : model->specs())
    parameters += spec.shape.num_elems();
  EXPECT_EQ(parameters, 124439808);
  const double products = 12 * 12 * 768.0 * 768 + 50257 * 768.0;
  EXPECT_EQ(model->flops_per_sample(),
            1024 * (6 * products + 6.0 * 12 * 768 * 1024));
  EXPECT_EQ(model->input().shape,
            (SampleShape{.tokens = 1024, .targets = 1024}));
  EXPECT_EQ(model->input().vocabulary, 50257);
  EXPECT_EQ(model->max_batch(), 0);
}

TEST(GptTest, BuffersGrowWithTheBatch) {
  ThreadPool pool(1);
  const auto bytes = [&](int64_t max_batch) {
    return (*CreateModel<float>(kMiddle, {.pool = pool}, max_batch))
        ->buffer_bytes();
  };
  // 16 rows of width for each of three blocks, at least.
  EXPECT_GT(bytes(8) - bytes(4), 4 * 70 * 3 * 16 * 144 * 4);
  EXPECT_LT(bytes(8) - bytes(4), 4 * 70 * 3 * 32 * 144 * 4);
}

TEST(GptTest, RefusesBadSettingsAndSaysWhy) {
  ThreadPool pool(1);
  const auto error = [&](const ModelConfig& config) {
    return std::string(
        CreateModel<float>(config, {.pool = pool}, 1).status().message());
  };
  EXPECT_EQ(error(GptConfig(11, 5, 2, 3, 8)),
            "model.gpt.width is 8, but must be a multiple of heads, which is "
            "3");
  EXPECT_EQ(error(GptConfig(0, 5, 2, 2, 8)),
            "model.gpt.vocabulary is 0, but must be a whole number in [1, "
            "1048576]");
  EXPECT_EQ(error(GptConfig(11, 5, 2, 2, 8, 1)),
            "model.gpt.dropout is 1, but must be in [0, 0.99]");
  EXPECT_EQ(CreateModel<float>(GptConfig(1 << 20, 4096, 256, 256, 16384),
                               {.pool = pool}, int64_t{1} << 20)
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(GptTest, BindRefusesAnotherPlan) {
  Instance<float> gpt;
  Instance<float> wider(GptConfig(kVocabulary, kWindow, 2, 2, 16));
  const absl::Status status = gpt.model->Bind(wider.plan, wider.parameters,
                                              absl::MakeSpan(wider.gradients));
  EXPECT_EQ(status.message(), "gpt: the plan was made for other tensors");
}

// What the model can see beyond a sample stays as it was.
TEST(GptTest, SamplesMayBeShorterThanTheWindow) {
  ModelConfig longer = GptConfig(kVocabulary, kWindow + 4, 2, 2, 8);
  longer.settings["sample_tokens"] = {kWindow};
  Instance<double> seen;
  Instance<double> more(longer);
  const Batch batch = SmallBatch(4, 7);
  const double loss = seen.model->ForwardBackward(batch, {}, seen.observer);
  EXPECT_EQ(more.model->ForwardBackward(batch, {}, more.observer), loss);
  for (const PlannedTensor& tensor : more.plan.tensors()) {
    if (tensor.spec.name != "transformer.wpe.weight") continue;
    const int64_t first_unseen = tensor.range.begin + kWindow * 8;
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
      EXPECT_EQ(more.gradients[i] == 0, i >= first_unseen) << i;
  }
  const std::vector<int32_t> context(kWindow + 4, 3);
  EXPECT_TRUE(more.model->NextTokenLogits(context).ok());
}

}  // namespace
}  // namespace ringmaster
