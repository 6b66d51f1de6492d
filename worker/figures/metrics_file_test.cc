#include "worker/figures/metrics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "worker/figures/testing/testing_files.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MetricsFileTest, WritesAStepWithAllItsFigures) {
  const std::string path = FreshDirectory() + "/metrics.jsonl";
  absl::StatusOr<MetricsFile> file = MetricsFile::Open(path, 0);
  ASSERT_TRUE(file.ok()) << file.status();
  file->AppendStep(1700000000.5, {.step = 7,
                                  .loss = 0.1,
                                  .gradient_norm = 1.5,
                                  .learning_rate = 6e-4,
                                  .tokens_per_second = 12345,
                                  .samples_per_second = 12,
                                  .model_flops_utilization = 0.375,
                                  .seconds = {.data_wait = 0.01,
                                              .forward = 0.02,
                                              .backward = 0.04,
                                              .communication_wait = 0.08,
                                              .commit = 0.16,
                                              .optimizer = 0.32,
                                              .checkpoint_snapshot = 0.64,
                                              .total = 1.28},
                                  .wire_payload_bytes = int64_t{1} << 60,
                                  .wire_theory_bytes = 1000,
                                  .world_size = 4,
                                  .generation = 3});
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(ContentOf(path),
            "{\"step\":7,\"kind\":\"step\",\"time\":1700000000.5,\"loss\":0.1,"
            "\"gradient_norm\":1.5,\"learning_rate\":6e-04,"
            "\"tokens_per_second\":12345,\"samples_per_second\":12,"
            "\"model_flops_utilization\":0.375,\"data_wait_seconds\":0.01,"
            "\"forward_seconds\":0.02,\"backward_seconds\":0.04,"
            "\"communication_wait_seconds\":0.08,\"commit_seconds\":0.16,"
            "\"optimizer_seconds\":0.32,\"checkpoint_snapshot_seconds\":0.64,"
            "\"total_seconds\":1.28,\"wire_payload_bytes\":1152921504606846976,"
            "\"wire_theory_bytes\":1000,\"world_size\":4,\"generation\":3}\n");
}

TEST(MetricsFileTest, NumbersThatAreNoneAreNull) {
  const std::string path = FreshDirectory() + "/metrics.jsonl";
  absl::StatusOr<MetricsFile> file = MetricsFile::Open(path, 0);
  ASSERT_TRUE(file.ok()) << file.status();
  file->AppendStep(0,
                   {.step = 1,
                    .loss = std::numeric_limits<double>::quiet_NaN(),
                    .gradient_norm = std::numeric_limits<double>::infinity(),
                    .learning_rate = -std::numeric_limits<double>::infinity()});
  ASSERT_TRUE(file->Flush().ok());
  const auto line = nlohmann::json::parse(ContentOf(path));
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["gradient_norm"].is_null());
  EXPECT_TRUE(line["learning_rate"].is_null());
  EXPECT_TRUE(line["model_flops_utilization"].is_null());
  EXPECT_EQ(line["total_seconds"], 0);
}

TEST(MetricsFileTest, WritesEvaluationsSamplesAndCheckpoints) {
  const std::string path = FreshDirectory() + "/metrics.jsonl";
  absl::StatusOr<MetricsFile> file = MetricsFile::Open(path, 0);
  ASSERT_TRUE(file.ok()) << file.status();
  file->AppendEvaluation(1, 10, {2.5, 0.75, 0.875, 0.5});
  file->AppendEvaluation(2, 20, {2.25});
  file->AppendSample(3, 20, "a \"b\"\n", "c\\\xff\xe2\x82");
  file->AppendCheckpoint(4, 20, absl::Milliseconds(1500), 4096);
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(ContentOf(path),
            "{\"step\":10,\"kind\":\"evaluation\",\"time\":1,\"loss\":2.5,"
            "\"accuracy\":0.75,\"top5_accuracy\":0.875,\"macro_f1\":0.5}\n"
            "{\"step\":20,\"kind\":\"evaluation\",\"time\":2,\"loss\":2.25,"
            "\"accuracy\":null}\n"
            "{\"step\":20,\"kind\":\"sample\",\"time\":3,"
            "\"prompt\":\"a \\\"b\\\"\\n\","
            "\"text\":\"c\\\\\xef\xbf\xbd\xef\xbf\xbd\"}\n"
            "{\"step\":20,\"kind\":\"checkpoint\",\"time\":4,"
            "\"duration_seconds\":1.5,\"bytes\":4096}\n");
}

TEST(MetricsFileTest, AResumedJobTellsOneStory) {
  const std::string path = FreshDirectory() + "/metrics.jsonl";
  WriteContent(path,
               "{\"step\":1,\"kind\":\"step\"}\n"
               "{\"step\":2,\"kind\":\"step\"}\n"
               "{\"step\":10,\"kind\":\"step\"}\n"
               "{\"step\":2,\"kind\":\"checkpoint\"}\n"
               "{\"step\":11,\"kind\":\"step\"}\n"
               "{\"step\":2,\"kind\":\"evalua");
  absl::StatusOr<MetricsFile> file = MetricsFile::Open(path, 2);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->removed_lines(), 3);
  EXPECT_EQ(ContentOf(path),
            "{\"step\":1,\"kind\":\"step\"}\n"
            "{\"step\":2,\"kind\":\"step\"}\n"
            "{\"step\":2,\"kind\":\"checkpoint\"}\n");
  file->AppendEvaluation(0, 3, {1, 1});
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_THAT(ContentOf(path), HasSubstr("\"checkpoint\"}\n{\"step\":3,"));
}

