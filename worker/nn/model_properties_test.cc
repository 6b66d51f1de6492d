// Checks the promises of model.h for each registered model. Properties of a
// single model are in a test of its own.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "worker/nn/model.h"
#include "worker/nn/testing/allocation_counter.h"
#include "worker/nn/testing/model_testing.h"
#include "worker/nn/testing/operator_testing.h"

namespace ringmaster {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct ModelCase {
  const char* name;
  // Few enough parameters for finite differences of each.
  ModelConfig small;
  // Wide enough for blocked kernels, with sizes that fill no block.
  ModelConfig middle;
  // Every size at its least.
  ModelConfig smallest;
  // Short where a rectifier or a maximum could change its mind on the way.
  double step = 1e-5;

  bool has_dropout() const { return small.settings.contains("dropout"); }
  // Evaluation normalizes by other statistics than training.
  bool has_running_statistics() const { return small.kind == "resnet"; }
  bool trains_on_another_loss() const {
    return has_dropout() || has_running_statistics();
  }
};

using Settings = ModelConfig::Settings;

Settings Gpt(double vocabulary, double window, double layers, double heads,
             double width) {
  return {{"vocabulary", {vocabulary}},
          {"window", {window}},
          {"layers", {layers}},
          {"heads", {heads}},
          {"width", {width}}};
}

Settings With(Settings settings, const std::string& name, double value) {
  settings[name] = {value};
  return settings;
}

Settings Llama(double vocabulary, double window, double heads, double kv_heads,
               double width, double hidden) {
  return {{"vocabulary", {vocabulary}},
          {"window", {window}},
          {"layers", {2}},
          {"heads", {heads}},
          {"kv_heads", {kv_heads}},
          {"width", {width}},
          {"hidden", {hidden}}};
}

Settings Bert(double vocabulary, double window, double layers, double heads,
              double width, double hidden) {
  return {{"vocabulary", {vocabulary}}, {"window", {window}},
          {"layers", {layers}},         {"heads", {heads}},
          {"width", {width}},           {"hidden", {hidden}}};
}

// Samples of one or two texts, which a separator ends, and padding.
Settings BertOfClasses(Settings settings, double classes, double roberta) {
  settings["classes"] = {classes};
  settings["roberta"] = {roberta};
  settings["separator"] = {roberta == 1 ? 0.0 : 2.0};
  return settings;
}

Settings Mlp(double window, double embedding_dim, double hidden_dim,
             double hidden_layers) {
  return {{"window", {window}},
          {"embedding_dim", {embedding_dim}},
          {"hidden_dim", {hidden_dim}},
          {"hidden_layers", {hidden_layers}}};
}

Settings Bigram(double vocabulary, double window, double embedding_dim) {
  return {{"vocabulary", {vocabulary}},
          {"window", {window}},
          {"embedding_dim", {embedding_dim}}};
}

Settings Cnn(double height, double width, double channels, double classes,
             std::vector<double> filters, double hidden_dim) {
  return {{"height", {height}},     {"width", {width}},
          {"channels", {channels}}, {"classes", {classes}},
          {"filters", filters},     {"hidden_dim", {hidden_dim}}};
}

// Of norms over each sample: what samples have in common would depend on the
// batch.
Settings Resnet(double depth, double height, double width, double channels,
                double classes, double filters, double norm_group = 1) {
  return {{"depth", {depth}},          {"height", {height}},
          {"width", {width}},          {"channels", {channels}},
          {"classes", {classes}},      {"filters", {filters}},
          {"norm_group", {norm_group}}};
}

std::vector<ModelCase> AllModels() {
  const Settings gpt_small = Gpt(11, 5, 2, 2, 8);
  const Settings gpt_middle = Gpt(300, 70, 3, 3, 144);
  const ModelConfig gpt_smallest = {"gpt", Gpt(1, 1, 1, 1, 1)};
  const Settings bert_small = Bert(11, 7, 2, 2, 8, 12);
  const Settings bert_middle = Bert(300, 70, 3, 3, 144, 200);
  const Settings bert_smallest = Bert(1, 1, 1, 1, 1, 1);
  return {
      {"bert",
       {"bert", bert_small},
       {"bert", bert_middle},
       {"bert", bert_smallest}},
      {"roberta_with_dropout",
       {"bert", With(With(bert_small, "roberta", 1), "dropout", 0.2)},
       {"bert", With(With(bert_middle, "roberta", 1), "dropout", 0.1)},
       {"bert", With(bert_smallest, "dropout", 0.99)}},
      {"bert_of_classes",
       {"bert", BertOfClasses(bert_small, 3, 0)},
       {"bert", BertOfClasses(bert_middle, 5, 0)},
       {"bert", With(bert_smallest, "classes", 1)}},
      {"roberta_of_classes_with_dropout_and_short_samples",
       {"bert", With(With(BertOfClasses(bert_small, 3, 1), "dropout", 0.2),
                     "sample_tokens", 5)},
       {"bert", With(With(BertOfClasses(bert_middle, 2, 1), "dropout", 0.1),
                     "sample_tokens", 67)},
       {"bert",
        With(With(BertOfClasses(Bert(2, 1, 1, 1, 1, 1), 1, 1), "dropout", 0.99),
             "sample_tokens", 1)}},
      {"bigram",
       {"bigram", Bigram(7, 5, 3)},
       {"bigram", Bigram(300, 70, 50)},
       {"bigram", Bigram(1, 1, 1)}},
      {"cnn",
       {"cnn", Cnn(7, 6, 2, 4, {3, 5}, 6)},
       {"cnn", {}},
       {"cnn", Cnn(2, 2, 1, 1, {1}, 1)},
       1e-6},
      {"gpt", {"gpt", gpt_small}, {"gpt", gpt_middle}, gpt_smallest},
      {"gpt_with_dropout",
       {"gpt", With(gpt_small, "dropout", 0.2)},
       {"gpt", With(gpt_middle, "dropout", 0.1)},
       {"gpt", With(gpt_smallest.settings, "dropout", 0.99)}},
      {"gpt_with_short_samples",
       {"gpt", With(gpt_small, "sample_tokens", 3)},
       {"gpt", With(gpt_middle, "sample_tokens", 67)},
       gpt_smallest},
      {"llama",
       {"llama", Llama(11, 5, 4, 2, 16, 12)},
       {"llama", Llama(300, 70, 3, 1, 144, 200)},
       {"llama", Llama(1, 1, 1, 1, 2, 1)}},
      {"llama_tied_with_short_samples",
       {"llama",
        With(With(Llama(11, 5, 2, 2, 8, 12), "tied", 1), "sample_tokens", 3)},
       {"llama", With(With(Llama(300, 70, 3, 3, 144, 200), "tied", 1),
                      "sample_tokens", 67)},
       {"llama", With(Llama(1, 1, 1, 1, 2, 1), "tied", 1)}},
      {"mlp",
       {"mlp", Mlp(3, 4, 10, 2)},
       {"mlp", Mlp(8, 16, 72, 3)},
       {"mlp", Mlp(1, 1, 1, 1)}},
      {"resnet",
       {"resnet", Resnet(10, 33, 34, 1, 4, 1)},
       {"resnet", Resnet(18, 72, 68, 3, 10, 8, 0)},
       {"resnet", Resnet(10, 1, 33, 1, 1, 1)},
       1e-6},
      {"resnet_of_bottlenecks",
       {"resnet", Resnet(14, 65, 40, 1, 3, 1)},
       {"resnet", Resnet(14, 72, 68, 3, 10, 8, 0)},
       {"resnet", Resnet(14, 1, 33, 1, 1, 1)},
       1e-6},
  };
}

class ModelPropertiesTest : public ::testing::TestWithParam<ModelCase> {};

INSTANTIATE_TEST_SUITE_P(Models, ModelPropertiesTest,
                         ::testing::ValuesIn(AllModels()),
                         [](const auto& info) { return info.param.name; });

bool ContinuesText(ModelInstance<float>& run) {
  return run.model->NextTokenLogits({0}).ok();
}

// ||a - b|| / ||b||; NaN if either has one.
template <typename T, typename U>
double Distance(const std::vector<T>& a, const std::vector<U>& b) {
  double distance = 0;
  double length = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    distance += std::pow(static_cast<double>(a[i]) - b[i], 2);
    length += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(distance / length);
}

template <typename T>
bool HasSameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

TEST_P(ModelPropertiesTest, GradientsMatchFiniteDifferences) {
  ModelInstance<double> run(GetParam().small);
  run.RandomizeParameters();
  const Batch batch = run.RandomBatch(5, 7);
  // Dropout is a function of the key, so that the loss stays one of the
  // parameters.
  const TrainOptions options = {
      .scale = 0.2, .label_smoothing = 0.1, .dropout_key = 5};
  const auto loss = [&] { return run.Train(batch, options); };
  run.Train(batch, options);
  const std::vector<double> gradients = run.gradients;
  const double step = GetParam().step;
  int64_t nonzero = 0;
  for (const PlannedTensor& tensor : run.plan.tensors()) {
    if (tensor.spec.tracking_rate != 0) continue;
    const int64_t nonzero_before = nonzero;
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i) {
      const double middle =
          std::exchange(run.parameters[i], run.parameters[i] + step);
      const double above = loss();
      run.parameters[i] = middle - step;
      const double below = loss();
      run.parameters[i] = middle;
      ASSERT_NEAR(gradients[i], 0.2 * (above - below) / (2 * step),
                  2e-8 * (1 + std::abs(gradients[i])))
          << tensor.spec.name << " at " << i - tensor.range.begin;
      nonzero += std::abs(gradients[i]) > 1e-4 ? 1 : 0;
    }
    // A bias of keys moves all scores of a query alike, which changes nothing.
    if (!absl::EndsWith(tensor.spec.name, ".self.key.bias")) {
      EXPECT_GT(nonzero, nonzero_before) << tensor.spec.name;
    }
  }
  EXPECT_GT(nonzero, run.plan.parameter_count() / 4);
}

