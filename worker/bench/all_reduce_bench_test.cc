#include "worker/bench/all_reduce_bench.h"

#include <string>
#include <vector>

#include "common/fail_point/fail_point.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

AllReduceBenchOptions SmallBench(int ranks = 2) {
  AllReduceBenchOptions options;
  options.ranks = ranks;
  options.sizes = {8, 4100, 300'000};
  options.warmup = 1;
  options.iterations = 3;
  options.copy_bytes = 1 << 20;
  return options;
}

// Returns all rows of a benchmark that must succeed.
std::vector<AllReduceBenchRow> RowsOf(const AllReduceBenchOptions& options,
                                      AllReduceBenchStart* start = nullptr) {
  std::vector<AllReduceBenchRow> rows;
  auto bench = AllReduceBench::Start(options);
  EXPECT_TRUE(bench.ok()) << bench.status();
  if (!bench.ok()) return rows;
  const auto started = (*bench)->AwaitStart(-1);
  EXPECT_TRUE(started.ok()) << started.status();
  if (!started.ok()) return rows;
  if (start != nullptr) *start = *started;
  while (true) {
    const auto row = (*bench)->NextRow(-1);
    EXPECT_TRUE(row.ok()) << row.status();
    if (!row.ok() || !row->has_value()) return rows;
    rows.push_back(**row);
  }
}

void ExpectRight(const std::vector<AllReduceBenchRow>& rows,
                 const std::string& what) {
  ASSERT_EQ(rows.size(), 3u) << what;
  for (const AllReduceBenchRow& row : rows) {
    EXPECT_EQ(row.wrong, 0) << what << " " << row.bytes;
    EXPECT_EQ(row.iterations, 3);
    EXPECT_GT(row.p50, 0);
    EXPECT_GE(row.p99, row.p50);
    EXPECT_NE(row.algorithm, Algorithm::kAuto);
  }
}

TEST(AllReduceBenchTest, MeasuresEverySizeOverEveryTransport) {
  for (const Transport transport :
       {Transport::kTcp, Transport::kUnix, Transport::kSharedMemory}) {
    AllReduceBenchOptions options = SmallBench(3);
    options.transport = transport;
    options.is_transport_required = true;
    AllReduceBenchStart start;
    const auto rows = RowsOf(options, &start);
    ExpectRight(rows, TransportName(transport));
    EXPECT_EQ(start.transport, transport);
    EXPECT_GT(start.bus_limit, 0);
    EXPECT_EQ(rows[1].count, 1025);
    EXPECT_EQ(rows[1].bytes, 4100);
  }
}

TEST(AllReduceBenchTest, TakesEveryDTypeReductionAndWire) {
  AllReduceBenchOptions options = SmallBench();
  options.dtype = DType::kFloat64;
  options.reduction = Reduction::kAverage;
  const auto rows = RowsOf(options);
  ExpectRight(rows, "float64 average");
  EXPECT_EQ(rows[1].count, 512);
  EXPECT_EQ(rows[1].bytes, 4096);  // whole elements
  options.dtype = DType::kBFloat16;
  options.reduction = Reduction::kMax;
  ExpectRight(RowsOf(options), "bfloat16 max");
  options.dtype = DType::kFloat32;
  options.wire = DType::kFloat16;
  options.reduction = Reduction::kSum;
  ExpectRight(RowsOf(options), "float16 wire");
}

TEST(AllReduceBenchTest, RunsTheAlgorithmThatIsAskedFor) {
  for (const Algorithm algorithm : kAlgorithms) {
    AllReduceBenchOptions options = SmallBench(3);
    options.algorithm = algorithm;
    ASSERT_TRUE(CheckAllReduceBench(options).ok()) << AlgorithmName(algorithm);
    const auto rows = RowsOf(options);
    ExpectRight(rows, AlgorithmName(algorithm));
    EXPECT_EQ(rows[0].algorithm, algorithm);
  }
}

TEST(AllReduceBenchTest, RefusesWhatCannotBeMeasured) {
  const auto expect = [](const AllReduceBenchOptions& options,
                         const char* text) {
    const auto bench = AllReduceBench::Start(options);
    EXPECT_EQ(bench.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(bench.status().message()), HasSubstr(text));
  };
  expect(SmallBench(1), "--ranks=1");
  expect(SmallBench(129), "--ranks=129");
  AllReduceBenchOptions options = SmallBench();
  options.dtype = DType::kInt32;
  options.reduction = Reduction::kAverage;
  expect(options, "--op=average");
  options = SmallBench();
  options.dtype = DType::kFloat64;
  options.wire = DType::kFloat16;
  expect(options, "--wire");
}

TEST(AllReduceBenchTest, RefusesMoreThanTheMachinesMemory) {
  AllReduceBenchOptions options = SmallBench();
  options.sizes = {int64_t{1} << 60};
  const auto bench = AllReduceBench::Start(options);
  EXPECT_EQ(bench.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(bench.status().message()), HasSubstr("--sizes"));
}

TEST(AllReduceBenchTest, CountsWrongElementsOfAllRanks) {
  AllReduceBenchOptions options = SmallBench(3);
  options.sizes = {300'000};
  // Elements are wrong in each rank from its third all-reduce on: 1 warms up, 3
  // count.
  FailPoint::Arm("bench.reduced", FailPoint::Action::kError, 3);
  const auto rows = RowsOf(options);
  FailPoint::DisarmAll();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].wrong, 3 * 2);
}

}  // namespace
}  // namespace ringmaster