TEST(MetricsFileTest, AFileWithNothingToRemoveIsLeftAsItIs) {
  const std::string path = FreshDirectory() + "/metrics.jsonl";
  const std::string content =
      "# a line of someone else\n\n{\"step\":x}\n{\"step\":5,\"kind\":\"a\"}\n";
  WriteContent(path, content);
  const absl::StatusOr<MetricsFile> file = MetricsFile::Open(path, 5);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->removed_lines(), 0);
  EXPECT_EQ(ContentOf(path), content);
}

TEST(MetricsFileTest, AFullDiskLeavesWholeLines) {
  const std::string path = FreshDirectory() + "/metrics.jsonl";
  absl::StatusOr<MetricsFile> file = MetricsFile::Open(path, 0);
  ASSERT_TRUE(file.ok()) << file.status();
  const FullDisk disk(100);
  file->AppendEvaluation(1, 1, {1, 1});
  ASSERT_TRUE(file->Flush().ok());
  const std::string before = ContentOf(path);
  file->AppendEvaluation(2, 2, {2, 2});
  EXPECT_THAT(std::string(file->Flush().message()), HasSubstr(path));
  EXPECT_EQ(ContentOf(path), before);
}

TEST(MetricsFileTest, WritesToADeviceWithoutReadingIt) {
  absl::StatusOr<MetricsFile> file = MetricsFile::Open("/dev/full", 0);
  ASSERT_TRUE(file.ok()) << file.status();
  file->AppendEvaluation(1, 1, {1, 1});
  EXPECT_EQ(file->Flush().code(), absl::StatusCode::kResourceExhausted);
}

TEST(MetricsFileTest, ADirectoryInItsPlaceIsNamed) {
  const std::string directory = FreshDirectory();
  const absl::Status status = MetricsFile::Open(directory, 0).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(directory));
}

// Two or three lines of steps.
constexpr int64_t kFewBytes = 1000;

void AppendSteps(MetricsFile& file, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) {
    file.AppendStep(0, {.step = step});
    ASSERT_TRUE(file.Flush().ok());
  }
}

std::vector<int64_t> StepsIn(const std::string& path) {
  std::istringstream lines(ContentOf(path));
  std::vector<int64_t> steps;
  for (std::string line; std::getline(lines, line);)
    steps.push_back(nlohmann::json::parse(line)["step"]);
  return steps;
}

TEST(MetricsFileTest, IsRotatedOnceItIsLarge) {
  const std::string path = FreshDirectory() + "/metrics.jsonl";
  absl::StatusOr<MetricsFile> file = MetricsFile::Open(path, 0, kFewBytes);
  ASSERT_TRUE(file.ok()) << file.status();
  AppendSteps(*file, 1, 8);
  EXPECT_THAT(StepsIn(path + ".1"), ElementsAre(4, 5, 6));
  EXPECT_THAT(StepsIn(path), ElementsAre(7, 8));
}

TEST(MetricsFileTest, ARollbackReachesIntoTheRotatedFile) {
  const std::string path = FreshDirectory() + "/metrics.jsonl";
  {
    absl::StatusOr<MetricsFile> file = MetricsFile::Open(path, 0, kFewBytes);
    ASSERT_TRUE(file.ok()) << file.status();
    AppendSteps(*file, 1, 8);
  }
  absl::StatusOr<MetricsFile> same = MetricsFile::Open(path, 7, kFewBytes);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->removed_lines(), 1);
  EXPECT_THAT(StepsIn(path), ElementsAre(7));
  absl::StatusOr<MetricsFile> back = MetricsFile::Open(path, 5, kFewBytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->removed_lines(), 2);
  EXPECT_EQ(back->last().step, 5);
  AppendSteps(*back, 6, 6);
  EXPECT_THAT(StepsIn(path + ".1"), ElementsAre(4, 5, 6));
}

TEST(MetricsFileTest, ARotationThatWasCutShortGoesOnWhereItWas) {
  const std::string directory = FreshDirectory();
  const std::string path = directory + "/metrics.jsonl";
  {
    absl::StatusOr<MetricsFile> file = MetricsFile::Open(path, 0, kFewBytes);
    ASSERT_TRUE(file.ok()) << file.status();
    AppendSteps(*file, 1, 2);
  }
  // Its file was renamed, and no new one was made.
  std::filesystem::rename(path, path + ".1");
  // Named by a link, which leads nowhere then.
  const std::string link = directory + "/link.jsonl";
  std::filesystem::create_symlink("metrics.jsonl", link);
  absl::StatusOr<MetricsFile> file = MetricsFile::Open(link, 2, kFewBytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->last().step, 2);
  EXPECT_THAT(StepsIn(path), ElementsAre(1, 2));
  EXPECT_FALSE(std::filesystem::exists(path + ".1"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST(MetricsFileTest, RemembersTheLastStepsOfTheRotatedFile) {
  const std::string path = FreshDirectory() + "/metrics.jsonl";
  {
    absl::StatusOr<MetricsFile> file = MetricsFile::Open(path, 0, kFewBytes);
    ASSERT_TRUE(file.ok()) << file.status();
    file->AppendEvaluation(0, 1, {2.5});
    AppendSteps(*file, 1, 4);
  }
  EXPECT_THAT(StepsIn(path), ElementsAre(4));
  absl::StatusOr<MetricsFile> file = MetricsFile::Open(path, 4, kFewBytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->last().evaluation, 1);
  EXPECT_EQ(file->last().step, 4);
}

}  // namespace
}  // namespace ringmaster
