#include "worker/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "worker/checkpoint/checkpoint_directory.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/testing/test_files.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

class CheckpointTest : public ::testing::Test {
 protected:
  ~CheckpointTest() override { FailPoint::DisarmAll(); }

  // The path of a new checkpoint of `step`.
  std::string Write(int64_t step, const CheckpointWriteOptions& options = {}) {
    const absl::StatusOr<WrittenCheckpoint> written =
        WriteCheckpoint(directory_, job_.ContentsAt(step), options);
    EXPECT_TRUE(written.ok()) << written.status();
    if (!written.ok()) return "";
    EXPECT_TRUE(written->removal.ok()) << written->removal;
    return written->path;
  }

  absl::Status ReadError(const std::string& path, const Plan& plan) {
    std::vector<float> parameters(static_cast<size_t>(plan.total_elems()));
    return ReadCheckpoint(path, plan,
                          {.parameters = absl::MakeSpan(parameters)})
        .status();
  }

  const std::string directory_ = FreshDirectory() + "/checkpoints";
  TestJob job_;
};

TEST_F(CheckpointTest, ReadsWhatWasWritten) {
  CheckpointContents contents = job_.ContentsAt(120);
  contents.config_json = R"({"model_type":"gpt2"})";
  const absl::StatusOr<WrittenCheckpoint> written =
      WriteCheckpoint(directory_, contents);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->path, directory_ + "/step-000000120");
  EXPECT_THAT(NamesIn(directory_), ElementsAre("latest", "step-000000120"));
  EXPECT_THAT(NamesIn(written->path),
              ElementsAre("checkpoint.json", "config.json", "model.safetensors",
                          "optimizer.safetensors"));
  EXPECT_EQ(ReadFile(written->path + "/config.json"), contents.config_json);
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(written->path))
    bytes += static_cast<int64_t>(entry.file_size());
  EXPECT_EQ(written->bytes, bytes);

  // The previous contents of the arenas, including padding, are gone.
  std::vector<float> parameters(job_.parameters.size(), -1);
  std::vector<float> first(job_.parameters.size(), -1);
  std::vector<float> second(job_.parameters.size(), -1);
  const absl::StatusOr<CheckpointManifest> manifest =
      ReadCheckpoint(written->path, job_.plan,
                     {.parameters = absl::MakeSpan(parameters),
                      .first_moment = absl::MakeSpan(first),
                      .second_moment = absl::MakeSpan(second)});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(parameters, job_.parameters);
  EXPECT_EQ(first, job_.first_moment);
  EXPECT_EQ(second, job_.second_moment);
  EXPECT_EQ(manifest->step, 120);
  EXPECT_EQ(manifest->plan_text, job_.plan.ToString());
  EXPECT_EQ(manifest->plan_hash, job_.plan.hash());
  EXPECT_EQ(manifest->model_kind, "small");
  EXPECT_EQ(manifest->model_settings, "width=3");
  EXPECT_EQ(manifest->program_text, "seed=7");
  EXPECT_EQ(manifest->data_fingerprint, contents.data_fingerprint);
  EXPECT_EQ(manifest->creation_time, contents.creation_time);
  EXPECT_EQ(manifest->parameters_hash,
            XXH3_64bits(job_.parameters.data(),
                        job_.parameters.size() * sizeof(float)));
}

