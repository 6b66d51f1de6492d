#include "common/secrets/random.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(RandomTest, BytesHaveTheLengthAndDoNotRepeat) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(RandomBytes(32));
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(seen.begin()->size(), 32u);
}

TEST(RandomTest, IncarnationsAreNeverZero) {
  std::set<uint64_t> seen;
  for (int i = 0; i < 100; ++i) seen.insert(RandomIncarnation());
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_FALSE(seen.contains(0));
}

}  // namespace
}  // namespace ringmaster
