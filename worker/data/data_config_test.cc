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
