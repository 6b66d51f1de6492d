#include "common/config/file_changes.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

class FileChangesTest : public testing::Test {
 protected:
  FileChangesTest() {
    Write(a_, "1");
    Write(b_, "1");
  }

  const std::string a_ = testing::TempDir() + "/a";
  const std::string b_ = testing::TempDir() + "/b";
  FileChanges changes_{{a_, "", b_}};
};

TEST_F(FileChangesTest, AnyFileThatIsWrittenReplacedOrRemovedIsAChange) {
  EXPECT_TRUE(changes_.Look());
  changes_.Accept();
  EXPECT_FALSE(changes_.Look());
  Write(b_, "22");
  EXPECT_TRUE(changes_.Look());
  changes_.Accept();
  Write(b_ + ".new", "22");
  ASSERT_EQ(std::rename((b_ + ".new").c_str(), b_.c_str()), 0);
  EXPECT_TRUE(changes_.Look());
  changes_.Accept();
  ASSERT_EQ(std::remove(a_.c_str()), 0);
  EXPECT_TRUE(changes_.Look());
}

TEST_F(FileChangesTest, RefusalsAreCountedForEachVersion) {
  EXPECT_TRUE(changes_.Look());
  EXPECT_EQ(changes_.Refuse(), 1);
  EXPECT_TRUE(changes_.Look());
  EXPECT_EQ(changes_.Refuse(), 2);
  Write(a_, "22");
  EXPECT_TRUE(changes_.Look());
  EXPECT_EQ(changes_.Refuse(), 1);
  changes_.Accept();
  EXPECT_FALSE(changes_.Look());
}

// A file that is written while it is read has changed again.
TEST_F(FileChangesTest, OnlyWhatWasLookedAtIsAccepted) {
  EXPECT_TRUE(changes_.Look());
  Write(a_, "22");
  changes_.Accept();
  EXPECT_TRUE(changes_.Look());
}

}  // namespace
}  // namespace ringmaster
