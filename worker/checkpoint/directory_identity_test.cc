#include "worker/checkpoint/directory_identity.h"

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "common/fail_point/fail_point.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

std::string NewPath(const char* name) {
  const fs::path path = fs::path(::testing::TempDir()) / name;
  fs::remove_all(path);
  return path.string();
}

TEST(DirectoryIdentityTest, IsTheSameForAllWhoSeeTheDirectory) {
  const std::string directory = NewPath("identity/deep");
  std::vector<int64_t> seen(8);
  std::vector<std::thread> threads;
  for (int64_t& identity : seen)
    threads.emplace_back([&] { identity = *DirectoryIdentity(directory); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(seen[0], 0);
  for (const int64_t identity : seen) EXPECT_EQ(identity, seen[0]);
  // Nothing is left of the attempts.
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), {}), 1);
  EXPECT_NE(*DirectoryIdentity(NewPath("another")), seen[0]);
}

TEST(DirectoryIdentityTest, NamesAPathThatCannotBeOne) {
  const std::string file = NewPath("file");
  std::ofstream(file) << "x";
  const absl::Status status = DirectoryIdentity(file + "/below").status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(file), std::string::npos) << status;
}

// A crash of the machine leaves one where names reach the disk before contents.
TEST(DirectoryIdentityTest, AnEmptyFileCountsAsNone) {
  const std::string directory = NewPath("emptied");
  fs::create_directories(directory);
  std::ofstream(directory + "/.directory-identity").close();
  std::vector<int64_t> seen(8);
  std::vector<std::thread> threads;
  for (int64_t& identity : seen)
    threads.emplace_back([&] { identity = *DirectoryIdentity(directory); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(seen[0], 0);
  for (const int64_t identity : seen) EXPECT_EQ(identity, seen[0]);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), {}), 1);
}

TEST(DirectoryIdentityTest, AFailureLeavesNothing) {
  const std::string directory = NewPath("failed");
  for (const char* point :
       {"checkpoint.identity", "checkpoint.fsync_directory"}) {
    fs::create_directories(directory);
    FailPoint::Arm(point, FailPoint::Action::kError);
    const absl::Status status = DirectoryIdentity(directory).status();
    FailPoint::DisarmAll();
    EXPECT_NE(status.message().find(directory), std::string::npos) << status;
    EXPECT_GT(*DirectoryIdentity(directory), 0);
    EXPECT_EQ(std::distance(fs::directory_iterator(directory), {}), 1);
    fs::remove_all(directory);
  }
}

TEST(CheckWritableTest, NamesADirectoryThatIsAFile) {
  const std::string directory = NewPath("in_its_place");
  std::ofstream(directory) << "x";
  EXPECT_EQ(CheckWritable(directory).message(),
            "cannot create " + directory + ": Not a directory");
}

TEST(CheckWritableTest, MakesTheDirectory) {
  const std::string directory = NewPath("made/deep");
  EXPECT_TRUE(CheckWritable(directory).ok());
  EXPECT_TRUE(fs::exists(directory + "/.directory-identity"));
}

TEST(DirectoryIdentityTest, NamesAFileThatHoldsNone) {
  const std::string directory = NewPath("damaged");
  fs::create_directories(directory);
  std::ofstream(directory + "/.directory-identity") << "none";
  const absl::Status status = DirectoryIdentity(directory).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(),
            directory + "/.directory-identity holds no number; remove it");
}

}  // namespace
}  // namespace ringmaster
