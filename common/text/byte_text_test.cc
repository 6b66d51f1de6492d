#include "common/text/byte_text.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

TEST(FormatBytesTest, HasThreeDigitsAndAUnit) {
  EXPECT_EQ(FormatBytes(0), "0B");
  EXPECT_EQ(FormatBytes(1023), "1023B");
  EXPECT_EQ(FormatBytes(1536), "1.50KiB");
  EXPECT_EQ(FormatBytes(1024 * 1024 - 1), "1.00MiB");
  EXPECT_EQ(FormatBytes(int64_t{12} << 30), "12.0GiB");
  EXPECT_EQ(FormatBytes(int64_t{300} << 20), "300MiB");
  EXPECT_EQ(FormatBytes(-1), "-");
}

}  // namespace
}  // namespace ringmaster
