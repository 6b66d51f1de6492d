#include "common/config/closest_name.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(EditDistanceTest, CountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("train", "train"), 0);
  EXPECT_EQ(EditDistance("trian", "train"), 1);  // a swap
  EXPECT_EQ(EditDistance("steps", "step"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(ClosestNameTest, FindsATypingError) {
  const std::vector<std::string> names = {"listen", "state_dir", "log_level"};
  EXPECT_EQ(ClosestName("lisen", names), "listen");
  EXPECT_EQ(ClosestName("stat_dri", names), "state_dir");
  EXPECT_EQ(ClosestName("loglevel", names), "log_level");
}

TEST(ClosestNameTest, SuggestsNothingThatIsFarAway) {
  const std::vector<std::string> names = {"listen", "state_dir"};
  EXPECT_EQ(ClosestName("coordinator", names), std::nullopt);
  EXPECT_EQ(ClosestName("x", names), std::nullopt);
  EXPECT_EQ(ClosestName("listen", {}), std::nullopt);
}

}  // namespace
}  // namespace ringmaster
