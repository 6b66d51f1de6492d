#include "worker/train/output/text_sampler.h"

#include <cmath>
#include <limits>

#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/nn/initialize.h"
#include "worker/nn/model_registry.h"

namespace ringmaster {
namespace {

TEST(DrawTokenTest, TakesTheMostProbableWithoutTemperature) {
  EXPECT_EQ(DrawToken({1, 5, 3, 5}, 0, 0, 0.99), 1);
}

TEST(DrawTokenTest, DrawsEachTokenAsOftenAsItsProbability) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f),
                                     std::log(5.0f)};
  std::vector<int> counts(3);
  for (int i = 0; i < 800; ++i) ++counts[DrawToken(logits, 1, 0, i / 800.0)];
  EXPECT_NEAR(counts[0], 100, 2);
  EXPECT_NEAR(counts[1], 200, 2);
  EXPECT_NEAR(counts[2], 500, 2);
}

TEST(DrawTokenTest, LeavesOutAllButTheTopTokens) {
  for (int i = 0; i < 100; ++i)
    EXPECT_NE(DrawToken({1, 0, 1.5}, 1, 2, i / 100.0), 1);
}

TEST(DrawTokenTest, KnowsWhenNothingCanBeDrawn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(DrawToken({1, nan}, 1, 0, 0), -1);
  EXPECT_EQ(DrawToken({-infinity, -infinity}, 1, 0, 0), -1);
  EXPECT_EQ(DrawToken({1, infinity}, 1, 0, 0), -1);
}

class TextSamplerTest : public ::testing::Test {
 protected:
  TextSamplerTest()
      : model_(*CreateModel<float>(config_, {.pool = pool_}, 1)),
        plan_(*Plan::Create(config_.kind, model_->specs(), {})),
        parameters_(static_cast<size_t>(plan_.total_elems())),
        gradients_(parameters_.size()) {
    InitializeParameters<float>(plan_, 1, absl::MakeSpan(parameters_));
    EXPECT_TRUE(
        model_->Bind(plan_, parameters_, absl::MakeSpan(gradients_)).ok());
  }

  const ModelConfig config_ = {.settings = {{"window", {4}}}};
  ThreadPool pool_{1};
  std::unique_ptr<Model<float>> model_;
  Plan plan_;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
  CancelToken cancel_;
};

TEST_F(TextSamplerTest, WritesTheSameForTheSameKey) {
  const auto sampler =
      *TextSampler::Create({.prompt = "ab", .bytes = 40}, "", "", 256);
  const std::string text = *sampler->Write(*model_, 7, cancel_);
  EXPECT_EQ(text.size(), 40u);
  EXPECT_EQ(*sampler->Write(*model_, 7, cancel_), text);
  EXPECT_NE(*sampler->Write(*model_, 8, cancel_), text);
}

TEST_F(TextSamplerTest, EndsWhenItIsCancelled) {
  const auto sampler =
      *TextSampler::Create({.prompt = "ab", .bytes = 40}, "", "", 256);
  cancel_.Cancel("halted");
  EXPECT_EQ(sampler->Write(*model_, 7, cancel_).status().code(),
            absl::StatusCode::kAborted);
}

TEST_F(TextSamplerTest, EndsEarlyWhereItIsEnough) {
  const auto sampler =
      *TextSampler::Create({.prompt = "ab", .bytes = 40}, "", "", 256);
  const std::string whole = *sampler->Write(*model_, 7, cancel_);
  int tokens = 0;
  const std::string part =
      *sampler->Write(*model_, 7, cancel_, [&] { return tokens++ == 5; });
  EXPECT_EQ(part, whole.substr(0, 5));
}

TEST_F(TextSamplerTest, SaysThatTheModelHasDiverged) {
  const auto sampler =
      *TextSampler::Create({.prompt = "ab", .bytes = 40}, "", "", 256);
  parameters_.assign(parameters_.size(),
                     std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(sampler->Write(*model_, 7, cancel_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(TextSamplerCreateTest, RefusesWhatCannotWork) {
  EXPECT_EQ(TextSampler::Create({}, "", "", 256).status().message(),
            "the prompt must not be empty");
  EXPECT_EQ(TextSampler::Create({.prompt = "a"}, "", "", 64).status().message(),
            "the model has 64 tokens, but text needs 256");
  EXPECT_EQ(TextSampler::Create({.prompt = "a"}, "/nowhere", "/nowhere", 256)
                .status()
                .code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ringmaster
