#include "common/machine/host_key.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(HostKeyTest, DiffersWhereAnyPartDiffers) {
  const std::string key = MakeHostKey("node-1", "boot", "net:[1]");
  EXPECT_EQ(key.size(), 16u);
  EXPECT_EQ(key, MakeHostKey("node-1", "boot", "net:[1]"));
  EXPECT_NE(key, MakeHostKey("node-2", "boot", "net:[1]"));
  EXPECT_NE(key, MakeHostKey("node-1", "other", "net:[1]"));
  EXPECT_NE(key, MakeHostKey("node-1", "boot", "net:[2]"));
  EXPECT_NE(MakeHostKey("ab", "c", ""), MakeHostKey("a", "bc", ""));
}

TEST(HostKeyTest, StaysTheSameWithinAProcess) {
  EXPECT_EQ(ThisHostKey(), ThisHostKey());
  EXPECT_FALSE(ThisHostName().empty());
}

}  // namespace
}  // namespace ringmaster
