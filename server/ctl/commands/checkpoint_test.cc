#include "server/ctl/commands/checkpoint.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/commands/command_line.h"
#include "server/ctl/terminal/console.h"
#include "server/ctl/terminal/interrupts.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_directory.h"
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

// Before main, and so before any thread.
const bool kIsBlocked = [] {
  Interrupts::Block();
  return true;
}();

struct Outcome {
  int code;
  std::string out;
  std::string error;
};

Outcome RunCtl(std::vector<std::string> args) {
  EXPECT_TRUE(kIsBlocked);
  args.insert(args.begin(), "checkpoint");
  FakeConsole console;
  const int code = RunCommandLine(args, console, Clock::Real());
  return {code, console.out, console.error};
}

void ExpectError(const std::vector<std::string>& args, ExitCode code,
                 const std::string& text) {
  const Outcome outcome = RunCtl(args);
  EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.error;
  EXPECT_THAT(outcome.error, AllOf(StartsWith("error: "), HasSubstr(text)));
  EXPECT_EQ(outcome.error.find('\n'), outcome.error.size() - 1)
      << outcome.error;
  EXPECT_THAT(outcome.out, IsEmpty());
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

  const Outcome outcome = RunCtl({"ls", directory_});
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
    EXPECT_THAT(RunCtl({"ls", directory_}).out,
                AllOf(StartsWith("no checkpoints in " + directory_ + "\n"),
                      HasSubstr("being written")));
    left = fs::path(staging->File("x")).parent_path();
  }
  // As its writer leaves it that dies.
  fs::create_directory(left);
  EXPECT_THAT(RunCtl({"ls", directory_}).out, HasSubstr("a leftover"));
  const auto json =
      nlohmann::json::parse(RunCtl({"ls", directory_, "-o", "json"}).out);
  EXPECT_EQ(json["checkpoints"].size(), 0u);
  EXPECT_EQ(json["unfinished"][0]["is_abandoned"], true);
  EXPECT_EQ(json["unfinished"][0]["path"], left);
  EXPECT_TRUE(fs::exists(left)) << "ls changes nothing";
}

TEST_F(CheckpointCommandTest, VerifiesEveryByte) {
  const std::string first = Write(10);
  Write(20);
  const Outcome one = RunCtl({"verify", first + "/"});
  EXPECT_EQ(one.code, 0) << one.error;
  EXPECT_THAT(LinesOf(one.out), ElementsAre(HasSubstr("is whole (")));
  const Outcome all = RunCtl({"verify", directory_});
  EXPECT_EQ(all.code, 0) << all.error;
  EXPECT_THAT(LinesOf(all.out), ElementsAre(HasSubstr("are whole: 2 (")));

  FlipByte(first + "/model.safetensors", 100);
  fs::remove(first + "/optimizer.safetensors");
  const Outcome damaged = RunCtl({"verify", directory_});
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
  EXPECT_EQ(RunCtl({"ls", directory_}).code, 0);
}

TEST_F(CheckpointCommandTest, UnreadableIsNotDamaged) {
  const std::string path = Write(10);
  MakeUnreadable(path + "/model.safetensors");
  const Outcome outcome = RunCtl({"verify", path});
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::kUnreadable));
  EXPECT_THAT(LinesOf(outcome.out),
              ElementsAre(StartsWith("unreadable: cannot open " + path)));
  // Damage is the worse.
  fs::remove(path + "/optimizer.safetensors");
  EXPECT_EQ(RunCtl({"verify", path}).code,
            static_cast<int>(ExitCode::kCheckpointCorrupt));
}

TEST_F(CheckpointCommandTest, ADamagedManifestIsDamage) {
  const std::string path = Write(10);
  FlipByte(path + "/checkpoint.json", 30);
  const Outcome outcome = RunCtl({"verify", path});
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::kCheckpointCorrupt));
  EXPECT_THAT(LinesOf(outcome.out),
              ElementsAre(StartsWith("damaged: " + path + "/checkpoint.json")));
  fs::remove(path + "/checkpoint.json");
  EXPECT_THAT(RunCtl({"verify", path}).out, HasSubstr("no checkpoint.json"));
}

TEST_F(CheckpointCommandTest, RemovesAllButTheNewestCompleteOne) {
  const std::string first = Write(10);
  const std::string second = Write(20);
  const std::string third = Write(30);
  const Outcome removed = RunCtl({"rm", first + "/"});
  EXPECT_EQ(removed.code, 0) << removed.error;
  EXPECT_EQ(removed.out, "removed " + first + "/\n");
  EXPECT_THAT(NamesIn(directory_),
              ElementsAre("step-000000020", "step-000000030"));
  ExpectError({"rm", third}, ExitCode::kUsage, "newest complete checkpoint");
  // The third is of no use, so the second is what a job would start from.
  fs::remove(third + "/model.safetensors");
  ExpectError({"rm", second}, ExitCode::kUsage, "newest complete checkpoint");
  EXPECT_EQ(RunCtl({"rm", third}).code, 0);
  EXPECT_EQ(RunCtl({"rm", second, "--force"}).code, 0);
  EXPECT_THAT(NamesIn(directory_), IsEmpty());
}

TEST_F(CheckpointCommandTest, KeepsWhatMayBeWhole) {
  Write(10);
  const std::string unreadable = Write(20);
  MakeUnreadable(unreadable + "/checkpoint.json");
  ExpectError({"rm", unreadable}, ExitCode::kUsage, "cannot be read now");
  Write(30);
  EXPECT_EQ(RunCtl({"rm", unreadable}).code, 0);
}

TEST_F(CheckpointCommandTest, RemovesFromTheDirectoryThatItIsIn) {
  const std::string first = Write(10);
  Write(20);
  const fs::path before = fs::current_path();
  fs::current_path(first);
  EXPECT_EQ(RunCtl({"rm", "."}).code, 0);
  fs::current_path(directory_);
  ExpectError({"rm", "step-000000020"}, ExitCode::kUsage, "newest");
  fs::current_path(before);
  EXPECT_THAT(NamesIn(directory_), ElementsAre("step-000000020"));
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
  EXPECT_EQ(RunCtl({"rm", nowhere, "--force"}).code, 0);
  ExpectError({"ls", Write(10)}, ExitCode::kUsage,
              "is a checkpoint; give the directory ");
  ExpectError({"sl", directory_}, ExitCode::kUsage, "did you mean \"ls\"?");
}

TEST_F(CheckpointCommandTest, TheJsonIsDocumented) {
  Write(10);
  const std::string damaged = Write(20);
  fs::resize_file(damaged + "/model.safetensors", 5);
  fs::create_directory(directory_ + "/.tmp-step-000000050-0ddba11d-00");
  std::set<std::string> names;
  const auto run = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"-o", "json"});
    const auto json = nlohmann::json::parse(RunCtl(args).out);
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
  EXPECT_GT(names.size(), 12u);
  const std::string document = ReadFile("docs/json.md");
  for (const std::string& name : names)
    EXPECT_THAT(document, HasSubstr(absl::StrCat("`", name, "`")));
}

}  // namespace
}  // namespace ringmaster::ctl