TEST_F(CheckpointTest, ModelFileHoldsTheParametersAlone) {
  const std::string path = Write(1);
  const absl::StatusOr<SafetensorsFile> file =
      SafetensorsFile::Open(path + "/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->tensors()[0].name, "transformer.wte.weight");
  EXPECT_EQ(file->tensors()[0].ShapeText(), "[5,3]");
  EXPECT_EQ(file->metadata().at("format"), "pt");
}

TEST_F(CheckpointTest, MomentsMayBeAbsentOrUnwanted) {
  CheckpointContents contents = job_.ContentsAt(1);
  contents.second_moment = {};
  std::string path = WriteCheckpoint(directory_, contents)->path;
  std::vector<float> first(job_.parameters.size());
  std::vector<float> second(job_.parameters.size());
  EXPECT_TRUE(
      ReadCheckpoint(path, job_.plan, {.first_moment = absl::MakeSpan(first)})
          .ok());
  EXPECT_EQ(first, job_.first_moment);
  absl::Status status =
      ReadCheckpoint(path, job_.plan, {.second_moment = absl::MakeSpan(second)})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              HasSubstr("second_moment/transformer.wte.weight is not in the "
                        "checkpoint"));

  contents.step = 2;
  contents.first_moment = {};
  path = WriteCheckpoint(directory_, contents)->path;
  EXPECT_THAT(NamesIn(path),
              ElementsAre("checkpoint.json", "model.safetensors"));
  status =
      ReadCheckpoint(path, job_.plan, {.first_moment = absl::MakeSpan(first)})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CheckpointTest, ReadingCanBeCancelled) {
  const std::string path = Write(1);
  std::vector<float> parameters(job_.parameters.size());
  CancelToken cancel;
  cancel.Cancel("halted");
  EXPECT_EQ(ReadCheckpoint(path, job_.plan,
                           {.parameters = absl::MakeSpan(parameters)}, &cancel)
                .status()
                .code(),
            absl::StatusCode::kAborted);
}

// The layout of the arena is the reader's.
TEST_F(CheckpointTest, TensorsAreFoundByName) {
  const std::string path = Write(1);
  std::vector<TensorSpec> specs;
  for (const PlannedTensor& tensor : job_.plan.tensors())
    specs.insert(specs.begin(), tensor.spec);
  const Plan reversed = PlanOf(specs);
  std::vector<float> parameters(static_cast<size_t>(reversed.total_elems()));
  ASSERT_TRUE(
      ReadCheckpoint(path, reversed, {.parameters = absl::MakeSpan(parameters)})
          .ok());
  const auto slice = [](const std::vector<float>& arena, ElemRange range) {
    return std::vector<float>(arena.begin() + range.begin,
                              arena.begin() + range.end());
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(slice(parameters, reversed.tensors()[2 - i].range),
              slice(job_.parameters, job_.plan.tensors()[i].range));
  }
}

TEST_F(CheckpointTest, NamesTheFirstTensorOfAnotherModel) {
  const std::string path = Write(1);
  const TensorSpec wte = {"transformer.wte.weight", {5, 3}, {}};
  const TensorSpec bias = {"transformer.h.0.ln_1.bias", {3}, {}};
  const TensorSpec fc = {"transformer.h.0.mlp.c_fc.weight", {3, 40}, {}};
  const struct {
    std::vector<TensorSpec> specs;
    std::string words;
  } cases[] = {
      {{{"transformer.wte.weight", {7, 3}, {}}, bias, fc},
       "transformer.wte.weight is [5,3] in the checkpoint, [7,3] in the job's "
       "model"},
      {{wte, bias, {"transformer.h.0.mlp.c_fc.weight", {40, 3}, {}}},
       "c_fc.weight is [3,40] in the checkpoint, [40,3] in the job's model"},
      {{wte, bias, fc, {"transformer.h.1.ln_1.bias", {3}, {}}},
       "transformer.h.1.ln_1.bias is not in the checkpoint, [3] in the job's "
       "model"},
      {{wte, fc},
       "transformer.h.0.ln_1.bias is [3] in the checkpoint, not in the job's "
       "model"},
  };
  for (const auto& c : cases) {
    const absl::Status status = ReadError(path, PlanOf(c.specs));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr(c.words));
  }
}

TEST_F(CheckpointTest, NamesDamagedBytes) {
  for (const std::string file :
       {"model.safetensors", "optimizer.safetensors"}) {
    const std::string path = Write(1);
    const auto size = fs::file_size(path + "/" + file);
    FlipByte(path + "/" + file, static_cast<int64_t>(size) - 1);
    const absl::Status status = VerifyCheckpoint(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(path + "/" + file),
                      HasSubstr(absl::StrCat("bytes [0, ", size, ")"))));
    std::vector<float> into(job_.parameters.size());
    EXPECT_EQ(ReadCheckpoint(path, job_.plan,
                             {.parameters = absl::MakeSpan(into),
                              .first_moment = absl::MakeSpan(into)})
                  .status()
                  .message(),
              status.message());
    // The sizes are unchanged, so the list cannot know.
    EXPECT_TRUE(ListCheckpoints(directory_)->at(0).problem.ok());
  }
}

