#include "worker/nn/model_config.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using Settings = ModelConfig::Settings;

// Returns the error of a model with these three settings for `settings`.
std::string ErrorOf(const Settings& settings) {
  const ModelConfig config = {.kind = "toy", .settings = settings};
  SettingsReader reader(config);
  reader.Int("width", 8, {1, 64});
  reader.Real("dropout", 0, {0, 0.5});
  reader.Ints("channels", {4, 8}, {1, 16});
  return std::string(reader.Finish().message());
}

TEST(SettingsReaderTest, GivesTheSettingOrItsDefault) {
  const ModelConfig config = {
      .kind = "toy", .settings = {{"width", {12}}, {"channels", {3, 5, 7}}}};
  SettingsReader reader(config);
  EXPECT_EQ(reader.Int("width", 8, {1, 64}), 12);
  EXPECT_EQ(reader.Int("depth", 8, {1, 64}), 8);
  EXPECT_EQ(reader.Real("dropout", 0.25, {0, 0.5}), 0.25);
  EXPECT_EQ(reader.Ints("channels", {1}, {1, 16}),
            (std::vector<int64_t>{3, 5, 7}));
  EXPECT_TRUE(reader.Finish().ok());
}

TEST(SettingsReaderTest, NamesABadSettingWithItsBounds) {
  EXPECT_EQ(ErrorOf({}), "");
  EXPECT_EQ(ErrorOf({{"width", {65}}}),
            "model.toy.width is 65, but must be a whole number in [1, 64]");
  EXPECT_EQ(ErrorOf({{"width", {0.5}}}),
            "model.toy.width is 0.5, but must be a whole number in [1, 64]");
  EXPECT_EQ(ErrorOf({{"width", {1048577}}}),
            "model.toy.width is 1048577, but must be a whole number in [1, "
            "64]");
  EXPECT_EQ(ErrorOf({{"width", {1, 2}}}),
            "model.toy.width is a list of 2 numbers, but must be one number");
  EXPECT_EQ(ErrorOf({{"dropout", {std::numeric_limits<double>::quiet_NaN()}}}),
            "model.toy.dropout is nan, but must be in [0, 0.5]");
  EXPECT_EQ(ErrorOf({{"dropout", {}}}),
            "model.toy.dropout is a list of 0 numbers, but must be one number");
  EXPECT_EQ(ErrorOf({{"channels", {4, 17}}}),
            "model.toy.channels is 17, but must be a whole number in [1, 16]");
}

TEST(SettingsReaderTest, RefusesASettingThatTheModelDoesNotHave) {
  EXPECT_EQ(ErrorOf({{"heigth", {3}}}),
            "model.toy has no setting \"heigth\"; it has channels, dropout, "
            "width");
}

TEST(ModelConfigTest, CanonicalTextTellsEverySettingApart) {
  const ModelConfig config = {.kind = "toy",
                              .settings = {{"width", {12}}, {"a", {0.5, 2}}}};
  EXPECT_EQ(config.CanonicalText(), "model toy a=0.5,2 width=12");
}

TEST(ModelConfigTest, ReadsItsCanonicalText) {
  const std::string text = "model toy a=0.10000000000000001,2 b= width=12";
  const ModelConfig config = *ModelConfig::FromCanonicalText(text);
  EXPECT_EQ(config.settings.at("a"), (std::vector<double>{0.1, 2}));
  EXPECT_EQ(config.CanonicalText(), text);
  for (const char* bad : {"", "model", "model ", "toy a=1", "model toy a=x",
                          "model toy a", "model toy =1", "model toy a=1=2",
                          "model toy a=1 a=2", "model toy a=1,,2"}) {
    EXPECT_EQ(ModelConfig::FromCanonicalText(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
  EXPECT_EQ(ModelConfig::FromCanonicalText("\n" + std::string(9999, 'x'))
                .status()
                .message(),
            "\"\\n" + std::string(199, 'x') + "...\" describes no model");
}

}  // namespace
}  // namespace ringmaster
