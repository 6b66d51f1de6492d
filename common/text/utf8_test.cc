#include "common/text/utf8.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(BoundedUtf8Test, CutsBetweenCharacters) {
  EXPECT_EQ(BoundedUtf8("abc", 3), "abc");
  EXPECT_EQ(BoundedUtf8("abc", 2), "ab");
  EXPECT_EQ(BoundedUtf8("a\xc3\xa9", 2), "a");
  EXPECT_EQ(BoundedUtf8("a\xc3\xa9", 3), "a\xc3\xa9");
}

TEST(ReplaceInvalidUtf8Test, KeepsTextAndMarksTheRest) {
  EXPECT_EQ(ReplaceInvalidUtf8("a\xc3\xa4\n\"\x01"), "a\xc3\xa4\n\"\x01");
  EXPECT_EQ(ReplaceInvalidUtf8("a\xc3"), "a\xef\xbf\xbd");
}

}  // namespace
}  // namespace ringmaster