TEST_P(ModelPropertiesTest, PredictsTheLossThatItTrainsOn) {
  ModelInstance<double> run(GetParam().small);
  const Batch batch = run.RandomBatch(5, 7);
  const double predicted = run.Loss(batch);
  const double trained = run.Train(batch);
  if (GetParam().trains_on_another_loss()) {
    EXPECT_NE(predicted, trained);
  } else {
    EXPECT_NEAR(predicted, trained, 1e-12 * trained);
  }
}

TEST_P(ModelPropertiesTest,
       TellsEachTensorOnceInPlanOrderWhenItsGradientIsFinal) {
  ModelInstance<float> run(GetParam().small);
  const Batch batch = run.RandomBatch(5, 7);
  run.Train(batch);
  EXPECT_EQ(run.observer.forward_done_at, 0u);
  ASSERT_EQ(run.observer.order.size(), run.plan.tensors().size());
  for (size_t i = 0; i < run.observer.order.size(); ++i)
    EXPECT_EQ(run.observer.order[i], static_cast<int>(i));

  // Destroying each gradient as soon as it is reported must not change a later
  // one.
  class Destroy final : public GradientObserver {
   public:
    explicit Destroy(ModelInstance<float>& run) : run_(run) {}
    void OnTensorDone(int tensor_index) override {
      const ElemRange range = run_.plan.tensors()[tensor_index].range;
      for (int64_t i = range.begin; i < range.end(); ++i) {
        seen.push_back(
            std::exchange(run_.gradients[i], static_cast<float>(kNan)));
      }
    }
    std::vector<float> seen;

   private:
    ModelInstance<float>& run_;
  };
  const std::vector<float> want = run.Gradients();
  Destroy destroy(run);
  run.model->ForwardBackward(batch, {}, destroy);
  EXPECT_EQ(destroy.seen, want);
}

