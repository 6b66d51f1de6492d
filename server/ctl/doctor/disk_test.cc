#include "server/ctl/doctor/disk.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

DiskFacts GoodFacts() {
  return {.path = "/data/state",
          .is_there = true,
          .is_in_memory = false,
          .error = {},
          .is_full = false,
          .free_bytes = int64_t{100} << 30,
          .sync = absl::Milliseconds(2)};
}

TEST(DiskTest, AGoodDisk) {
  EXPECT_EQ(DiskFinding("--state_dir", true, GoodFacts()),
            Good("--state_dir", "/data/state, 100GiB free, fsync takes 2.0ms"));
}

TEST(DiskTest, WhatCannotBeWrittenIsAFailure) {
  DiskFacts facts = GoodFacts();
  facts.error = "Permission denied";
  Finding finding = DiskFinding("--state_dir", true, facts);
  EXPECT_EQ(finding.level, Level::kFailure);
  EXPECT_EQ(finding.code, ExitCode::kUsage);
  EXPECT_THAT(finding.what, HasSubstr("/data/state: Permission denied"));
  facts.is_full = true;
  finding = DiskFinding("--checkpoint", false, facts);
  EXPECT_EQ(finding.code, ExitCode::kRetryElsewhere);
  EXPECT_THAT(finding.remedy, HasSubstr("make room"));
}

TEST(DiskTest, ALittleRoomASlowDiskAndMemoryAreWarnings) {
  DiskFacts facts = GoodFacts();
  facts.sync = absl::Milliseconds(300);
  Finding finding = DiskFinding("--state_dir", true, facts);
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_THAT(finding.why, HasSubstr("each decision"));
  facts.free_bytes = 1 << 20;
  EXPECT_THAT(DiskFinding("--state_dir", true, facts).why,
              HasSubstr("full disk"));
  facts.is_in_memory = true;
  EXPECT_THAT(DiskFinding("--state_dir", true, facts).why,
              HasSubstr("restarts"));
}

TEST(DiskTest, ADirectoryThatIsToBeMadeIsLookedAtAbove) {
  const fs::path root(std::getenv("TEST_TMPDIR"));
  const DiskFacts facts = GatherDiskFacts((root / "a" / "b").string());
  EXPECT_FALSE(facts.is_there);
  EXPECT_EQ(facts.path, root.string());
  EXPECT_EQ(facts.error, "");
  EXPECT_LT(facts.sync, absl::InfiniteDuration());
  EXPECT_GE(facts.free_bytes, 0);
  EXPECT_FALSE(fs::exists(root / "a"));
  EXPECT_THAT(DiskFinding("--state_dir", true, facts).what,
              HasSubstr("not there yet"));
}

TEST(DiskTest, LeavesNothingBehind) {
  const fs::path root = fs::path(std::getenv("TEST_TMPDIR")) / "empty";
  fs::create_directory(root);
  EXPECT_EQ(GatherDiskFacts(root.string()).error, "");
  EXPECT_TRUE(fs::is_empty(root));
}

TEST(DiskTest, AFileIsNoDirectory) {
  const fs::path file = fs::path(std::getenv("TEST_TMPDIR")) / "file";
  std::ofstream(file) << "x";
  EXPECT_EQ(GatherDiskFacts((file / "below").string()).error,
            "it is no directory");
}

}  // namespace
}  // namespace ringmaster::ctl
