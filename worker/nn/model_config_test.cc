#include "worker/nn/model_config.h"

#include <string>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(ModelConfigTest, DefaultsAreValid) {
  EXPECT_TRUE(ModelConfig().Validate().ok());
}

TEST(ModelConfigTest, EveryBadFieldIsNamedWithItsBounds) {
  struct Case {
    const char* field;
    int64_t ModelConfig::*member;
    int64_t above;
  };
  const Case kCases[] = {{"window", &ModelConfig::window, 4097},
                         {"embedding_dim", &ModelConfig::embedding_dim, 4097},
                         {"hidden_dim", &ModelConfig::hidden_dim, 65537},
                         {"hidden_layers", &ModelConfig::hidden_layers, 65}};
  for (const Case& bad : kCases) {
    for (int64_t value : {int64_t{0}, int64_t{-1}, bad.above}) {
      ModelConfig config;
      config.*bad.member = value;
      const absl::Status status = config.Validate();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(std::string(status.message()),
                std::string("model.") + bad.field + " is " +
                    std::to_string(value) + ", but must be in [1, " +
                    std::to_string(bad.above - 1) + "]");
    }
  }
}

TEST(ModelConfigTest, CanonicalTextTellsEveryFieldApart) {
  const std::string base = ModelConfig().CanonicalText();
  for (int64_t ModelConfig::*member :
       {&ModelConfig::window, &ModelConfig::embedding_dim,
        &ModelConfig::hidden_dim, &ModelConfig::hidden_layers}) {
    ModelConfig config;
    config.*member += 1;
    EXPECT_NE(config.CanonicalText(), base);
  }
  ModelConfig other;
  other.kind = "gpt";
  EXPECT_NE(other.CanonicalText(), base);
}

}  // namespace
}  // namespace ringmaster