TEST_P(ModelPropertiesTest, WritesAllGradientsAndLeavesPaddingAlone) {
  ModelInstance<float> run(GetParam().small);
  run.Train(run.RandomBatch(2, 1));
  const auto written = std::count_if(run.gradients.begin(), run.gradients.end(),
                                     [](float x) { return !std::isnan(x); });
  int64_t elems = 0;
  for (const PlannedTensor& tensor : run.plan.tensors())
    elems += tensor.range.count;
  EXPECT_EQ(written, elems);
  EXPECT_LT(written, static_cast<int64_t>(run.gradients.size()));
}

TEST_P(ModelPropertiesTest, EmptyBatchHasNoLossAndZeroGradients) {
  for (const int64_t max_batch : {0, 8}) {
    ModelInstance<float> run(GetParam().small, max_batch);
    const Batch batch = run.RandomBatch(0, 1);
    EXPECT_EQ(run.model->max_batch(), max_batch);
    EXPECT_EQ(run.Train(batch, {.scale = 0.1}), 0);
    const Prediction prediction = run.model->Predict(batch);
    EXPECT_EQ(prediction.loss_sum, 0);
    EXPECT_EQ(prediction.correct, 0);
    EXPECT_EQ(run.observer.order.size(), run.plan.tensors().size());
    EXPECT_EQ(run.Gradients(),
              std::vector<float>(run.Gradients().size(), 0.0f));
  }
}

