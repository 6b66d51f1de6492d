#include "server/ctl/commands/bench_lines.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

void AddRow(v1::Job& job, int64_t bytes, double seconds) {
  v1::BenchRow& row = *job.mutable_bench()->add_rows();
  row.set_bytes(bytes);
  row.set_p50_seconds(seconds);
  row.set_p99_seconds(seconds);
}

v1::Job Started() {
  v1::Job job;
  job.mutable_spec()->mutable_bench()->add_sizes(4096);
  job.mutable_spec()->mutable_workers()->set_min(2);
  job.mutable_bench()->set_limit_bytes_per_second(1e9);
  return job;
}

TEST(BenchLinesTest, TellsEachRowOnce) {
  BenchLines lines;
  v1::Job job = Started();
  EXPECT_THAT(lines.Take(v1::Job()), IsEmpty());
  EXPECT_THAT(lines.Take(job), ::testing::Each(StartsWith("#")));
  EXPECT_THAT(lines.Take(job), IsEmpty());
  AddRow(job, 4096, 1e-5);
  EXPECT_THAT(lines.Take(job), ElementsAre(HasSubstr("4096")));
  AddRow(job, 8192, 1e-5);
  AddRow(job, 16384, 1e-5);
  EXPECT_THAT(lines.Take(job),
              ElementsAre(HasSubstr("8192"), HasSubstr("16384")));
  EXPECT_THAT(lines.Take(job), IsEmpty());
}

TEST(BenchLinesTest, TellsWhenItBeginsAnew) {
  BenchLines lines;
  v1::Job job = Started();
  AddRow(job, 4096, 1e-5);
  (void)lines.Take(job);
  v1::Job anew = Started();
  EXPECT_THAT(lines.Take(anew), ElementsAre(HasSubstr("anew")));
  AddRow(anew, 4096, 2e-5);
  EXPECT_THAT(lines.Take(anew), ElementsAre(HasSubstr("4096")));
  // They are printed although there are as many rows as before.
  EXPECT_THAT(lines.Take(job),
              ElementsAre(HasSubstr("anew"), HasSubstr("4096")));
}

}  // namespace
}  // namespace ringmaster::ctl
