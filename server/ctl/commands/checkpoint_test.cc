#include "server/ctl/commands/checkpoint.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/commands/testing/ctl_test.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_directory.h"
#include "worker/checkpoint/export_model.h"
#include "worker/checkpoint/import_parameters.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/testing/test_files.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

Outcome RunCheckpoint(std::vector<std::string> args) {
  args.insert(args.begin(), "checkpoint");
  return RunCtl(args);
}

void ExpectError(const std::vector<std::string>& args, ExitCode code,
                 const std::string& text) {
  ExpectError(RunCheckpoint(args), code, text);
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

// The names of all members of `json`.
void AddNames(const nlohmann::json& json, std::set<std::string>& names) {
  for (const auto& [name, value] : json.items()) {
    if (json.is_object()) names.insert(name);
    if (value.is_structured()) AddNames(value, names);
  }
}

class CheckpointCommandTest : public ::testing::Test {
 protected:
  std::string Write(int64_t step) {
    const auto written = WriteCheckpoint(directory_, job_.ContentsAt(step));
    EXPECT_TRUE(written.ok()) << written.status();
    return written->path;
  }
  // A path that exists and that nobody can read, root included.
  static void MakeUnreadable(const std::string& path) {
    fs::remove(path);
    fs::create_symlink(path, path);
  }

  const std::string directory_ = FreshDirectory();
  TestJob job_;
};

TEST_F(CheckpointCommandTest, ListsTheNewestFirst) {
  Write(10);
  const std::string damaged = Write(20);
  Write(30);
  const std::string unreadable = Write(40);
  fs::resize_file(damaged + "/model.safetensors", 5);
  MakeUnreadable(unreadable + "/checkpoint.json");
  const std::string left = directory_ + "/.tmp-step-000000050-0ddba11d-00";
  fs::create_directory(left);
  WriteFile(left + "/model.safetensors", "12345");

  const Outcome outcome = RunCheckpoint({"ls", directory_});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_THAT(
      LinesOf(outcome.out),
      ElementsAre(
          AllOf(HasSubstr("STEP"), HasSubstr("STATE")),
          AllOf(HasSubstr(" 40"), HasSubstr("unreadable")),
          AllOf(HasSubstr(" 30"), HasSubstr("complete"), HasSubstr("small")),
          AllOf(HasSubstr(" 20"), HasSubstr("damaged")),
          AllOf(HasSubstr(" 10"), HasSubstr("complete")),
          AllOf(StartsWith("unreadable: cannot open " + unreadable),
                HasSubstr("checkpoint.json")),
          AllOf(StartsWith("damaged: " + damaged),
                HasSubstr("model.safetensors is 5 bytes long")),
          AllOf(HasSubstr(".tmp-step-000000050-0ddba11d-00: 5B"),
                HasSubstr("being written or removed"))));
}

TEST_F(CheckpointCommandTest, TellsLeftoversFromWork) {
  std::string left;
  {
    auto staging = StagingDirectory::Create(directory_, 7);
    ASSERT_TRUE(staging.ok());
    EXPECT_THAT(RunCheckpoint({"ls", directory_}).out,
                AllOf(StartsWith("no checkpoints in " + directory_ + "\n"),
                      HasSubstr("being written")));
    left = fs::path(staging->File("x")).parent_path();
  }
  // As its writer leaves it that dies.
  fs::create_directory(left);
  EXPECT_THAT(RunCheckpoint({"ls", directory_}).out, HasSubstr("a leftover"));
  const auto json = nlohmann::json::parse(
      RunCheckpoint({"ls", directory_, "-o", "json"}).out);
  EXPECT_EQ(json["checkpoints"].size(), 0u);
  EXPECT_EQ(json["unfinished"][0]["is_abandoned"], true);
  EXPECT_EQ(json["unfinished"][0]["path"], left);
  EXPECT_TRUE(fs::exists(left)) << "ls changes nothing";
}

TEST_F(CheckpointCommandTest, VerifiesEveryByte) {
  const std::string first = Write(10);
  Write(20);
  const Outcome one = RunCheckpoint({"verify", first + "/"});
  EXPECT_EQ(one.code, 0) << one.error;
  EXPECT_THAT(LinesOf(one.out), ElementsAre(HasSubstr("is whole (")));
  const Outcome all = RunCheckpoint({"verify", directory_});
  EXPECT_EQ(all.code, 0) << all.error;
  EXPECT_THAT(LinesOf(all.out), ElementsAre(HasSubstr("are whole: 2 (")));

  FlipByte(first + "/model.safetensors", 100);
  fs::remove(first + "/optimizer.safetensors");
  const Outcome damaged = RunCheckpoint({"verify", directory_});
  EXPECT_EQ(damaged.code, static_cast<int>(ExitCode::kCheckpointCorrupt));
  EXPECT_THAT(
      LinesOf(damaged.out),
      ElementsAre(
          AllOf(StartsWith("damaged: " + first + "/model.safetensors"),
                HasSubstr("bytes [0, ")),
          AllOf(StartsWith("damaged: " + first + "/optimizer.safetensors"),
                HasSubstr("is missing"))));
  EXPECT_THAT(damaged.error, IsEmpty());
  // Sizes do not show the changed byte.
  WriteFile(first + "/optimizer.safetensors", "");
  EXPECT_EQ(RunCheckpoint({"ls", directory_}).code, 0);
}

TEST_F(CheckpointCommandTest, UnreadableIsNotDamaged) {
  const std::string path = Write(10);
  MakeUnreadable(path + "/model.safetensors");
  const Outcome outcome = RunCheckpoint({"verify", path});
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::kUnreadable));
  EXPECT_THAT(LinesOf(outcome.out),
              ElementsAre(StartsWith("unreadable: cannot open " + path)));
  // Damage is the worse.
  fs::remove(path + "/optimizer.safetensors");
  EXPECT_EQ(RunCheckpoint({"verify", path}).code,
            static_cast<int>(ExitCode::kCheckpointCorrupt));
}

