#include "worker/figures/crc32c.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace ringmaster
