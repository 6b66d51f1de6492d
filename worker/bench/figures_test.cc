#include "worker/bench/figures.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseSizesTest, MultipliesFromTheFirstToTheLast) {
  EXPECT_THAT(*ParseSizes("4K:64K", 4), ElementsAre(4096, 16384, 65536));
  EXPECT_THAT(*ParseSizes("8:40", 2), ElementsAre(8, 16, 32));
  EXPECT_THAT(*ParseSizes("1M", 2), ElementsAre(1 << 20));
  EXPECT_THAT(*ParseSizes("1G:1G", 10), ElementsAre(1 << 30));
  EXPECT_EQ(ParseSizes("8:64G", 2)->back(), int64_t{64} << 30);
}

TEST(ParseSizeTest, TakesOneSize) {
  EXPECT_EQ(*ParseSize("4K"), 4096);
  EXPECT_EQ(*ParseSize("12"), 12);
  EXPECT_FALSE(ParseSize("4K:8K").ok());
}

TEST(ParseSizesTest, SaysWhatIsWrong) {
  for (const std::string text :
       {"", ":", "4K:", ":4K", "4k", "K", "-8", "+8", " 8", "8 ", "4KB", "1.5M",
        "4K:8K:16K", "99999999999999999999"}) {
    const auto sizes = ParseSizes(text, 2);
    EXPECT_EQ(sizes.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(sizes.status().message()), HasSubstr("4K:256M"));
  }
  EXPECT_THAT(std::string(ParseSizes("64K:4K", 2).status().message()),
              AllOf(HasSubstr("\"64K:4K\""), HasSubstr("before it begins")));
  for (const std::string text : {"7", "0", "65G", "9223372036854775807G"}) {
    EXPECT_THAT(std::string(ParseSizes(text, 2).status().message()),
                HasSubstr("from 8 bytes to 64G"))
        << text;
  }
}

TEST(PercentileTest, IsTheNearestRank) {
  const std::vector<double> five = {1, 2, 3, 4, 5};
  EXPECT_EQ(Percentile(five, 0.5), 3);
  EXPECT_EQ(Percentile(five, 0.99), 5);
  EXPECT_EQ(Percentile(five, 0), 1);
  EXPECT_EQ(Percentile(five, 1), 5);
  const std::vector<double> four = {1, 2, 3, 4};
  EXPECT_EQ(Percentile(four, 0.5), 2);
  std::vector<double> hundred;
  for (int i = 1; i <= 100; ++i) hundred.push_back(i);
  EXPECT_EQ(Percentile(hundred, 0.99), 99);
}

TEST(BandwidthTest, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(1000, 0.5), 2000);
  EXPECT_DOUBLE_EQ(BusBandwidth(1000, 0.5, 2), 2000);
  EXPECT_DOUBLE_EQ(BusBandwidth(1000, 0.5, 4), 3000);
}

TEST(MemoryBusLimitTest, ReadsAndWritesEveryBufferOnce) {
  // 2 * 4 * 1000 bytes at 16000 a second: half a second.
  EXPECT_DOUBLE_EQ(MemoryBusLimit(4, 16000), BusBandwidth(1000, 0.5, 4));
}

TEST(LinkBusLimitTest, SendsWhatEachHostMust) {
  EXPECT_DOUBLE_EQ(LinkBusLimit(2, 2, 1000), 1000);
  // Two hosts of four ranks: each host sends the buffer once.
  EXPECT_DOUBLE_EQ(LinkBusLimit(8, 2, 1000), BusBandwidth(1000, 1, 8));
}

}  // namespace
}  // namespace ringmaster