TEST_F(CheckpointCommandTest, ADamagedManifestIsDamage) {
  const std::string path = Write(10);
  FlipByte(path + "/checkpoint.json", 30);
  const Outcome outcome = RunCheckpoint({"verify", path});
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::kCheckpointCorrupt));
  EXPECT_THAT(LinesOf(outcome.out),
              ElementsAre(StartsWith("damaged: " + path + "/checkpoint.json")));
  fs::remove(path + "/checkpoint.json");
  EXPECT_THAT(RunCheckpoint({"verify", path}).out,
              HasSubstr("no checkpoint.json"));
}

TEST_F(CheckpointCommandTest, RemovesAllButTheNewestCompleteOne) {
  const std::string first = Write(10);
  const std::string second = Write(20);
  const std::string third = Write(30);
  const Outcome removed = RunCheckpoint({"rm", first + "/"});
  EXPECT_EQ(removed.code, 0) << removed.error;
  EXPECT_EQ(removed.out, "removed " + first + "/\n");
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre("latest", "step-000000020", "step-000000030"));
  ExpectError({"rm", third}, ExitCode::kUsage, "newest complete checkpoint");
  // The third is of no use, so the second is what a job would start from.
  fs::remove(third + "/model.safetensors");
  ExpectError({"rm", second}, ExitCode::kUsage, "newest complete checkpoint");
  EXPECT_EQ(RunCheckpoint({"rm", third}).code, 0);
  EXPECT_EQ(RunCheckpoint({"rm", second, "--force"}).code, 0);
  EXPECT_THAT(NamesIn(directory_), IsEmpty());
}

TEST_F(CheckpointCommandTest, KeepsWhatMayBeWhole) {
  Write(10);
  const std::string unreadable = Write(20);
  MakeUnreadable(unreadable + "/checkpoint.json");
  ExpectError({"rm", unreadable}, ExitCode::kUsage, "cannot be read now");
  Write(30);
  EXPECT_EQ(RunCheckpoint({"rm", unreadable}).code, 0);
}

TEST_F(CheckpointCommandTest, RemovesFromTheDirectoryThatItIsIn) {
  const std::string first = Write(10);
  Write(20);
  const fs::path before = fs::current_path();
  fs::current_path(first);
  EXPECT_EQ(RunCheckpoint({"rm", "."}).code, 0);
  fs::current_path(directory_);
  ExpectError({"rm", "step-000000020"}, ExitCode::kUsage, "newest");
  fs::current_path(before);
  EXPECT_THAT(NamesIn(directory_), ElementsAre("latest", "step-000000020"));
}

