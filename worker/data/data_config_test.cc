#include "worker/data/data_config.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

void ExpectRefused(const DataConfig& config, const std::string& field) {
  const absl::Status status = config.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
  EXPECT_EQ(std::string(status.message()).find("data." + field + " is "), 0u)
      << status;
}

TEST(DataConfigTest, DefaultsAreValid) {
  EXPECT_TRUE(DataConfig().Validate().ok());
}

TEST(DataConfigTest, EveryBadFieldIsNamed) {
  DataConfig config;
  config.kind = "videos";
  ExpectRefused(config, "kind");
  config = {};
  config.kind = "text";
  ExpectRefused(config, "path");
  for (int64_t window : {int64_t{0}, int64_t{-1}, (int64_t{1} << 20) + 1}) {
    config = {};
    config.shape.tokens = window;
    ExpectRefused(config, "shape.tokens");
  }
  for (double fraction :
       {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    config = {};
    config.eval_fraction = fraction;
    ExpectRefused(config, "eval_fraction");
  }
  config = {};
  config.max_bytes = 0;
  ExpectRefused(config, "max_bytes");
  for (int64_t num_samples :
       {int64_t{0}, std::numeric_limits<int64_t>::max()}) {
    config = {};
    config.num_samples = num_samples;
    ExpectRefused(config, "num_samples");
  }
}

void ExpectMistake(const DataConfig& config, const std::string& part) {
  const absl::Status status = config.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << part;
  EXPECT_NE(std::string(status.message()).find(part), std::string::npos)
      << status;
}

TEST(DataConfigTest, ShapesAreTheKinds) {
  DataConfig config;
  config.shape = {.tokens = 8, .targets = 8};
  EXPECT_TRUE(config.Validate().ok());
  config.shape = {.tokens = 8, .targets = 7};
  ExpectMistake(config, "data.shape.targets is 7");

  DataConfig images = {.kind = "images",
                       .shape = {.pixels = 784},
                       .path = "images",
                       .labels_path = "labels"};
  EXPECT_TRUE(images.Validate().ok()) << images.Validate();
  images.shape.targets = 2;
  ExpectMistake(images, "data.shape.targets is 2");
  images.shape = {.tokens = 784};
  ExpectMistake(images, "data.shape.pixels is 0");
}

TEST(DataConfigTest, FilesThatBelongTogetherAreGivenTogether) {
  const DataConfig images = {.kind = "images",
                             .shape = {.pixels = 784},
                             .path = "images",
                             .labels_path = "labels"};
  DataConfig config = images;
  config.labels_path = "";
  ExpectMistake(config, "data.labels_path is empty");
  config = images;
  config.evaluation_path = "images";
  ExpectMistake(config, "must be given together");
  config = {.kind = "text", .path = "text", .merges_path = "merges.txt"};
  ExpectMistake(config, "must be given together");
  config = {.kind = "tokens"};
  ExpectMistake(config, "data.path is empty");
}

TEST(DataConfigTest, TokenFormatsAreThreeWords) {
  DataConfig config = {.kind = "tokens", .path = "a.bin"};
  for (const char* format : {"auto", "llm.c", "raw"}) {
    config.token_format = format;
    EXPECT_TRUE(config.Validate().ok()) << format;
  }
  config.token_format = "numpy";
  ExpectMistake(config, "data.token_format is \"numpy\"; known are");
}

TEST(DataConfigTest, CanonicalTextLeavesOutThePathAndTellsTheRestApart) {
  DataConfig a;
  a.kind = "text";
  a.path = "/here";
  DataConfig b = a;
  b.path = "/there";
  EXPECT_EQ(a.CanonicalText(), b.CanonicalText());
  b.seed = 2;
  EXPECT_NE(a.CanonicalText(), b.CanonicalText());
  DataConfig c;
  DataConfig d;
  d.num_samples = c.num_samples + 1;
  EXPECT_NE(c.CanonicalText(), d.CanonicalText());
}

}  // namespace
}  // namespace ringmaster
