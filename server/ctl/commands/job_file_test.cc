#include "server/ctl/commands/job_file.h"

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

std::string FileOf(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path) << text;
  return path;
}

TEST(JobFileTest, TheExampleIsAGoodJob) {
  const auto spec = LoadJobFile("deploy/local/job.yaml", {});
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto checked = ValidateAndDefault(*spec);
  EXPECT_TRUE(checked.ok()) << checked.status();
}

// Makes std::cin read `text` during its lifetime.
class StandardInput {
 public:
  explicit StandardInput(const std::string& text)
      : text_(text), before_(std::cin.rdbuf(text_.rdbuf())) {}
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;
  ~StandardInput() { std::cin.rdbuf(before_); }

 private:
  std::istringstream text_;
  std::streambuf* before_;
};

TEST(JobFileTest, ReadsStandardInput) {
  const StandardInput input("name: piped\ntrain:\n  steps: 3\n");
  const auto spec = LoadJobFile("-", {"train.steps=60"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name(), "piped");
  EXPECT_EQ(spec->train().steps(), 60);
}

TEST(JobFileTest, NamesTheLineOfStandardInputThatIsWrong) {
  const StandardInput input("name: j\ntrain:\n  stepz: 3\n");
  const absl::Status status = LoadJobFile("-", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("standard input:3"));
}

TEST(JobFileTest, RefusesAnEmptyStandardInput) {
  const StandardInput input("");
  const absl::Status status = LoadJobFile("-", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("<job.yaml"));
}

TEST(JobFileTest, AppliesAssignmentsInOrder) {
  const auto spec =
      LoadJobFile("deploy/local/job.yaml",
                  {"train.steps=60", "workers.settle=1.5s", "train.steps=70"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->train().steps(), 70);
  EXPECT_EQ(spec->workers().settle().nanos(), 500'000'000);
}

TEST(JobFileTest, NamesTheFileAndTheLineOfAMistake) {
  const std::string path =
      FileOf("mistake.yaml", "name: j\ntrain:\n  stepz: 3\n");
  const absl::Status status = LoadJobFile(path, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("mistake.yaml:3"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("stepz"));
}

TEST(JobFileTest, NamesTheFileThatIsMissing) {
  EXPECT_THAT(
      std::string(LoadJobFile("/nonexistent.yaml", {}).status().message()),
      HasSubstr("/nonexistent.yaml"));
}

TEST(JobFileTest, NamesTheAssignmentThatIsWrong) {
  const absl::Status status =
      LoadJobFile("deploy/local/job.yaml", {"train.stepz=3"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("stepz"));
}

TEST(JobFileTest, WritesAJobThatReadsBackAsTheSame) {
  auto spec = LoadJobFile("deploy/local/job.yaml", {"workers.settle=1.5s"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  spec->mutable_train()->mutable_data()->mutable_text()->set_path(
      "/with \"quotes\"\tand \xC3\xBC");
  spec->mutable_train()->mutable_optimizer()->mutable_adamw()->set_epsilon(
      1e-8);
  spec = ValidateAndDefault(*spec);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto again = LoadJobFile(FileOf("again.yaml", ToYaml(*spec)), {});
  ASSERT_TRUE(again.ok()) << again.status() << ToYaml(*spec);
  EXPECT_EQ(again->SerializeAsString(), spec->SerializeAsString())
      << ToYaml(*spec);
}

TEST(JobFileTest, WritesListsMapsAndEnumsAsTheyAreRead) {
  v1::JobSpec spec;
  spec.set_name("j");
  v1::TrainProgram& train = *spec.mutable_train();
  train.mutable_model()->mutable_cnn()->add_filters(64);
  train.mutable_model()->mutable_cnn()->add_filters(8);
  train.set_precision(v1::PRECISION_BFLOAT16);
  const std::string yaml = ToYaml(spec);
  EXPECT_THAT(yaml, HasSubstr("filters: [64, 8]\n"));
  EXPECT_THAT(yaml, HasSubstr("precision: bfloat16\n"));
  auto again = LoadJobFile(FileOf("lists.yaml", yaml), {});
  ASSERT_TRUE(again.ok()) << again.status() << yaml;
  EXPECT_EQ(again->SerializeAsString(), spec.SerializeAsString());
  auto& custom = *train.mutable_model()->mutable_custom();
  custom.set_name("mixer");
  (*custom.mutable_settings())["width"] = 64;
  (*custom.mutable_settings())["rate"] = 0.1;
  const std::string map = ToYaml(spec);
  EXPECT_THAT(map, HasSubstr("settings: {\"rate\": 0.1, \"width\": 64}\n"));
  again = LoadJobFile(FileOf("maps.yaml", map),
                      {"train.model.custom.settings={width: 32}"});
  ASSERT_TRUE(again.ok()) << again.status() << map;
  EXPECT_EQ(again->train().model().custom().settings().at("width"), 32);
}

TEST(JobFileTest, WritesNestedFieldsAndEmptyMessages) {
  v1::JobSpec spec;
  spec.set_name("j");
  spec.mutable_workers()->set_min(2);
  spec.mutable_train()->mutable_model()->mutable_mlp();
  EXPECT_EQ(ToYaml(spec),
            "name: \"j\"\nworkers:\n  min: 2\ntrain:\n  model:\n    mlp: {}\n");
}

TEST(FitToLocalWorkersTest, TakesTheWorkersThatAreStarted) {
  v1::JobSpec spec;
  spec.mutable_workers()->set_min(1);
  spec.mutable_workers()->set_max(2);
  EXPECT_EQ(*FitToLocalWorkers(4, spec), 4);
  EXPECT_EQ(spec.workers().min(), 1);
  EXPECT_EQ(spec.workers().max(), 4);
  EXPECT_EQ(spec.workers().settle().seconds(), 20);
}

TEST(FitToLocalWorkersTest, TakesTheJobsOwnNumberByDefault) {
  v1::JobSpec spec;
  EXPECT_EQ(*FitToLocalWorkers(0, spec), 1);
  spec.mutable_workers()->set_min(3);
  spec.mutable_workers()->clear_max();
  spec.mutable_workers()->mutable_settle()->set_seconds(1);
  EXPECT_EQ(*FitToLocalWorkers(0, spec), 3);
  EXPECT_EQ(spec.workers().settle().seconds(), 1);
}

TEST(FitToLocalWorkersTest, ABenchmarkTakesThemAll) {
  v1::JobSpec spec;
  spec.mutable_bench();
  EXPECT_EQ(*FitToLocalWorkers(4, spec), 4);
  EXPECT_EQ(spec.workers().min(), 4);
  EXPECT_EQ(spec.workers().max(), 4);
}

TEST(JobFileTest, WritesABenchmarkThatReadsBackAsTheSame) {
  v1::JobSpec spec;
  spec.set_name("pairs");
  spec.mutable_workers()->set_min(2);
  spec.mutable_bench()->add_sizes(4096);
  spec.mutable_bench()->set_type(v1::BENCH_TYPE_BFLOAT16);
  const auto whole = ValidateAndDefault(spec);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string yaml = ToYaml(*whole);
  EXPECT_THAT(yaml, HasSubstr("sizes: [4096]\n"));
  EXPECT_THAT(yaml, HasSubstr("type: bfloat16\n"));
  const auto again = LoadJobFile(FileOf("bench.yaml", yaml), {});
  ASSERT_TRUE(again.ok()) << again.status() << yaml;
  EXPECT_EQ(again->SerializeAsString(), whole->SerializeAsString());
}

TEST(FitToLocalWorkersTest, RefusesFewerThanTheJobNeeds) {
  v1::JobSpec spec;
  spec.mutable_workers()->set_min(3);
  EXPECT_THAT(std::string(FitToLocalWorkers(2, spec).status().message()),
              HasSubstr("give -n 3"));
}

}  // namespace
}  // namespace ringmaster::ctl
