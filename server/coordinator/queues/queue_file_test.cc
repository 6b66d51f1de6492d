#include "server/coordinator/queues/queue_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "common/config/yaml_to_proto.h"

namespace ringmaster::coordinator {
namespace {

std::string ErrorOf(const std::string& yaml) {
  v1::QueueFile file;
  absl::Status status = YamlToProto(yaml, "q.yaml", file);
  if (status.ok()) status = CheckQueues(file);
  return std::string(status.message());
}

TEST(QueueFileTest, SaysWhatIsWrongInWhichQueue) {
  EXPECT_EQ(
      ErrorOf("queues: [{name: a, workers: 4, most_workers: 8, weight: 2, "
              "jobs_per_submitter: 3, submitters: [alice]}]\n"
              "half_life: 2h\n"),
      "");
  EXPECT_EQ(ErrorOf("queues: []\n"), "");
  EXPECT_EQ(
      ErrorOf("queues: [{name: A}]\n"),
      "queues[0] (\"A\"): name must be 1 to 40 lower-case letters, digits "
      "and dashes, begin with a letter and not end with a dash, got "
      "\"A\"");
  EXPECT_EQ(ErrorOf("queues: [{name: a, workers: 4, most_workers: 2}]\n"),
            "queues[0] (\"a\"): most_workers is 2, below its workers, 4");
  EXPECT_EQ(ErrorOf("queues: [{name: a, workers: 4, gpus: 5}]\n"),
            "queues[0] (\"a\"): gpus is 5, above its workers, 4");
  EXPECT_EQ(ErrorOf("queues: [{name: a, workers: -1}]\n"),
            "queues[0] (\"a\"): workers must be 0 to 1000000, got -1");
  EXPECT_EQ(ErrorOf("queues: [{name: a}, {name: a}]\n"),
            "queues[1] (\"a\"): it is here twice");
  EXPECT_EQ(
      ErrorOf("queues: [{name: a, weight: 0}]\n"),
      "queues[0] (\"a\"): weight must be above 0 and at most 1000, got 0");
  EXPECT_EQ(
      ErrorOf("queues: [{name: a, jobs_per_submitter: 0}]\n"),
      "queues[0] (\"a\"): jobs_per_submitter must be 1 to 1000000, got 0");
  EXPECT_EQ(ErrorOf("queues: [{name: a, submitters: ['b c']}]\n"),
            "queues[0] (\"a\"): submitters: \"b c\" cannot be the name of "
            "anybody");
  EXPECT_EQ(ErrorOf("queues: []\nhalf_life: 1s\n"),
            "half_life must be 1m to 8784h, got 1s");
}

TEST(QueueFileTest, OneThatIsWrongChangesNothing) {
  const std::string path = std::string(testing::TempDir()) + "/queues.yaml";
  const auto write = [&](const std::string& text) {
    std::ofstream(path) << text;
  };
  write("queues: [{name: a}]\n");
  QueueFileWatch watch(path);
  ASSERT_TRUE(watch.Poll().ok());
  ASSERT_TRUE(watch.file().has_value());
  EXPECT_EQ(watch.file()->queues_size(), 1);
  write("queues: [{name: a, workers: many}]\n");
  const absl::Status refused = watch.Poll();
  EXPECT_EQ(refused.message().substr(0, path.size()), path) << refused;
  // It is said once.
  EXPECT_TRUE(watch.Poll().ok());
  EXPECT_EQ(watch.file()->queues_size(), 1);
  write("queues: [{name: a}, {name: bb, workers: 2}]\n");
  ASSERT_TRUE(watch.Poll().ok());
  EXPECT_EQ(watch.file()->queues_size(), 2);
}

TEST(QueueFileTest, WithoutAFileThereIsNothingToFollow) {
  QueueFileWatch watch("");
  EXPECT_TRUE(watch.Poll().ok());
  EXPECT_FALSE(watch.file().has_value());
}

}  // namespace
}  // namespace ringmaster::coordinator
