#include "worker/data/data_identity.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringmaster {
namespace {

std::vector<HashedFile> FilesOf(int count) {
  std::vector<HashedFile> files;
  for (int i = 0; i < count; ++i)
    files.push_back({"/data/" + std::to_string(i), 10, 7});
  return files;
}

TEST(DataIdentityTest, HasAPartForEachFile) {
  EXPECT_EQ(IdentityOf({}).parts_size(), 0);
  const v1::DataIdentity identity =
      IdentityOf({{"/a", 10, 1}, {"/b", 10, 2}, {"/c", 10, 1}});
  ASSERT_EQ(identity.parts_size(), 3);
  EXPECT_EQ(identity.parts(1).first_file(), "/b");
  EXPECT_EQ(identity.parts(1).files(), 1);
  EXPECT_EQ(identity.parts(1).size_bytes(), 10);
  EXPECT_NE(identity.parts(0).hash(), identity.parts(1).hash());
  EXPECT_EQ(identity.parts(0).hash(), identity.parts(2).hash());
}

TEST(DataIdentityTest, ManyFilesShareParts) {
  for (const int count : {64, 65, 1000}) {
    std::vector<HashedFile> files = FilesOf(count);
    const v1::DataIdentity identity = IdentityOf(files);
    ASSERT_EQ(identity.parts_size(), 64);
    int64_t covered = 0;
    for (const v1::DataPart& part : identity.parts()) {
      EXPECT_EQ(part.first_file(), files[static_cast<size_t>(covered)].path);
      EXPECT_EQ(part.size_bytes(), 10 * part.files());
      covered += part.files();
    }
    EXPECT_EQ(covered, count);
    // A file in the middle shows in its part alone.
    files[static_cast<size_t>(count / 2)].hash = 8;
    const v1::DataIdentity other = IdentityOf(files);
    int different = 0;
    for (int i = 0; i < 64; ++i)
      different += identity.parts(i).hash() != other.parts(i).hash() ? 1 : 0;
    EXPECT_EQ(different, 1);
  }
}

}  // namespace
}  // namespace ringmaster