TEST_F(CheckpointTest, ACutFileIsListedAsAProblem) {
  const std::string path = Write(1);
  fs::resize_file(path + "/model.safetensors", 100);
  const absl::Status status = ReadError(path, job_.plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("bytes [100, "));
  EXPECT_EQ(ListCheckpoints(directory_)->at(0).problem.code(),
            absl::StatusCode::kDataLoss);
  fs::remove(path + "/model.safetensors");
  EXPECT_EQ(ReadError(path, job_.plan).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ListCheckpoints(directory_)->at(0).problem.code(),
            absl::StatusCode::kDataLoss);
}

// Even if file and file hashes fit each other, the arena must fit its own hash.
TEST_F(CheckpointTest, ParametersMustHaveTheirHash) {
  const std::string path = Write(1);
  CheckpointManifest manifest = *ReadCheckpointManifest(path);
  manifest.parameters_hash ^= 1;
  WriteFile(path + "/checkpoint.json", EncodeManifest(manifest));
  EXPECT_EQ(ReadError(path, job_.plan).code(), absl::StatusCode::kDataLoss);
}

TEST_F(CheckpointTest, BrokenManifestsAreListedWithTheirProblem) {
  EXPECT_TRUE(ListCheckpoints(directory_)->empty());
  const std::string oldest = Write(1);
  const std::string middle = Write(20);
  const std::string newest = Write(1'234'567'890'123);
  FlipByte(middle + "/checkpoint.json", 30);
  fs::remove(oldest + "/checkpoint.json");
  fs::create_directory(directory_ + "/step-7");
  fs::create_directory(directory_ + "/other");
  const absl::StatusOr<std::vector<CheckpointSummary>> found =
      ListCheckpoints(directory_);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 3u);
  EXPECT_EQ(found->at(0).path, newest);
  EXPECT_EQ(found->at(0).step, 1'234'567'890'123);
  EXPECT_TRUE(found->at(0).problem.ok());
  EXPECT_EQ(found->at(0).manifest.step, 1'234'567'890'123);
  EXPECT_EQ(found->at(1).path, middle);
  EXPECT_EQ(found->at(1).problem.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(found->at(1).problem.message(), HasSubstr(middle));
  EXPECT_EQ(found->at(2).step, 1);
  EXPECT_EQ(found->at(2).problem.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadError(oldest, job_.plan).code(), absl::StatusCode::kNotFound);

  CheckpointManifest manifest = *ReadCheckpointManifest(newest);
  manifest.files.erase(manifest.files.begin());
  WriteFile(newest + "/checkpoint.json", EncodeManifest(manifest));
  EXPECT_THAT(ReadCheckpointManifest(newest).status().message(),
              HasSubstr("names no model.safetensors"));
}

TEST_F(CheckpointTest, KeepsTheNewestAndTheProtected) {
  const std::string first = Write(10);
  Write(20);
  Write(30);
  Write(40, {.keep = 2, .protect = first + "/"});
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre("latest", "step-000000010", "step-000000030",
                          "step-000000040"));
  Write(50, {.keep = 1});
  EXPECT_THAT(NamesIn(directory_), ElementsAre("latest", "step-000000050"));
  // A run that began anew leaves an earlier one's newer checkpoints alone.
  Write(5, {.keep = 1});
  Write(7, {.keep = 1});
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre("latest", "step-000000007", "step-000000050"));
}

TEST_F(CheckpointTest, NeverRemovesThoseOfAnotherJob) {
  const auto write = [&](const char* job_id, int64_t step) {
    CheckpointContents contents = job_.ContentsAt(step);
    contents.job_id = job_id;
    return WriteCheckpoint(directory_, contents, {.keep = 1}).status();
  };
  Write(10);  // of a release that wrote no job's id
  EXPECT_TRUE(write("first-1", 20).ok());
  EXPECT_TRUE(write("first-2", 30).ok());
  EXPECT_EQ(ReadCheckpointManifest(directory_ + "/step-000000030")->job_id,
            "first-2");
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre(".owner", "latest", "step-000000030"));
  EXPECT_THAT(write("second-3", 40).message(),
              HasSubstr("belongs to job first-1"));
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre(".owner", "latest", "step-000000030"));
  // Handed over with a checkpoint in it.
  fs::remove(directory_ + "/.owner");
  EXPECT_TRUE(write("second-3", 40).ok());
  EXPECT_TRUE(write("second-3", 50).ok());
  EXPECT_THAT(
      NamesIn(directory_),
      ElementsAre(".owner", "latest", "step-000000030", "step-000000050"));
}