TEST_F(CheckpointCommandTest, LatestIsTheCheckpointThatItPointsTo) {
  const std::string first = Write(10);
  const std::string second = Write(20);
  const std::string latest = directory_ + "/latest";
  EXPECT_THAT(LinesOf(RunCheckpoint({"ls", latest}).out),
              ElementsAre(HasSubstr("STEP"),
                          AllOf(HasSubstr(" 20"), HasSubstr("complete"))));
  EXPECT_THAT(RunCheckpoint({"verify", latest + "/"}).out,
              StartsWith(second + " is whole"));
  ExpectError({"rm", latest}, ExitCode::kUsage,
              second + " is the newest complete checkpoint");
  const Outcome removed = RunCheckpoint({"rm", latest, "--force"});
  EXPECT_EQ(removed.out, "removed " + second + "\n") << removed.error;
  EXPECT_THAT(NamesIn(directory_), ElementsAre("latest", "step-000000010"));
  EXPECT_EQ(fs::read_symlink(latest), "step-000000010");
  fs::remove_all(first);
  for (const std::string command : {"ls", "verify", "rm"}) {
    ExpectError({command, latest}, ExitCode::kUnreadable,
                absl::StrCat("there is no directory ", first, ", to which ",
                             latest, " points"));
  }
}

TEST_F(CheckpointCommandTest, TheBestIsMarkedAndStays) {
  CheckpointContents contents = job_.ContentsAt(10);
  contents.is_best = true;
  const std::string first = WriteCheckpoint(directory_, contents)->path;
  Write(20);
  const std::string best = directory_ + "/best";
  EXPECT_THAT(LinesOf(RunCheckpoint({"ls", directory_}).out),
              ElementsAre(HasSubstr("STATE"), Not(HasSubstr("best")),
                          HasSubstr("complete, best")));
  const auto list =
      nlohmann::json::parse(RunCheckpoint({"ls", best, "-o", "json"}).out);
  EXPECT_EQ(list["checkpoints"][0]["step"], "10");
  EXPECT_EQ(list["checkpoints"][0]["is_best"], true);
  ExpectError({"rm", best}, ExitCode::kUsage,
              first + " has the best evaluation; --force removes it");
  EXPECT_EQ(RunCheckpoint({"rm", best, "--force"}).code, 0);
  EXPECT_THAT(NamesIn(directory_), ElementsAre("latest", "step-000000020"));
}

TEST_F(CheckpointCommandTest, RefusesWhatIsNoCheckpoint) {
  const std::string nowhere = directory_ + "/step-000000077";
  const std::string file = directory_ + "/file";
  const std::string loop = directory_ + "/loop";
  WriteFile(file, "x");
  fs::create_symlink(loop, loop);
  for (const std::string command : {"ls", "verify", "rm"}) {
    ExpectError({command, nowhere}, ExitCode::kUnreadable,
                "there is no directory " + nowhere);
    ExpectError({command, file}, ExitCode::kUsage,
                file + " is not a directory");
    ExpectError({command, loop}, ExitCode::kUnreadable, "cannot read " + loop);
    ExpectError({command, ""}, ExitCode::kUsage, "empty");
    ExpectError({command}, ExitCode::kUsage, "usage: ringctl checkpoint");
  }
  ExpectError({"verify", directory_}, ExitCode::kUnreadable,
              "is not a checkpoint, and holds none");
  ExpectError({"rm", directory_}, ExitCode::kUsage, "is not a checkpoint");
  ExpectError({"rm", directory_, "--force"}, ExitCode::kUsage,
              "names such as step-000000120");
  fs::create_directory(nowhere);
  ExpectError({"rm", nowhere}, ExitCode::kUsage, "it has no checkpoint.json");
  EXPECT_EQ(RunCheckpoint({"rm", nowhere, "--force"}).code, 0);
  fs::rename(Write(10), directory_ + "/copy");
  ExpectError({"ls", directory_ + "/copy"}, ExitCode::kUsage,
              "is a checkpoint; give the directory ");
  ExpectError({"sl", directory_}, ExitCode::kUsage, "did you mean \"ls\"?");
}

