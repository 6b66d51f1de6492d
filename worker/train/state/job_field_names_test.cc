#include "worker/train/state/job_field_names.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

TEST(JobFieldNamesTest, AFieldHasTheNameThatTheJobGivesIt) {
  EXPECT_EQ(InJobFields("data.labels_path: /x/labels: too short", "images"),
            "train.data.images.labels: /x/labels: too short");
  EXPECT_EQ(InJobFields("data.path: /x", "images"),
            "train.data.images.images: /x");
  EXPECT_EQ(InJobFields("data.path: /x", "tokens"),
            "train.data.tokens.path: /x");
  EXPECT_EQ(InJobFields("data.merges_path: /x", "text"),
            "train.data.text.merges: /x");
}

TEST(JobFieldNamesTest, EachOfSeveralFieldsIsNamed) {
  EXPECT_EQ(
      InJobFields("data.path: /x holds more than data.max_bytes = 5", "text"),
      "train.data.text.path: /x holds more than train.data.text.max_bytes "
      "= 5");
}

TEST(JobFieldNamesTest, FilesAndOtherWordsStayAsTheyAre) {
  for (const char* message :
       {"", "no field at all", "/my/data.path: gone", "data.shape.pixels is 0",
        "/x/data.", "read data.pathology"}) {
    EXPECT_EQ(InJobFields(message, "images"), message);
  }
}

}  // namespace
}  // namespace ringmaster
