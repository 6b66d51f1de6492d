#include "common/optimizer/optimizer_spec.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

v1::OptimizerSpec Adamw() {
  v1::OptimizerSpec spec;
  v1::AdamwSpec& adamw = *spec.mutable_adamw();
  adamw.set_learning_rate(0.5);
  adamw.set_beta1(0.8);
  adamw.set_beta2(0.9);
  adamw.set_epsilon(1e-6);
  adamw.set_weight_decay(0.25);
  adamw.set_clip_norm(3);
  adamw.set_decay_matrices_only(true);
  return spec;
}

TEST(ParseOptimizerTest, TranslatesAdamw) {
  const auto config = ParseOptimizer(Adamw());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config, OptimizerConfig({.kind = "adamw",
                                      .learning_rate = 0.5,
                                      .beta1 = 0.8,
                                      .beta2 = 0.9,
                                      .epsilon = 1e-6,
                                      .weight_decay = 0.25,
                                      .decay_matrices_only = true,
                                      .clip_norm = 3}));
}

TEST(ParseOptimizerTest, TranslatesSgdAndTheSchedule) {
  v1::OptimizerSpec spec;
  v1::SgdSpec& sgd = *spec.mutable_sgd();
  sgd.set_learning_rate(0.1);
  sgd.set_momentum(0.9);
  sgd.set_nesterov(true);
  spec.mutable_schedule()->set_kind(v1::SCHEDULE_KIND_COSINE);
  spec.mutable_schedule()->set_warmup_steps(7);
  spec.mutable_schedule()->set_final_ratio(0.25);
  spec.set_layer_decay(0.75);
  const auto config = ParseOptimizer(spec);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config, OptimizerConfig({.kind = "sgd",
                                      .learning_rate = 0.1,
                                      .momentum = 0.9,
                                      .nesterov = true,
                                      .weight_decay = 0,
                                      .schedule = {.kind = "cosine",
                                                   .warmup_steps = 7,
                                                   .final_ratio = 0.25},
                                      .layer_decay = 0.75}));
}

TEST(ParseOptimizerTest, TranslatesEachScheduleKind) {
  const std::pair<v1::ScheduleKind, const char*> kinds[] = {
      {v1::SCHEDULE_KIND_UNSPECIFIED, "constant"},
      {v1::SCHEDULE_KIND_CONSTANT, "constant"},
      {v1::SCHEDULE_KIND_COSINE, "cosine"},
      {v1::SCHEDULE_KIND_LINEAR, "linear"},
      {v1::SCHEDULE_KIND_WSD, "wsd"}};
  for (const auto& [kind, name] : kinds) {
    v1::OptimizerSpec spec = Adamw();
    const int64_t decay = kind == v1::SCHEDULE_KIND_WSD ? 5 : 0;
    spec.mutable_schedule()->set_kind(kind);
    spec.mutable_schedule()->set_decay_steps(decay);
    const auto config = ParseOptimizer(spec);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->schedule.kind, name);
    EXPECT_EQ(config->schedule.decay_steps, decay);
  }
}

TEST(ParseOptimizerTest, RefusesNoneAndWhatIsNotValid) {
  absl::Status status = ParseOptimizer(v1::OptimizerSpec()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("adamw and sgd"));
  v1::OptimizerSpec spec = Adamw();
  spec.mutable_adamw()->set_beta1(2);
  status = ParseOptimizer(spec).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("optimizer.beta1"));
}

}  // namespace
}  // namespace ringmaster
