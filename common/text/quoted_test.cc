#include "common/text/quoted.h"

#include <string>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(QuotedTest, IsOneLineWhateverTheTextHolds) {
  EXPECT_EQ(Quoted("digits-1"), "\"digits-1\"");
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("a\n\t\"b\"\\"), R"("a\n\t\"b\"\\")");
  EXPECT_EQ(Quoted(std::string_view("\x1b[31m\0", 6)), R"("\x1b[31m\x00")");
  EXPECT_EQ(Quoted("größer"), "\"größer\"");
  EXPECT_EQ(Quoted("gr\xf6\xdf"), R"("gr\xf6\xdf")");
}

TEST(QuotedTest, IsCutBetweenTwoCharacters) {
  EXPECT_EQ(Quoted("größer", 3), "\"gr...\"");
  EXPECT_EQ(Quoted("größer", 4), "\"grö...\"");
  EXPECT_EQ(Quoted(std::string(300, 'x')),
            "\"" + std::string(kMaxQuotedBytes, 'x') + "...\"");
}

}  // namespace
}  // namespace ringmaster
