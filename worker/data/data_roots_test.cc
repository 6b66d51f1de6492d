// Every reader of data opens beneath the process's roots. A program of its own: they are
// limited for good.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "worker/data/data_file.h"
#include "worker/data/idx_file.h"
#include "worker/data/list_files.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

class DataRootsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    fs::remove_all(Base());
    fs::create_directories(Base() + "/data/tree/deep");
    fs::create_directories(Base() + "/outside");
    for (const char* const file :
         {"data/file.bin", "data/tree/deep/file.bin", "outside/key.bin"})
      std::ofstream(Base() + "/" + file) << "contents";
    LimitProcessFiles(FileRoots::Open({.read = {Base() + "/data"}}).value());
  }

  static std::string Base() { return ::testing::TempDir() + "/data_roots"; }

  const std::string inside_ = Base() + "/data/file.bin";
  const std::string outside_ = Base() + "/outside/key.bin";
};

TEST_F(DataRootsTest, FilesAreReadBeneathThem) {
  EXPECT_TRUE(MappedFile::Open(inside_).ok());
  EXPECT_TRUE(ReadSmallFile(inside_, 100).ok());
  EXPECT_TRUE(IsOutsideRoots(MappedFile::Open(outside_).status()));
  EXPECT_TRUE(IsOutsideRoots(ReadSmallFile(outside_, 100).status()));
  EXPECT_TRUE(IsOutsideRoots(ReadIdxImages(outside_, 100, nullptr).status()));
  EXPECT_FALSE(IsOutsideRoots(ReadIdxImages(inside_, 100, nullptr).status()));
}

TEST_F(DataRootsTest, TreesAreListedBeneathThem) {
  EXPECT_EQ(ListTree(Base() + "/data", nullptr)->size(), 2u);
  EXPECT_EQ(ListDirectory(Base() + "/data", ".bin")->size(), 1u);
  for (const std::string& path : {Base() + "/outside", Base()}) {
    EXPECT_TRUE(IsOutsideRoots(ListTree(path, nullptr).status()));
    EXPECT_TRUE(IsOutsideRoots(ListDirectory(path, ".bin").status()));
  }
}

TEST_F(DataRootsTest, ALinkThatLeadsOutIsNotPassedOver) {
  const std::string link = Base() + "/data/tree/deep/link.bin";
  fs::create_symlink("../../../outside/key.bin", link);
  for (const absl::Status& status :
       {ListTree(Base() + "/data", nullptr).status(),
        ListDirectory(Base() + "/data/tree/deep", ".bin").status()}) {
    EXPECT_TRUE(IsOutsideRoots(status)) << status;
    EXPECT_NE(status.message().find(link), absl::string_view::npos) << status;
  }
  fs::remove(link);
}

TEST_F(DataRootsTest, LinksToDirectoriesArePassedOver) {
  const std::string deep = Base() + "/data/tree/deep";
  fs::create_directory_symlink(fs::absolute(Base() + "/outside"),
                               deep + "/absolute.bin");
  fs::create_directory_symlink("../../../outside", deep + "/relative.bin");
  fs::create_symlink("/none/gone", deep + "/dangling.bin");
  EXPECT_EQ(ListTree(Base() + "/data", nullptr)->size(), 2u);
  EXPECT_EQ(ListDirectory(deep, ".bin")->size(), 1u);
  for (const char* const name : {"absolute", "relative", "dangling"})
    fs::remove(absl::StrCat(deep, "/", name, ".bin"));
}

TEST_F(DataRootsTest, ADirectorysOtherFilesAreNotLookedAt) {
  const std::string link = Base() + "/data/tree/deep/notes.txt";
  fs::create_symlink("../../../outside/key.bin", link);
  EXPECT_EQ(ListDirectory(Base() + "/data/tree/deep", ".bin")->size(), 1u);
  fs::remove(link);
}

}  // namespace
}  // namespace ringmaster
