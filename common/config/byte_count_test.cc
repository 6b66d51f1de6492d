#include "common/config/byte_count.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr absl::int128 kTooMuch = std::numeric_limits<absl::int128>::max();
constexpr absl::int128 kTooLittle = std::numeric_limits<absl::int128>::min();

TEST(ByteCountTest, ReadsBytesWithAndWithoutAUnit) {
  EXPECT_EQ(ParseBytes("0"), 0);
  EXPECT_EQ(ParseBytes("65536"), 65536);
  EXPECT_EQ(ParseBytes("64KiB"), 65536);
  EXPECT_EQ(ParseBytes("3MiB"), 3 << 20);
  EXPECT_EQ(ParseBytes("8GiB"), int64_t{8} << 30);
  EXPECT_EQ(ParseBytes("-2KiB"), -2048);
}

TEST(ByteCountTest, NothingElseIsANumberOfBytes) {
  for (const char* text : {"", "KiB", "-", "-MiB", "8GB", "8 GiB", " 8", "1.5",
                           "+1", "0x10", "1KiBKiB", "--1"}) {
    EXPECT_EQ(ParseBytes(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseWholeNumber("64KiB"), std::nullopt);
}

TEST(ByteCountTest, NoNumberWrapsRound) {
  EXPECT_EQ(ParseWholeNumber("18446744073709551615"),
            absl::int128(std::numeric_limits<uint64_t>::max()));
  EXPECT_EQ(ParseBytes("18446744073709551615GiB"),
            absl::int128(std::numeric_limits<uint64_t>::max()) * (1 << 30));
  EXPECT_EQ(ParseWholeNumber("18446744073709551616"), kTooMuch);
  EXPECT_EQ(ParseWholeNumber("-9223372036854775809"), kTooLittle);
  EXPECT_EQ(ParseBytes("1000000000000000000000000000000000000000000GiB"),
            kTooMuch);
  EXPECT_EQ(ParseBytes("-1000000000000000000000000000000000000000000GiB"),
            kTooLittle);
}

}  // namespace
}  // namespace ringmaster