TEST_P(ModelPropertiesTest, SamplesWithClassesHaveOutcomes) {
  ModelInstance<float> run(GetParam().small);
  const Batch batch = run.RandomBatch(3, 1);
  const Prediction prediction = run.model->Predict(batch);
  if (run.model->input().sample_classes() == 0) {
    EXPECT_TRUE(prediction.outcomes.empty());
    return;
  }
  ASSERT_EQ(prediction.outcomes.size(), 3u);
  int64_t correct = 0;
  for (size_t i = 0; i < 3; ++i) {
    const ClassOutcome& outcome = prediction.outcomes[i];
    EXPECT_EQ(outcome.predicted == batch.targets()[i], outcome.rivals == 0);
    correct += outcome.rivals == 0 ? 1 : 0;
  }
  EXPECT_EQ(correct, prediction.correct);
}

TEST_P(ModelPropertiesTest, EmptyMicroBatchAddsNothing) {
  ModelInstance<float> run(GetParam().small);
  run.Train(run.RandomBatch(3, 1));
  const std::vector<float> want = run.Gradients();
  run.Train(run.RandomBatch(0, 1), {.write = Write::kAdd});
  EXPECT_EQ(run.Gradients(), want);
}

TEST_P(ModelPropertiesTest, PartsOfABatchAddUpToTheWhole) {
  ModelInstance<double> run(GetParam().small);
  run.RandomizeParameters();
  const Batch whole = run.RandomBatch(8, 3);
  const TrainOptions options = {.scale = 1.0 / 8, .dropout_key = 4};
  const double loss = run.Train(whole, options);
  const std::vector<double> gradients = run.Gradients();
  double sum_of_losses = 0;
  std::vector<double> sum(gradients.size());
  // The order may differ too: a sample depends neither on its place nor on the
  // others.
  for (const std::vector<int64_t>& places :
       std::vector<std::vector<int64_t>>{{7, 2, 0}, {}, {1, 6, 5, 4, 3}}) {
    sum_of_losses += run.Train(PickSamples(whole, places), options);
    const std::vector<double> part = run.Gradients();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  EXPECT_NEAR(sum_of_losses, loss, 1e-12 * loss);
  EXPECT_LT(Distance(sum, gradients), 1e-13);
}

TEST_P(ModelPropertiesTest, AddsTheGradientsOfMicroBatches) {
  ModelInstance<double> once(GetParam().small);
  ModelInstance<double> parts(GetParam().small);
  const Batch whole = once.RandomBatch(8, 3);
  TrainOptions options = {.scale = 0.5, .dropout_key = 6};
  const double loss = once.Train(whole, options);
  double sum_of_losses = 0;
  for (const std::vector<int64_t>& places :
       std::vector<std::vector<int64_t>>{{0, 1, 2}, {}, {3, 4, 5, 6, 7}}) {
    sum_of_losses += parts.Train(PickSamples(whole, places), options);
    options.write = Write::kAdd;
  }
  EXPECT_NEAR(sum_of_losses, loss, 1e-12 * loss);
  EXPECT_LT(Distance(parts.Gradients(), once.Gradients()), 1e-13);
}

TEST_P(ModelPropertiesTest, FloatFollowsDouble) {
  ModelInstance<float> fast(GetParam().middle);
  ModelInstance<double> exact(GetParam().middle);
  const Batch batch = exact.RandomBatch(8, 5);
  EXPECT_NEAR(fast.Train(batch) / exact.Train(batch), 1, 1e-6);
  EXPECT_LT(Distance(fast.Gradients(), exact.Gradients()),
            GetParam().has_running_statistics() ? 5e-5 : 1e-5);
}

TEST_P(ModelPropertiesTest, BFloat16StaysCloseToFloat) {
  ModelInstance<float> narrow(GetParam().middle, 8, 1, Precision::kBFloat16);
  ModelInstance<float> wide(GetParam().middle);
  const Batch batch = wide.RandomBatch(8, 5);
  EXPECT_NEAR(narrow.Train(batch) / wide.Train(batch), 1, 2e-3);
  const double distance = Distance(narrow.Gradients(), wide.Gradients());
  // A norm's gradient is what is left of a difference, and rectifiers change
  // their mind.
  EXPECT_LT(distance, GetParam().has_running_statistics() ? 0.2 : 3e-2);
  EXPECT_GT(distance, 1e-4) << "the precision makes no difference";
}

TEST_P(ModelPropertiesTest, RepeatsItselfBitForBitOnEveryPool) {
  ModelInstance<float> first(GetParam().middle, 3);
  const Batch batch = first.RandomBatch(3, 5);
  const double loss = first.Train(batch, {.dropout_key = 2});
  const double predicted = first.Loss(batch);
  for (int threads : {1, 2, 3}) {
    ModelInstance<float> again(GetParam().middle, 4, threads);
    // Its earlier computations must not matter.
    again.Train(again.RandomBatch(4, 6), {.dropout_key = 3});
    again.Loss(again.RandomBatch(2, 7));
    (void)again.model->NextTokenLogits({0});
    EXPECT_EQ(again.Train(batch, {.dropout_key = 2}), loss) << threads;
    EXPECT_TRUE(HasSameBits(again.gradients, first.gradients)) << threads;
    EXPECT_EQ(again.Loss(batch), predicted) << threads;
  }
}

TEST_P(ModelPropertiesTest, AllocatesNothingInAStep) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBFloat16}) {
    ModelInstance<float> run(GetParam().middle, 2, 1, precision);
    const Batch batch = run.RandomBatch(2, 5);
    const bool continues_text = ContinuesText(run);
    const auto step = [&] {
      run.Train(batch);
      run.Train(batch, {.write = Write::kAdd});
      run.Loss(batch);
      if (continues_text) (void)run.model->NextTokenLogits(batch.inputs());
    };
    step();
    const int64_t before = AllocationCount();
    step();
    EXPECT_EQ(AllocationCount(), before) << static_cast<int>(precision);
    EXPECT_GT(before, 0);
  }
}

