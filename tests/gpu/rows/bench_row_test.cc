#include "tests/gpu/rows/bench_row.h"

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace ringmaster {
namespace {

TEST(BenchRowTest, IsWhatTheRunnerReads) {
  const nlohmann::json row = nlohmann::json::parse(
      ToJson({"all-reduce", "GB/s", 2.5, std::nullopt, "NCCL", "a \"note\""}));
  EXPECT_EQ(row["what"], "all-reduce");
  EXPECT_EQ(row["unit"], "GB/s");
  EXPECT_EQ(row["ours"], 2.5);
  EXPECT_TRUE(row["peer"].is_null());
  EXPECT_EQ(row["peer_name"], "NCCL");
  EXPECT_EQ(row["note"], "a \"note\"");
}

TEST(BenchRowTest, MedianIsInTheMiddle) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({9, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 100}), 3);
}

TEST(BenchRowTest, BytesHaveTheLargestUnit) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1000), "1000 B");
  EXPECT_EQ(BytesText(1024), "1 KiB");
  EXPECT_EQ(BytesText(int64_t{256} << 20), "256 MiB");
  EXPECT_EQ(BytesText(int64_t{2048} << 30), "2048 GiB");
}

}  // namespace
}  // namespace ringmaster
