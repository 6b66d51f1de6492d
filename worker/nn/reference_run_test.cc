#include "worker/nn/testing/reference_run.h"

#include <cmath>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

ReferenceJob SmallJob() {
  return {.model = {.settings = {{"window", {4}},
                                 {"embedding_dim", {8}},
                                 {"hidden_dim", {32}},
                                 {"hidden_layers", {1}}}},
          .data = {.num_samples = 4096},
          .optimizer = {.learning_rate = 5e-3},
          .global_batch = 64};
}

TEST(ReferenceRunTest, LearnsTheHiddenRule) {
  const auto results = RunReference<float>(SmallJob(), {400});
  ASSERT_TRUE(results.ok()) << results.status();
  const std::vector<double>& losses = results->front().losses;
  ASSERT_EQ(losses.size(), 400u);
  EXPECT_NEAR(losses.front(), std::log(256), 0.3);
  EXPECT_LT(losses.back(), 2.0);  // frequencies alone would give ln 64 = 4.16
}

TEST(ReferenceRunTest, GivesTheStateAfterEachRequestedStep) {
  const auto results = RunReference<double>(SmallJob(), {0, 3, 5});
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 3u);
  EXPECT_EQ((*results)[0].losses.size(), 0u);
  EXPECT_EQ((*results)[2].losses.size(), 5u);
  // Longer runs pass through the same states.
  const auto three = RunReference<double>(SmallJob(), {3});
  EXPECT_EQ(three->front().parameters, (*results)[1].parameters);
  EXPECT_NE((*results)[1].parameters, (*results)[2].parameters);
}

TEST(ReferenceRunTest, FloatFollowsDouble) {
  const auto fast = RunReference<float>(SmallJob(), {10});
  const auto exact = RunReference<double>(SmallJob(), {10});
  ASSERT_TRUE(fast.ok() && exact.ok());
  ASSERT_EQ(fast->front().parameters.size(), exact->front().parameters.size());
  double worst = 0;
  for (size_t i = 0; i < exact->front().parameters.size(); ++i) {
    worst = std::max(worst, std::abs(fast->front().parameters[i] -
                                     exact->front().parameters[i]));
  }
  EXPECT_LT(worst, 2e-3);
  EXPECT_NEAR(fast->front().losses.back(), exact->front().losses.back(), 1e-4);
}

TEST(ReferenceRunTest, ClippingChangesTheRun) {
  ReferenceJob clipped = SmallJob();
  clipped.optimizer.clip_norm = 0.01;
  EXPECT_NE(RunReference<double>(clipped, {3})->front().parameters,
            RunReference<double>(SmallJob(), {3})->front().parameters);
}

TEST(ReferenceRunTest, RefusesBadJobs) {
  const absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(RunReference<double>(SmallJob(), {}).status().code(), kInvalid);
  EXPECT_EQ(RunReference<double>(SmallJob(), {2, 1}).status().code(), kInvalid);
  EXPECT_EQ(RunReference<double>(SmallJob(), {-1}).status().code(), kInvalid);
  ReferenceJob job = SmallJob();
  job.global_batch = 0;
  EXPECT_EQ(RunReference<double>(job, {1}).status().code(), kInvalid);
  job = SmallJob();
  job.optimizer.beta1 = 2;
  EXPECT_EQ(RunReference<double>(job, {1}).status().code(), kInvalid);
  job = SmallJob();
  job.model.settings["window"] = {0};
  EXPECT_EQ(RunReference<double>(job, {1}).status().code(), kInvalid);
}

}  // namespace
}  // namespace ringmaster
