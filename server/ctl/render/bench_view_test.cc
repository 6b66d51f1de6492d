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
  setting.start = {Transport::kSharedMemory, 3e9, ""};
  setting.place = {{"processor", "Some\x1b Processor"}, {"cores", "8"}};
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
  row.predicted = 0.0008;
  return row;
}

TEST(BenchViewTest, SaysWhatIsMeasuredWhere) {
  const std::vector<std::string> lines = BenchHeadLines(Setting());
  EXPECT_EQ(lines[0],
            "# all-reduce of 4 processes; processor Some? Processor, cores 8");
  EXPECT_THAT(lines[1], HasSubstr("transport shared_memory, algorithm auto"));
  EXPECT_THAT(lines[2], HasSubstr("3.000 GB/s of busbw"));
}

TEST(BenchViewTest, PutsFiguresUnderTheirTitles) {
  const std::vector<std::string> lines = BenchHeadLines(Setting());
  const std::string row = BenchRowLine(Setting(), Row());
  EXPECT_EQ(row,
            "     1000000       250000 float32/bfloat16      sum     1000.00"
            "     2000.00     1.000     1.500       3    50.0      800.00  "
            "direct");
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
  EXPECT_EQ(json["cores"], "8");
  EXPECT_DOUBLE_EQ(json["limit_busbw_gb_per_s"], 3);
  EXPECT_DOUBLE_EQ(row["p50_us"], 1000);
  EXPECT_DOUBLE_EQ(row["algbw_gb_per_s"], 1);
  EXPECT_DOUBLE_EQ(row["busbw_gb_per_s"], 1.5);
  EXPECT_DOUBLE_EQ(row["percent_of_limit"], 50);
  EXPECT_EQ(row["wrong"], 3);
  EXPECT_EQ(row["algorithm"], "direct");
  EXPECT_DOUBLE_EQ(row["predicted_us"], 800);
}

v1::Job BenchJob() {
  v1::Job job;
  job.set_id("bench-7");
  job.mutable_spec()->mutable_workers()->set_min(2);
  v1::BenchProgram& program = *job.mutable_spec()->mutable_bench();
  program.add_sizes(4096);
  program.add_sizes(8192);
  program.set_type(v1::BENCH_TYPE_FLOAT64);
  program.set_reduction(v1::BENCH_REDUCTION_MAX);
  for (const char* host : {"beta", "alpha", "beta"})
    job.add_members()->set_host(host);
  v1::BenchFigures& figures = *job.mutable_bench();
  figures.set_transport(v1::COLLECTIVE_TRANSPORT_TCP);
  figures.set_limit_bytes_per_second(2e9);
  figures.set_fallback("with rank 1: no room");
  v1::BenchRow& row = *figures.add_rows();
  row.set_bytes(4096);
  row.set_count(512);
  row.set_p50_seconds(4096e-9);
  row.set_p99_seconds(4096e-9);
  row.set_algorithm(v1::COLLECTIVE_ALGORITHM_EXCHANGE);
  return job;
}

TEST(BenchViewTest, ShowsAJob) {
  const std::vector<std::string> lines = BenchTable(BenchJob());
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[0],
            "# all-reduce of 2 workers; job bench-7, hosts alpha beta");
  EXPECT_THAT(lines[1], HasSubstr("transport tcp"));
  EXPECT_THAT(lines[4], HasSubstr("no shared memory with rank 1: no room"));
  // algbw = busbw = 1 GB/s of two ranks: half of the limit.
  EXPECT_THAT(lines[7], HasSubstr("1.000     1.000       0    50.0"));
  EXPECT_EQ(nlohmann::json::parse(BenchJson(BenchJob()))["job"], "bench-7");
  EXPECT_TRUE(BenchTable(v1::Job()).empty());
}

TEST(BenchViewTest, SaysWhatAProgramMeasures) {
  EXPECT_EQ(BenchProgramText(BenchJob().spec().bench()),
            "all-reduce of 2 sizes, 4096 to 8192 bytes, float64, max");
  EXPECT_EQ(BenchProgramText(v1::BenchProgram()), "all-reduce");
}

}  // namespace
}  // namespace ringmaster::ctl
