#include "server/ctl/commands/bench.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/config/flags.h"
#include "common/fail_point/fail_point.h"
#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ctl/terminal/interrupts.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<AllReduceBenchOptions> Parse(const char* text) {
  FlagSet flags("ringctl", "For tests.");
  BenchFlags bench;
  AddBenchFlags(flags, bench);
  const std::vector<std::string> args =
      absl::StrSplit(absl::StrCat("bench ", text), ' ', absl::SkipEmpty());
  const auto parsed = flags.Parse(args);
  if (!parsed.ok()) return parsed.status();
  return ToLocalBenchOptions(bench);
}

TEST(BenchFlagsTest, HaveDefaults) {
  const auto options = Parse("allreduce");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_GE(options->ranks, 2);
  EXPECT_FALSE(options->transport.has_value());
  EXPECT_EQ(options->algorithm, Algorithm::kAuto);
  EXPECT_EQ(options->dtype, DType::kFloat32);
  EXPECT_FALSE(options->wire.has_value());
  EXPECT_EQ(options->reduction, Reduction::kSum);
  EXPECT_EQ(options->sizes.front(), 4096);
  EXPECT_EQ(options->sizes.back(), 256 << 20);
  EXPECT_EQ(options->sizes.size(), 9u);
  EXPECT_EQ(options->iterations, 20);
}

TEST(BenchFlagsTest, SayWhatToMeasure) {
  const auto options = Parse(
      "allreduce -n 3 --transport=unix --algorithm=ring --dtype=float32 "
      "--wire=bfloat16 --op=max --sizes=1K:8K --step=2 --warmup=0 "
      "--iterations=7 --seconds-per-size=500ms");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->ranks, 3);
  EXPECT_EQ(options->transport, Transport::kUnix);
  EXPECT_EQ(options->algorithm, Algorithm::kRing);
  EXPECT_EQ(options->wire, DType::kBFloat16);
  EXPECT_EQ(options->reduction, Reduction::kMax);
  EXPECT_THAT(options->sizes, ElementsAre(1024, 2048, 4096, 8192));
  EXPECT_EQ(options->warmup, 0);
  EXPECT_EQ(options->iterations, 7);
  EXPECT_EQ(options->time_per_size, absl::Milliseconds(500));
}

TEST(BenchFlagsTest, RefuseWhatIsWrongWithTheFlagsName) {
  struct Case {
    const char* args;
    const char* text;
  };
  constexpr Case kCases[] = {
      {"", "WHAT"},
      {"broadcast", "\"broadcast\""},
      {"allreduce -n 1", "--ranks=1"},
      {"allreduce -n 129", "--ranks=129"},
      {"allreduce --connections=2", "it needs --coordinator"},
      {"allreduce --connections=17", "--connections=17"},
      {"allreduce --transport=rdma", "--transport=rdma"},
      {"allreduce --algorithm=tree", "--algorithm=tree"},
      {"allreduce --dtype=uint8", "--dtype=uint8"},
      {"allreduce --wire=float64", "--wire=float64"},
      {"allreduce --wire=float16 --dtype=int32", "--wire"},
      {"allreduce --op=product", "--op=product"},
      {"allreduce --op=average --dtype=int64", "--op=average"},
      {"allreduce --sizes=many", "--sizes: \"many\""},
      {"allreduce --step=1", "--step=1"},
      {"allreduce --iterations=0", "--iterations=0"},
      {"allreduce --seconds_per_size=0s", "--seconds_per_size=0s"},
  };
  for (const auto& [args, text] : kCases) {
    const auto options = Parse(args);
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(options.status().message()), HasSubstr(text));
  }
}

// Before main, and so before any thread.
const bool kIsBlocked = [] {
  Interrupts::Block();
  return true;
}();

TEST(RunBenchTest, AWrongElementShowsInItsRowAndEndsInAnError) {
  ASSERT_TRUE(kIsBlocked);
  BenchFlags flags;
  flags.what = "allreduce";
  flags.ranks = 2;
  flags.sizes = "4K";
  flags.warmup = 0;
  flags.iterations = 3;
  FailPoint::Arm("bench.reduced", FailPoint::Action::kError, 3);
  FakeConsole console;
  const absl::StatusOr<int> code =
      RunBench(flags, OutputFormat::kTable, console);
  FailPoint::DisarmAll();
  // The last all-reduce of each of the two ranks.
  EXPECT_EQ(code.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ExitCodeOf(code.status()), ExitCode::kInternal);
  EXPECT_THAT(std::string(code.status().message()),
              HasSubstr("2 elements differ from the expected result"));
  const std::vector<std::string> lines = absl::StrSplit(console.out, '\n');
  const std::vector<std::string> cells =
      absl::StrSplit(lines[lines.size() - 2], ' ', absl::SkipEmpty());
  ASSERT_EQ(cells.size(), 12u) << console.out;
  EXPECT_EQ(cells[0], "4096");
  EXPECT_EQ(cells[8], "2");
}

}  // namespace
}  // namespace ringmaster::ctl