TEST_F(CheckpointTest, KeepsTheOneWhoseFileIsProtected) {
  const std::string first = Write(10);
  Write(20);
  Write(30, {.keep = 1, .protect = first + "/model.safetensors"});
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre("latest", "step-000000010", "step-000000030"));
  // The directory of all checkpoints is not a checkpoint.
  Write(40, {.keep = 1, .protect = directory_});
  EXPECT_THAT(NamesIn(directory_), ElementsAre("latest", "step-000000040"));
}

TEST_F(CheckpointTest, LatestIsTheNewestCompleteOne) {
  const std::string latest = directory_ + "/latest";
  const auto target = [&] { return fs::read_symlink(latest).string(); };
  Write(10);
  EXPECT_EQ(target(), "step-000000010");
  EXPECT_TRUE(VerifyCheckpoint(latest).ok());
  const std::string newer = Write(20, {.keep = 2});
  EXPECT_EQ(target(), "step-000000020");
  // A run that began anew writes it.
  Write(5, {.keep = 2});
  EXPECT_EQ(target(), "step-000000020");
  fs::remove(newer + "/model.safetensors");
  Write(7, {.keep = 2});
  EXPECT_EQ(target(), "step-000000010");
}

TEST_F(CheckpointTest, TheBestStaysBesideThoseKept) {
  const auto write = [&](int64_t step, bool is_best) {
    CheckpointContents contents = job_.ContentsAt(step);
    contents.is_best = is_best;
    const auto written = WriteCheckpoint(directory_, contents, {.keep = 1});
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_TRUE(written->link.ok()) << written->link;
    EXPECT_TRUE(written->removal.ok()) << written->removal;
  };
  write(10, true);
  write(20, false);
  write(30, false);
  EXPECT_EQ(StepOfBest(directory_), 10);
  EXPECT_THAT(
      NamesIn(directory_),
      ElementsAre("best", "latest", "step-000000010", "step-000000030"));
  write(40, true);
  EXPECT_EQ(StepOfBest(directory_), 40);
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre("best", "latest", "step-000000040"));
  // A file of that name stays, and the result says so.
  fs::remove(directory_ + "/best");
  WriteFile(directory_ + "/best", "mine");
  CheckpointContents contents = job_.ContentsAt(50);
  contents.is_best = true;
  EXPECT_THAT(
      std::string(WriteCheckpoint(directory_, contents)->link.message()),
      HasSubstr("best does not point to it: "));
  EXPECT_EQ(StepOfBest(directory_), std::nullopt);
  fs::remove(directory_ + "/latest");
  WriteFile(directory_ + "/latest", "mine");
  contents.step = 60;
  const std::string message(
      WriteCheckpoint(directory_, contents)->link.message());
  EXPECT_THAT(message, HasSubstr("latest does not point to it: "));
  EXPECT_THAT(message, HasSubstr("; best does not point to it: "));
}

TEST_F(CheckpointTest, ACheckpointWithoutItsLinkCounts) {
  Write(10);
  for (const char* const name : {"checkpoint.link", "checkpoint.link_rename"}) {
    FailPoint::Arm(name, FailPoint::Action::kError);
    const auto written =
        WriteCheckpoint(directory_, job_.ContentsAt(20), {.keep = 1});
    FailPoint::Disarm(name);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(written->link.code(), absl::StatusCode::kUnavailable) << name;
    EXPECT_TRUE(written->removal.ok());
    EXPECT_THAT(NamesIn(directory_), ElementsAre("latest", "step-000000020"));
  }
  fs::remove(directory_ + "/latest");
  WriteFile(directory_ + "/latest", "mine");
  const auto written = WriteCheckpoint(directory_, job_.ContentsAt(30));
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(written->link.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadFile(directory_ + "/latest"), "mine");
}

