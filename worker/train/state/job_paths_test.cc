#include "worker/train/state/job_paths.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/field_rule.pb.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

class JobPathsTest : public ::testing::Test {
 protected:
  JobPathsTest() {
    fs::remove_all(base_);
    fs::create_directories(base_ + "/data");
    fs::create_directories(base_ + "/out");
    files_ =
        FileRoots::Open({.read = {base_ + "/data"}, .write = {base_ + "/out"}})
            .value();
  }

  const std::string base_ = ::testing::TempDir() + "/job_paths";
  FileRoots files_;
};

// Every field that names a path, with the field's name.
std::vector<std::pair<
    std::string, std::function<void(const std::string&, v1::TrainProgram&)>>>
PathFields() {
  using P = v1::TrainProgram;
  using S = const std::string&;
  return {
      {"train.data.text.path",
       [](S s, P& p) { p.mutable_data()->mutable_text()->set_path(s); }},
      {"train.data.text.vocabulary",
       [](S s, P& p) { p.mutable_data()->mutable_text()->set_vocabulary(s); }},
      {"train.data.text.merges",
       [](S s, P& p) { p.mutable_data()->mutable_text()->set_merges(s); }},
      {"train.data.tokens.path",
       [](S s, P& p) { p.mutable_data()->mutable_tokens()->set_path(s); }},
      {"train.data.tokens.evaluation_path",
       [](S s, P& p) {
         p.mutable_data()->mutable_tokens()->set_evaluation_path(s);
       }},
      {"train.data.images.images",
       [](S s, P& p) { p.mutable_data()->mutable_images()->set_images(s); }},
      {"train.data.images.labels",
       [](S s, P& p) { p.mutable_data()->mutable_images()->set_labels(s); }},
      {"train.data.images.evaluation_images",
       [](S s, P& p) {
         p.mutable_data()->mutable_images()->set_evaluation_images(s);
       }},
      {"train.data.images.evaluation_labels",
       [](S s, P& p) {
         p.mutable_data()->mutable_images()->set_evaluation_labels(s);
       }},
      {"train.data.image_folder.path",
       [](S s, P& p) {
         p.mutable_data()->mutable_image_folder()->set_path(s);
       }},
      {"train.data.image_folder.evaluation_path",
       [](S s, P& p) {
         p.mutable_data()->mutable_image_folder()->set_evaluation_path(s);
       }},
      {"train.data.labelled_text.path",
       [](S s, P& p) {
         p.mutable_data()->mutable_labelled_text()->set_path(s);
       }},
      {"train.data.labelled_text.evaluation_path",
       [](S s, P& p) {
         p.mutable_data()->mutable_labelled_text()->set_evaluation_path(s);
       }},
      {"train.data.labelled_text.vocabulary",
       [](S s, P& p) {
         p.mutable_data()->mutable_labelled_text()->set_vocabulary(s);
       }},
      {"train.data.labelled_text.merges",
       [](S s, P& p) {
         p.mutable_data()->mutable_labelled_text()->set_merges(s);
       }},
      {"train.initial_parameters",
       [](S s, P& p) { p.set_initial_parameters(s); }},
      {"train.checkpoint.directory",
       [](S s, P& p) { p.mutable_checkpoint()->set_directory(s); }},
  };
}

TEST_F(JobPathsTest, HoldsEveryPathAgainstTheRoots) {
  for (const auto& [name, set] : PathFields()) {
    const bool writes = name == "train.checkpoint.directory";
    v1::TrainProgram program;
    set(base_ + (writes ? "/out/job" : "/data/file"), program);
    EXPECT_TRUE(CheckPaths(program, files_).ok()) << name;
    set(base_ + "/elsewhere/file", program);
    const absl::Status status = CheckPaths(program, files_);
    EXPECT_TRUE(absl::StartsWith(
        status.message(),
        absl::StrCat(name, ": ", base_, "/elsewhere/file is not beneath")))
        << status;
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  writes ? "--allow_write=" : "--allow_read="))
        << status;
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
    EXPECT_TRUE(IsOutsideRoots(status));
    EXPECT_TRUE(CheckPaths(program, FileRoots()).ok());
  }
}

TEST_F(JobPathsTest, WhatMayBeReadMayNotBeWritten) {
  v1::TrainProgram program;
  program.mutable_checkpoint()->set_directory(base_ + "/data/job");
  EXPECT_FALSE(CheckPaths(program, files_).ok());
  program.mutable_checkpoint()->set_directory(base_ + "/out/job");
  program.set_initial_parameters(base_ + "/out/job/latest");
  EXPECT_TRUE(CheckPaths(program, files_).ok());
}

TEST_F(JobPathsTest, GeneratedDataNeedNone) {
  v1::TrainProgram program;
  program.mutable_data()->mutable_synthetic()->set_samples(10);
  EXPECT_TRUE(CheckPaths(program, FileRoots::Open({}).value()).ok());
}

int CountPaths(const google::protobuf::Descriptor& type) {
  int count = 0;
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    const bool is_path =
        !field.options().GetExtension(v1::rule).path_of().empty();
    EXPECT_FALSE(is_path && field.is_repeated()) << field.full_name();
    count += is_path ? 1 : 0;
    if (field.message_type() != nullptr &&
        absl::StartsWith(field.message_type()->full_name(), "ringmaster."))
      count += CountPaths(*field.message_type());
  }
  return count;
}

TEST_F(JobPathsTest, KnowsAllFieldsOfAJobThatArePaths) {
  EXPECT_EQ(static_cast<size_t>(CountPaths(*v1::TrainProgram::descriptor())),
            PathFields().size());
}

}  // namespace
}  // namespace ringmaster