class ExportTest : public CheckpointCommandTest {
 protected:
  // A checkpoint whose model is, as far as its config says, Hugging Face's.
  std::string WriteModel() {
    CheckpointContents contents = job_.ContentsAt(10);
    contents.config_json =
        R"({"model_type": "gpt2", "eos_token_id": 7, "torch_dtype": "float32"})";
    const auto written = WriteCheckpoint(directory_, contents);
    EXPECT_TRUE(written.ok()) << written.status();
    return written->path;
  }
  const std::string out_ = directory_ + "/models/new";
};

TEST_F(ExportTest, WritesTheModelInEachType) {
  WriteModel();
  const std::string path = directory_ + "/latest";
  for (const auto& [dtype, name, size] :
       {std::tuple("float32", "F32", 4), std::tuple("bfloat16", "BF16", 2),
        std::tuple("float16", "F16", 2)}) {
    SCOPED_TRACE(dtype);
    const Outcome outcome = RunCheckpoint(
        {"export", path, "--out", out_ + "/", absl::StrCat("--dtype=", dtype)});
    EXPECT_EQ(outcome.code, 0) << outcome.error;
    EXPECT_THAT(outcome.out, StartsWith("exported " + out_));
    EXPECT_THAT(NamesIn(directory_ + "/models"), ElementsAre("new"));
    EXPECT_THAT(NamesIn(out_),
                ElementsAre("config.json", "generation_config.json",
                            "model.safetensors"));
    const auto model = SafetensorsFile::Open(out_ + "/model.safetensors");
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->metadata().at("format"), "pt");
    for (const SafetensorsEntry& tensor : model->tensors()) {
      EXPECT_EQ(tensor.dtype, name);
      EXPECT_EQ(tensor.size_bytes, tensor.num_elems * size);
    }
    std::vector<float> read(job_.parameters.size());
    ASSERT_TRUE(ImportParameters(out_, job_.plan, absl::MakeSpan(read)).ok());
    for (size_t i = 0; i < read.size(); ++i) {
      // Half of the last place of 24, 8 and 11 bits.
      const double share = size == 4 ? 0 : *dtype == 'b' ? 0x1p-8 : 0x1p-11;
      EXPECT_NEAR(read[i], job_.parameters[i],
                  std::abs(job_.parameters[i]) * share);
    }
    const auto config = nlohmann::json::parse(ReadFile(out_ + "/config.json"));
    EXPECT_EQ(config["torch_dtype"], dtype);
    EXPECT_EQ(config["model_type"], "gpt2");
    const auto generation =
        nlohmann::json::parse(ReadFile(out_ + "/generation_config.json"));
    EXPECT_EQ(generation["eos_token_id"], 7);
    EXPECT_FALSE(generation.contains("bos_token_id"));
    fs::remove_all(out_);
  }
}

TEST_F(ExportTest, CopiesTheTokenizerAsFarAsItCanBeRead) {
  const std::string job = directory_ + "/job";
  fs::create_directory(job);
  WriteFile(job + "/my-merges", "merges");
  CheckpointContents contents = job_.ContentsAt(10);
  contents.config_json = R"({"model_type": "gpt2"})";
  contents.companions =
      FindCompanions(job + "/my-vocabulary", job + "/my-merges", job);
  const auto written = WriteCheckpoint(directory_, contents);
  ASSERT_TRUE(written.ok()) << written.status();
  const Outcome outcome =
      RunCheckpoint({"export", written->path, "--out=" + out_});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_THAT(LinesOf(outcome.out),
              ElementsAre(StartsWith("exported "),
                          AllOf(StartsWith("left out: "),
                                HasSubstr(job + "/my-vocabulary"))));
  EXPECT_THAT(NamesIn(out_),
              ElementsAre("config.json", "generation_config.json", "merges.txt",
                          "model.safetensors"));
  EXPECT_EQ(ReadFile(out_ + "/merges.txt"), "merges");
}

TEST_F(ExportTest, TheTokenizerLiesBesideTheInitialParameters) {
  WriteFile(directory_ + "/tokenizer.json", "{}");
  const std::vector<CheckpointCompanion> expected = {
      {"tokenizer.json", directory_ + "/tokenizer.json"}};
  EXPECT_EQ(FindCompanions("", "", directory_), expected);
  EXPECT_EQ(FindCompanions("", "", directory_ + "/model.safetensors"),
            expected);
  EXPECT_THAT(FindCompanions("", "", ""), IsEmpty());
}

