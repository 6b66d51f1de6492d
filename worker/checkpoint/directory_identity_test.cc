#include "worker/checkpoint/directory_identity.h"

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

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
