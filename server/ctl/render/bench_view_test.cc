#include "server/ctl/render/bench_view.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

BenchSetting Setting() {
  BenchSetting setting;
  setting.options.ranks = 4;
  setting.options.wire = DType::kBFloat16;
  setting.start = {Transport::kSharedMemory, 16e9};
  setting.processor = "Some\x1b Processor";
  setting.cores = 8;
  return setting;
}

AllReduceBenchRow Row() {
  AllReduceBenchRow row;
  row.bytes = 1'000'000;
  row.count = 250'000;
  row.iterations = 20;
  row.p50 = 0.001;
  row.p99 = 0.002;
  row.wrong = 3;
  row.algorithm = Algorithm::kDirect;
  return row;
}

TEST(BenchViewTest, SaysWhatIsMeasuredWhere) {
  const std::vector<std::string> lines = BenchHeadLines(Setting());
  EXPECT_EQ(lines[0], "# all-reduce of 4 processes; Some? Processor, 8 cores");
  EXPECT_THAT(lines[1], HasSubstr("transport shared_memory, algorithm auto"));
  EXPECT_THAT(lines[2], HasSubstr("16.0 GB/s"));
}

TEST(BenchViewTest, PutsFiguresUnderTheirTitles) {
  const std::vector<std::string> lines = BenchHeadLines(Setting());
  const std::string row = BenchRowLine(Setting(), Row());
  EXPECT_EQ(row,
            "     1000000       250000 float32/bfloat16      sum     1000.00"
            "     2000.00     1.000     1.500       3    50.0  direct");
  for (const char* title : {"bytes", "count", "busbw", "limit", "algorithm"})
    EXPECT_THAT(lines[4], HasSubstr(title));
  EXPECT_EQ(lines[4].find("algorithm"), row.find("direct"));
  EXPECT_EQ(lines[4].find("limit") + 5, row.find("50.0") + 4);
}

TEST(BenchViewTest, IsOneJsonDocument) {
  const auto json = nlohmann::json::parse(BenchJson(Setting(), {Row(), Row()}));
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["transport"], "shared_memory");
  EXPECT_EQ(json["type"], "float32");
  EXPECT_EQ(json["wire"], "bfloat16");
  EXPECT_EQ(json["redop"], "sum");
  ASSERT_EQ(json["sizes"].size(), 2u);
  const auto& row = json["sizes"][1];
  EXPECT_EQ(row["bytes"], 1'000'000);
  EXPECT_DOUBLE_EQ(row["p50_us"], 1000);
  EXPECT_DOUBLE_EQ(row["algbw_gb_per_s"], 1);
  EXPECT_DOUBLE_EQ(row["busbw_gb_per_s"], 1.5);
  EXPECT_DOUBLE_EQ(row["percent_of_limit"], 50);
  EXPECT_EQ(row["wrong"], 3);
  EXPECT_EQ(row["algorithm"], "direct");
}

}  // namespace
}  // namespace ringmaster::ctl
