#include "common/checksum/crc32c.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ringmaster {
namespace {

// RFC 3720 prints its vectors' results byte by byte, lowest first.
TEST(Crc32cTest, GivesTheResultsOfRfc3720) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AA);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43);
  std::string ascending;
  std::string descending;
  for (int i = 0; i < 32; ++i) {
    ascending.push_back(static_cast<char>(i));
    descending.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(Crc32c(ascending), 0x46DD794E);
  EXPECT_EQ(Crc32c(descending), 0x113FDB5C);
}

TEST(Crc32cTest, GivesTheResultOfTheIscsiReadCommand) {
  std::string command(48, '\0');
  command[0] = '\x01';
  command[1] = '\xc0';
  command[16] = '\x14';
  command[22] = '\x04';
  command[27] = '\x14';
  command[31] = '\x18';
  command[32] = '\x28';
  command[40] = '\x02';
  EXPECT_EQ(Crc32c(command), 0xD9963A56);
}

TEST(Crc32cTest, GivesTheCheckValueOfTheNineDigits) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283);
  EXPECT_EQ(Crc32c(""), 0u);
}

std::vector<std::byte> SomeBytes(size_t size) {
  std::vector<std::byte> bytes(size);
  uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// One bit after the other, as the polynomial is written.
uint32_t ByBits(std::span<const std::byte> bytes) {
  uint32_t remainder = ~uint32_t{0};
  for (const std::byte byte : bytes) {
    remainder ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit)
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return ~remainder;
}

TEST(Crc32cTest, IsTheSameByInstructionAndByTables) {
  const std::vector<std::byte> bytes = SomeBytes(40000);
  const std::span<const std::byte> all(bytes);
  // Around the borders of the blocks, and at odd places in memory.
  for (const size_t size : {0, 1, 7, 8, 9, 63, 767, 768, 769, 1536, 12287,
                            12288, 12289, 13057, 24576, 39999}) {
    for (const size_t at : {0, 1}) {
      const auto some = all.subspan(at, size);
      EXPECT_EQ(Crc32c(some), ByBits(some)) << size;
      EXPECT_EQ(ExtendCrc32cByTables(0, some), ByBits(some)) << size;
    }
  }
}

TEST(Crc32cTest, ComesOutTheSameInPieces) {
  const std::vector<std::byte> bytes = SomeBytes(20000);
  const std::span<const std::byte> all(bytes);
  for (const size_t first : {0, 1, 13, 768, 12288, 19999, 20000}) {
    const uint32_t begun = Crc32c(all.first(first));
    EXPECT_EQ(ExtendCrc32c(begun, all.subspan(first)), Crc32c(all)) << first;
    EXPECT_EQ(ExtendCrc32cByTables(begun, all.subspan(first)), Crc32c(all))
        << first;
  }
}

TEST(Crc32cTest, EveryFlippedBitChangesIt) {
  std::vector<std::byte> bytes = SomeBytes(800);
  const uint32_t whole = Crc32c(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto flip = static_cast<std::byte>(1u << (bit % 8));
    bytes[bit / 8] ^= flip;
    EXPECT_NE(Crc32c(bytes), whole) << bit;
    bytes[bit / 8] ^= flip;
  }
}

}  // namespace
}  // namespace ringmaster
