#include "common/config/read_file.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

std::string FileWith(const std::string& text) {
  const std::string path = testing::TempDir() + "/file";
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(ReadTextFileTest, ReadsEveryByte) {
  const std::string text("a\r\n\0b", 5);
  EXPECT_EQ(*ReadTextFile(FileWith(text)), text);
  EXPECT_EQ(*ReadTextFile(FileWith("")), "");
  const std::string largest(kMaxTextFileBytes, 'x');
  EXPECT_EQ(*ReadTextFile(FileWith(largest)), largest);
}

TEST(ReadTextFileTest, SaysWhyNot) {
  EXPECT_EQ(ReadTextFile("/no/file").status(),
            absl::InvalidArgumentError("No such file or directory"));
  EXPECT_EQ(ReadTextFile("/").status(),
            absl::InvalidArgumentError("Is a directory"));
  EXPECT_EQ(
      ReadTextFile(FileWith(std::string(kMaxTextFileBytes + 1, 'x'))).status(),
      absl::InvalidArgumentError("is larger than 1048576 bytes"));
}

}  // namespace
}  // namespace ringmaster