TEST_P(ModelPropertiesTest, FirstLossIsThatOfAGuess) {
  ModelInstance<float> run(GetParam().middle, 16);
  const Batch batch = run.RandomBatch(16, 5);
  // With batch norms features have the size of 1 at first, so logits vary.
  const bool has_norms = GetParam().has_running_statistics();
  const double loss = has_norms ? run.Train(batch) : run.Loss(batch);
  EXPECT_NEAR(loss / static_cast<double>(batch.targets().size()),
              std::log(run.model->input().outcomes()), has_norms ? 0.5 : 0.1);
}

TEST_P(ModelPropertiesTest, ANanParameterShowsInTheLoss) {
  ModelInstance<float> run(GetParam().small);
  const Batch batch = run.RandomBatch(2, 1);
  for (const PlannedTensor& tensor : run.plan.tensors()) {
    const std::vector<float> parameters = run.parameters;
    std::fill_n(run.parameters.begin() + tensor.range.begin, tensor.range.count,
                static_cast<float>(kNan));
    EXPECT_FALSE(std::isfinite(run.Loss(batch))) << tensor.spec.name;
    const double trained = run.Train(batch);
    if (tensor.spec.tracking_rate == 0) {
      EXPECT_FALSE(std::isfinite(trained)) << tensor.spec.name;
    } else {
      // It shows in what is to be reduced.
      EXPECT_TRUE(std::isnan(run.gradients[tensor.range.begin]));
    }
    run.parameters = parameters;
  }
  // The NaN goes when the parameter does.
  EXPECT_TRUE(std::isfinite(run.Train(batch)));
  const std::vector<float> gradients = run.Gradients();
  EXPECT_TRUE(std::all_of(gradients.begin(), gradients.end(),
                          [](float x) { return std::isfinite(x); }));
}

