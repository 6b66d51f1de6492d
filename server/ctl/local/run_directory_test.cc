#include "server/ctl/local/run_directory.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ctl/local/binaries.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// An empty directory of the test, which is the current one meanwhile.
class RunDirectoryTest : public ::testing::Test {
 protected:
  RunDirectoryTest()
      : before_(fs::current_path()),
        root_(fs::path(::testing::TempDir()) / "run_directory_test") {
    fs::remove_all(root_);
    fs::create_directories(root_);
    fs::current_path(root_);
  }
  ~RunDirectoryTest() override { fs::current_path(before_); }

  void MakeProgram(const fs::path& path) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n";
    fs::permissions(path, fs::perms::owner_all);
  }

  const fs::path before_;
  const fs::path root_;
};

TEST_F(RunDirectoryTest, NamesDirectoriesByTimeAndNeverSharesOne) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  const auto first = MakeRunDirectory("", now);
  const auto second = MakeRunDirectory("", now);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT(*first, StartsWith("ringmaster-run-2023111"));
  EXPECT_EQ(*second, absl::StrCat(*first, "-2"));
  EXPECT_TRUE(fs::is_directory(*second));
}

TEST_F(RunDirectoryTest, TakesTheWantedDirectoryEvenIfItExists) {
  EXPECT_EQ(*MakeRunDirectory("a/b", absl::Now()), "a/b");
  EXPECT_EQ(*MakeRunDirectory("a/b", absl::Now()), "a/b");
}

TEST_F(RunDirectoryTest, SaysWhyADirectoryCannotBeMade) {
  std::ofstream("file") << "x";
  for (const char* wanted : {"file", "file/below"}) {
    const auto made = MakeRunDirectory(wanted, absl::Now());
    EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(made.status().message()),
                HasSubstr("give another one with --run_dir"));
  }
}

TEST_F(RunDirectoryTest, ReadsTheLastLinesOfAFile) {
  std::ofstream("log") << "one\ntwo\nthree\n";
  EXPECT_THAT(LastLines("log", 2), ElementsAre("two", "three"));
  EXPECT_THAT(LastLines("log", 9), ElementsAre("one", "two", "three"));
  std::ofstream("open_end") << "one\ntwo";
  EXPECT_THAT(LastLines("open_end", 1), ElementsAre("two"));
  EXPECT_THAT(LastLines("missing", 2), IsEmpty());
  std::ofstream("empty") << "";
  EXPECT_THAT(LastLines("empty", 2), IsEmpty());
}

TEST_F(RunDirectoryTest, FindsBinariesBesideItselfAndInBazelsOutput) {
  MakeProgram(root_ / "bin/worker");
  EXPECT_EQ(*FindBinary("worker", {.own_path = root_ / "bin/ringctl"}),
            root_ / "bin/worker");
  MakeProgram(root_ / "bazel-bin/worker/worker");
  MakeProgram(root_ / "bazel-bin/server/coordinator/coordinator");
  const BinaryPlaces bazel = {.own_path =
                                  root_ / "bazel-bin/server/ctl/ringctl"};
  EXPECT_EQ(*FindBinary("worker", bazel), root_ / "bazel-bin/worker/worker");
  EXPECT_EQ(*FindBinary("coordinator", bazel),
            root_ / "bazel-bin/server/coordinator/coordinator");
  MakeProgram(root_ / "rf/ringmaster/worker/worker");
  EXPECT_EQ(*FindBinary("worker",
                        {.own_path = "/x/y/z", .runfiles_dir = root_ / "rf"}),
            root_ / "rf/ringmaster/worker/worker");
  MakeProgram(root_ / "t/ringctl.runfiles/ringmaster/worker/worker");
  EXPECT_EQ(*FindBinary("worker", {.own_path = root_ / "t/ringctl"}),
            root_ / "t/ringctl.runfiles/ringmaster/worker/worker");
}

TEST_F(RunDirectoryTest, TakesOnlyProgramsFromAGivenDirectory) {
  MakeProgram(root_ / "bin/worker");
  EXPECT_EQ(*FindBinary("worker", {.bin_dir = root_ / "bin"}),
            root_ / "bin/worker");
  fs::create_directories(root_ / "other/worker");
  const auto missing = FindBinary(
      "worker",
      {.bin_dir = root_ / "other", .own_path = root_ / "bin/ringctl"});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("other/worker): give its directory with --bin_dir"));
}

TEST_F(RunDirectoryTest, KnowsItsOwnPath) {
  EXPECT_TRUE(fs::is_regular_file(OwnPlaces("").own_path));
}

}  // namespace
}  // namespace ringmaster::ctl
