#include "server/ctl/bundle/tar_gz.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ctl/bundle/testing/output_of.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

class TarGzTest : public ::testing::Test {
 protected:
  void Write(TarGz& archive) {
    const absl::StatusOr<std::string> bytes = archive.Finish();
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    std::ofstream(path_, std::ios::binary) << *bytes;
  }

  const std::string path_ = absl::StrCat(
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name(),
      ".tar.gz");
};

TEST_F(TarGzTest, TarUnpacksWhatWentIn) {
  TarGz archive(absl::FromUnixSeconds(1'700'000'000));
  const std::string block(512, 'b');
  archive.Add("top/empty", "");
  archive.Add("top/block", block);
  archive.Add("top/logs/text", "two\nlines\n");
  Write(archive);
  EXPECT_EQ(OutputOf(absl::StrCat("tar -tzf ", path_)),
            "top/empty\ntop/block\ntop/logs/text\n");
  EXPECT_EQ(OutputOf(absl::StrCat("tar -xzOf ", path_, " top/logs/text")),
            "two\nlines\n");
  EXPECT_EQ(OutputOf(absl::StrCat("tar -xzOf ", path_, " top/block")), block);
  EXPECT_EQ(OutputOf(absl::StrCat("tar -xzOf ", path_, " top/empty")), "");
  EXPECT_THAT(OutputOf(absl::StrCat("TZ=UTC tar -tvzf ", path_)),
              HasSubstr("2023-11-14 22:13 top/empty"));
}

TEST_F(TarGzTest, ALargeFileAndALongNameAreWhole) {
  std::string content;
  for (int i = 0; content.size() < (8u << 20); ++i)
    absl::StrAppend(&content, i * 7919 % 10007, "\n");
  const std::string name(TarGz::kMaxName, 'n');
  TarGz archive(absl::UnixEpoch());
  archive.Add(name, content);
  Write(archive);
  EXPECT_EQ(OutputOf(absl::StrCat("tar -xzOf ", path_, " ", name)), content);
}

TEST_F(TarGzTest, AnArchiveOfNothingIsOne) {
  TarGz archive(absl::UnixEpoch());
  Write(archive);
  EXPECT_EQ(OutputOf(absl::StrCat("tar -tzf ", path_)), "");
}

}  // namespace
}  // namespace ringmaster::ctl