TEST_F(ExportTest, BertsTokenizerIsOneFileAndItsSettings) {
  std::vector<CheckpointCompanion> expected = {
      {"vocab.txt", directory_ + "/words"}};
  EXPECT_EQ(FindCompanions(directory_ + "/words", "", ""), expected);
  const std::string settings = directory_ + "/tokenizer_config.json";
  WriteFile(settings, R"({"do_lower_case": false})");
  expected.push_back({"tokenizer_config.json", settings});
  EXPECT_EQ(FindCompanions(directory_ + "/words", "", ""), expected);
}

TEST_F(ExportTest, LeavesNothingAfterAnError) {
  const std::string path = WriteModel();
  const std::string file = directory_ + "/file";
  WriteFile(file, "x");
  const std::string to = "--out=" + out_;
  ExpectError({"export", path}, ExitCode::kUsage, "--out is required");
  ExpectError({"export", path, "--out", ""}, ExitCode::kUsage, "--out");
  ExpectError({"export", path, to, "--dtype=int8"}, ExitCode::kUsage, "int8");
  ExpectError({"export", path + "0", to}, ExitCode::kUnreadable,
              "there is no directory");
  ExpectError({"export", directory_, to}, ExitCode::kUsage,
              "is not a checkpoint");
  ExpectError({"export", path, "--out", file}, ExitCode::kUsage,
              file + " exists already");
  ExpectError({"export", path, "--out", file + "/x"}, ExitCode::kUsage,
              "cannot create " + file);
  job_.parameters[0] = 1e5f;
  ExpectError({"export", WriteModel(), to, "--dtype=float16"}, ExitCode::kUsage,
              "beyond float16");
  FlipByte(path + "/model.safetensors", 500);
  ExpectError({"export", path, to}, ExitCode::kCheckpointCorrupt,
              "model.safetensors is damaged");
  CheckpointContents contents = job_.ContentsAt(20);
  contents.config_json = "";
  const auto unknown = WriteCheckpoint(directory_, contents);
  ExpectError({"export", unknown->path, to}, ExitCode::kUsage,
              "has no config.json");
  EXPECT_FALSE(fs::exists(out_));
  EXPECT_THAT(NamesIn(directory_ + "/models"), IsEmpty());
}

TEST_F(CheckpointCommandTest, TheJsonIsDocumented) {
  Write(10);
  const std::string damaged = Write(20);
  fs::resize_file(damaged + "/model.safetensors", 5);
  fs::create_directory(directory_ + "/.tmp-step-000000050-0ddba11d-00");
  std::set<std::string> names;
  const auto run = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"-o", "json"});
    const auto json = nlohmann::json::parse(RunCheckpoint(args).out);
    AddNames(json, names);
    return json;
  };
  const auto list = run({"ls", directory_});
  EXPECT_EQ(list["checkpoints"][0]["step"], "20");
  EXPECT_EQ(list["checkpoints"][0]["state"], "damaged");
  EXPECT_EQ(list["checkpoints"][1]["state"], "complete");
  EXPECT_EQ(list["checkpoints"][1]["problem"], "");
  EXPECT_EQ(list["checkpoints"][1]["files"][0]["name"], "model.safetensors");
  const auto verified = run({"verify", directory_});
  EXPECT_EQ(verified["checkpoints"][0]["faults"][0]["state"], "damaged");
  EXPECT_EQ(verified["checkpoints"][1]["faults"].size(), 0u);
  EXPECT_EQ(run({"rm", damaged})["removed"], damaged);
  CheckpointContents contents = job_.ContentsAt(30);
  contents.config_json = "{}";
  const auto model = WriteCheckpoint(directory_, contents);
  const std::string out = directory_ + "/model";
  const auto exported = run({"export", model->path, "--out=" + out});
  EXPECT_EQ(exported["exported"], out);
  EXPECT_EQ(exported["size_bytes"],
            absl::StrCat(fs::file_size(out + "/model.safetensors")));
  EXPECT_GT(names.size(), 12u);
  const std::string document = ReadFile("docs/json.md");
  for (const std::string& name : names)
    EXPECT_THAT(document, HasSubstr(absl::StrCat("`", name, "`")));
}

}  // namespace
}  // namespace ringmaster::ctl