TEST_P(ModelPropertiesTest, BindRefusesAnotherPlanOrSpansOfTheWrongSize) {
  ModelInstance<float> run(GetParam().small);
  ModelInstance<float> other(GetParam().middle, 1);
  const Batch batch = run.RandomBatch(2, 1);
  const double loss = run.Loss(batch);
  EXPECT_EQ(
      run.model
          ->Bind(other.plan, other.parameters, absl::MakeSpan(other.gradients))
          .message(),
      GetParam().small.kind + ": the plan was made for other tensors");
  const absl::Span<const float> parameters = run.parameters;
  const absl::Span<float> gradients = absl::MakeSpan(run.gradients);
  EXPECT_EQ(run.model->Bind(run.plan, parameters, gradients.subspan(1)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(run.model->Bind(run.plan, parameters.subspan(1), gradients).code(),
            absl::StatusCode::kInvalidArgument);
  // It stays bound as it was.
  EXPECT_EQ(run.Loss(batch), loss);
}

TEST_P(ModelPropertiesTest, NextTokenLogitsDisturbNothingAndAreNotDisturbed) {
  ModelInstance<float> run(GetParam().small);
  if (!ContinuesText(run)) {
    EXPECT_EQ(run.model->NextTokenLogits({1}).status().code(),
              absl::StatusCode::kFailedPrecondition);
    return;
  }
  const auto logits = [&](const std::vector<int32_t>& context) {
    const absl::Span<const float> span = *run.model->NextTokenLogits(context);
    return std::vector<float>(span.begin(), span.end());
  };
  const std::vector<int32_t> context = {1, 5, 2, 6, 0, 3, 4};
  const std::vector<float> before = logits(context);
  EXPECT_EQ(before.size(), static_cast<size_t>(run.model->input().vocabulary));
  EXPECT_NE(logits({3}), before);
  run.Train(run.RandomBatch(8, 1));
  const std::vector<float> gradients = run.Gradients();
  run.Loss(run.RandomBatch(8, 2));
  EXPECT_EQ(logits(context), before);
  EXPECT_EQ(run.Gradients(), gradients);
}

// Of two contexts, of which the second one begins with the first.
TEST_P(ModelPropertiesTest, NextTokenLogitsAreOfTheParametersAsTheyAre) {
  ModelInstance<float> run(GetParam().small);
  if (!ContinuesText(run)) return;
  ModelInstance<float> anew(GetParam().small);
  const auto logits = [](ModelInstance<float>& of,
                         const std::vector<int32_t>& context) {
    const absl::Span<const float> span = *of.model->NextTokenLogits(context);
    return std::vector<float>(span.begin(), span.end());
  };
  const auto bind = [](ModelInstance<float>& of) {
    ASSERT_TRUE(
        of.model->Bind(of.plan, of.parameters, absl::MakeSpan(of.gradients))
            .ok());
  };
  const auto change = [&] {
    for (float& parameter : run.parameters) parameter *= 1.25f;
  };
  const Batch batch = run.RandomBatch(2, 1);
  const std::function<void()> between[] = {[&] {
                                             run.Train(batch);
                                             change();
                                           },
                                           [&] {
                                             run.Loss(batch);
                                             change();
                                           },
                                           [&] {
                                             change();
                                             bind(run);
                                           },
                                           [&] {
                                             change();
                                             run.model->ForgetContext();
                                           }};
  for (const auto& step : between) {
    logits(run, {1});
    step();
    anew.parameters = run.parameters;
    bind(anew);
    EXPECT_EQ(logits(run, {1, 5}), logits(anew, {1, 5}));
  }
  // What is known counts: it is as if it had been computed now.
  logits(run, {1});
  EXPECT_LE(RelativeError(logits(run, {1, 5}), logits(anew, {1, 5})), 1e-5);
}

TEST_P(ModelPropertiesTest, RunsAtItsSmallestSizes) {
  ModelInstance<float> run(GetParam().smallest, 1);
  const Batch batch = run.RandomBatch(1, 3);
  const double loss = run.Train(batch);
  EXPECT_EQ(run.model->Predict(batch).loss_sum, loss);
  if (run.model->input().outcomes() == 1) {
    EXPECT_EQ(loss, 0);
    EXPECT_EQ(run.model->Predict(batch).correct, 1);
  }
  const std::vector<float> gradients = run.Gradients();
  EXPECT_TRUE(std::all_of(gradients.begin(), gradients.end(),
                          [](float x) { return std::isfinite(x); }));
}

TEST_P(ModelPropertiesTest, BuffersGrowWithTheBatch) {
  const auto bytes = [&](int64_t max_batch) {
    return ModelInstance<float>(GetParam().small, max_batch)
        .model->buffer_bytes();
  };
  const int64_t sixteen = bytes(32) - bytes(16);
  EXPECT_GT(sixteen, 0);
  // Less in a model of convolutions as products, whose scratch for some samples
  // at a time is enough for all.
  const double least = GetParam().has_running_statistics() ? 0.5 : 1.5;
  EXPECT_GT(bytes(64) - bytes(32), least * sixteen);
  EXPECT_LT(bytes(64) - bytes(32), 2.5 * sixteen);
}

}  // namespace
}  // namespace ringmaster
