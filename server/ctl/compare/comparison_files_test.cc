#include "server/ctl/compare/comparison_files.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string Fresh(const std::string& name) {
  const fs::path path = fs::path(::testing::TempDir()) / name;
  fs::remove_all(path);
  return path.string();
}

Comparison OneRun() {
  Comparison comparison;
  RunResult run;
  run.mode = *ParseMode("ring");
  run.workers = 2;
  run.step_seconds = 0.01;
  run.ranks.resize(2);
  comparison.runs.push_back(run);
  return comparison;
}

TEST(ComparisonFilesTest, WritesReportJsonAndCharts) {
  const std::string directory = Fresh("out") + "/deep";
  ASSERT_TRUE(MakeOutDirectory(directory).ok());
  ASSERT_TRUE(WriteComparison(OneRun(), directory).ok());
  ASSERT_TRUE(WriteComparison(OneRun(), directory).ok()) << "again";
  for (const char* name : {"report.html", "comparison.json", "step_time.svg"})
    EXPECT_GT(fs::file_size(fs::path(directory) / name), 100u) << name;
  for (const auto& entry : fs::directory_iterator(directory))
    EXPECT_NE(entry.path().extension(), ".part");
}

TEST(ComparisonFilesTest, SaysWhereItCannotWrite) {
  const std::string file = Fresh("file");
  std::ofstream(file) << "in the way";
  const absl::Status made = MakeOutDirectory(file + "/out");
  EXPECT_EQ(made.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.message()),
              HasSubstr("--out: cannot write to the directory " + file));
  const absl::Status written = WriteComparison(OneRun(), file + "/out");
  EXPECT_EQ(written.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(written.message()),
              HasSubstr("/out/comparison.json: Not a directory"));
}

}  // namespace
}  // namespace ringmaster::ctl
