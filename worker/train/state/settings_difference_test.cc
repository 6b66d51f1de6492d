#include "worker/train/state/settings_difference.h"

#include <gtest/gtest.h>

#include "worker/train/state/program_config.h"

namespace ringmaster {
namespace {

TEST(SettingsDifferenceTest, NamesWhatDiffersOldAndNew) {
  EXPECT_EQ(SettingsDifference("steps=20 global_batch=8\nx\nprecision=float32",
                               "steps=30 global_batch=8\nx\nprecision=float32"),
            "steps 20, now 30");
  EXPECT_EQ(SettingsDifference("a={b={c=1 d=2}} e=[1 2]",
                               "a={b={c=1 d=3}} e=[1 2 3] f=\"x y\""),
            "a.b.d 2, now 3; e [1 2], now [1 2 3]; f default, now \"x y\"");
  EXPECT_EQ(SettingsDifference("a=1\ny\nprecision=float32",
                               "a=1\nz\nprecision=bfloat16"),
            "precision float32, now bfloat16");
}

TEST(SettingsDifferenceTest, IsEmptyWhereItCannotTell) {
  EXPECT_EQ(SettingsDifference("a=1", "a=1"), "");
  EXPECT_EQ(SettingsDifference("", ""), "");
  EXPECT_EQ(SettingsDifference("model gpt heads=2\nsteps=30", "steps=20"), "");
  EXPECT_EQ(SettingsDifference("a={b", "a=1"), "a {b, now 1");
}

// A manifest may be anybody's.
TEST(SettingsDifferenceTest, GivesUpOnWhatIsDeeperThanAJob) {
  const auto nested = [](int depth, const char* value) {
    std::string text = value;
    for (int i = 0; i < depth; ++i) text = "a={" + text + "}";
    return text;
  };
  EXPECT_NE(SettingsDifference(nested(32, "b=1"), nested(32, "b=2")), "");
  EXPECT_EQ(SettingsDifference(nested(33, "b=1"), nested(33, "b=2")), "");
  EXPECT_EQ(SettingsDifference(nested(10'000, "b=1"), "a=1"), "");
}

TEST(SettingsDifferenceTest, IsShortWhateverDiffers) {
  EXPECT_EQ(SettingsDifference("a=1 b=1 c=1 d=1 e=1 f=1 g=1",
                               "a=2 b=2 c=2 d=2 e=2 f=2 g=2"),
            "a 1, now 2; b 1, now 2; c 1, now 2; d 1, now 2; e 1, now 2; and 2 "
            "more");
  const std::string long_value(100, 'x');
  EXPECT_EQ(SettingsDifference("a=1", "a=" + long_value),
            "a 1, now " + long_value.substr(0, 60) + "...");
}

// The form that AgreedText has.
TEST(SettingsDifferenceTest, ReadsTheTextOfAJob) {
  v1::TrainProgram program;
  program.mutable_model()->mutable_mlp()->set_window(8);
  program.mutable_data()->mutable_synthetic()->set_samples(64);
  program.mutable_optimizer()->mutable_adamw()->set_learning_rate(0.25);
  program.set_steps(20);
  program.set_global_batch(8);
  const auto before = ParseProgram(program, Precision::kFloat32);
  program.set_steps(30);
  program.mutable_optimizer()->mutable_adamw()->set_learning_rate(0.5);
  const auto now = ParseProgram(program, Precision::kFloat32);
  ASSERT_TRUE(before.ok() && now.ok()) << before.status();
  EXPECT_EQ(SettingsDifference(before->CanonicalText(), now->CanonicalText()),
            "optimizer.adamw.learning_rate 0.25, now 0.5; steps 20, now 30");
}

}  // namespace
}  // namespace ringmaster