TEST_F(CheckpointTest, RefreshesTheLinkOnlyIfThereIsOne) {
  Write(10);
  const std::string second = Write(20);
  const std::string latest = directory_ + "/latest";
  fs::remove_all(second);
  EXPECT_TRUE(RefreshLinks(directory_).ok());
  EXPECT_EQ(fs::read_symlink(latest), "step-000000010");
  fs::remove_all(directory_ + "/step-000000010");
  EXPECT_TRUE(RefreshLinks(directory_).ok());
  EXPECT_THAT(NamesIn(directory_), IsEmpty());
  Write(10);
  fs::remove(latest);
  EXPECT_TRUE(RefreshLinks(directory_).ok());
  EXPECT_THAT(NamesIn(directory_), ElementsAre("step-000000010"));
}

TEST_F(CheckpointTest, BrokenCheckpointsDoNotCountAmongThoseKept) {
  const std::string good = Write(10);
  const std::string broken = Write(20);
  fs::remove(broken + "/model.safetensors");
  Write(30, {.keep = 2});
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre("latest", "step-000000010", "step-000000020",
                          "step-000000030"));
  Write(40, {.keep = 2});
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre("latest", "step-000000030", "step-000000040"));
}

TEST_F(CheckpointTest, ReplacesOneOfTheSameStep) {
  for (const bool can_exchange : {true, false}) {
    if (!can_exchange)
      FailPoint::Arm("checkpoint.exchange", FailPoint::Action::kError);
    job_.parameters[0] += 1;
    const std::string path = Write(10);
    job_.parameters[0] += 1;
    EXPECT_EQ(Write(10), path);
    std::vector<float> parameters(job_.parameters.size());
    ASSERT_TRUE(ReadCheckpoint(path, job_.plan,
                               {.parameters = absl::MakeSpan(parameters)})
                    .ok());
    EXPECT_EQ(parameters, job_.parameters);
    EXPECT_THAT(NamesIn(directory_), ElementsAre("latest", "step-000000010"));
  }
}

TEST_F(CheckpointTest, AFailedWriteLeavesOlderOnesAndNothingElse) {
  const std::string old = Write(10);
  for (const char* const name :
       {"checkpoint.open", "checkpoint.write", "checkpoint.fsync",
        "checkpoint.fsync_directory", "checkpoint.rename"}) {
    // The same holds where one file is complete already.
    for (const int64_t at_pass : {1, 2, 3}) {
      FailPoint::Arm(name, FailPoint::Action::kError, at_pass);
      const absl::Status status =
          WriteCheckpoint(directory_, job_.ContentsAt(20), {.keep = 1})
              .status();
      const int64_t passes = FailPoint::PassCount(name);
      FailPoint::Disarm(name);
      // The last sync is the link's.
      const bool is_of_link =
          std::string_view(name) == "checkpoint.fsync_directory" &&
          at_pass == 3;
      if (passes < at_pass || is_of_link) {
        EXPECT_TRUE(status.ok());
        fs::remove_all(directory_);
        Write(10);
        continue;
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << name;
      EXPECT_THAT(status.message(), HasSubstr(directory_));
      // The second sync comes when the checkpoint has its name.
      const bool is_published =
          std::string_view(name) == "checkpoint.fsync_directory" &&
          at_pass == 2;
      if (is_published) fs::remove_all(directory_ + "/step-000000020");
      EXPECT_THAT(NamesIn(directory_), ElementsAre("latest", "step-000000010"))
          << name;
      EXPECT_TRUE(VerifyCheckpoint(old).ok());
    }
  }
  Write(20, {.keep = 1});
  EXPECT_THAT(NamesIn(directory_), ElementsAre("latest", "step-000000020"));
}

TEST_F(CheckpointTest, NamesADirectoryThatCannotBe) {
  const std::string file = FreshDirectory() + "/file";
  WriteFile(file, "");
  const absl::Status status =
      WriteCheckpoint(file + "/sub", job_.ContentsAt(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr(file));
  EXPECT_EQ(ListCheckpoints(file).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(CheckpointTest, CancelEndsAWrite) {
  CancelToken cancel;
  cancel.Cancel("enough");
  EXPECT_EQ(WriteCheckpoint(directory_, job_.ContentsAt(1), {.cancel = &cancel})
                .status()
                .code(),
            absl::StatusCode::kAborted);
  EXPECT_TRUE(NamesIn(directory_).empty());
}

}  // namespace
}  // namespace ringmaster
