#include "common/protocol/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  return std::string(ParseLabels(text).status().message());
}

TEST(LabelsTest, AreReadAndWritten) {
  EXPECT_EQ(*ParseLabels(""), Labels());
  const Labels labels = *ParseLabels("zone=a,nvidia.com/gpu=H100-SXM");
  EXPECT_EQ(labels, (Labels{{"nvidia.com/gpu", "H100-SXM"}, {"zone", "a"}}));
  EXPECT_EQ(LabelsText(labels), "nvidia.com/gpu=H100-SXM, zone=a");
}

TEST(LabelsTest, OthersAreRefusedByName) {
  EXPECT_EQ(ErrorOf("gpu"), "\"gpu\" is not KEY=VALUE");
  EXPECT_EQ(ErrorOf("a=b,a=c"), "key \"a\" is there twice");
  EXPECT_THAT(ErrorOf("=b"), HasSubstr("key \"\" must be 1 to 63 letters"));
  EXPECT_THAT(ErrorOf("a="), HasSubstr("value \"\" must be"));
  EXPECT_THAT(ErrorOf("a=b=c"), HasSubstr("value \"b=c\" must be"));
  EXPECT_THAT(ErrorOf("a=-b"), HasSubstr("value \"-b\" must be"));
  EXPECT_THAT(ErrorOf("a b=c"), HasSubstr("key \"a b\" must be"));
  EXPECT_THAT(ErrorOf("a=" + std::string(64, 'x')),
              HasSubstr("must be 1 to 63"));
  EXPECT_EQ(ErrorOf("host=h"), "key \"host\" is one that every worker has");
  std::string many = "k0=v";
  for (int i = 1; i <= kMaxLabels; ++i) many += ",k" + std::to_string(i) + "=v";
  EXPECT_EQ(ErrorOf(many), "there may be 32 labels, and are 33");
}

}  // namespace
}  // namespace ringmaster
