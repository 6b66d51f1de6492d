#include "worker/external/command_setup.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// BASE/root may be read; BASE/other may not.
class SetUpCommandTest : public ::testing::Test {
 protected:
  SetUpCommandTest() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/setup-XXXXXX");
    base_ = mkdtemp(pattern.data());
    fs::create_directories(base_ + "/root");
    fs::create_directories(base_ + "/other");
    Write("root/key", "secret\n");
    Write("other/key", "secret");
    Write("root/script", "#!/bin/sh\n");
    ::chmod((base_ + "/root/script").c_str(), 0755);
    Write("root/plain", "text");
  }
  ~SetUpCommandTest() override { fs::remove_all(base_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(base_ + "/" + name) << text;
  }

  absl::StatusOr<CommandSetup> Prepare() {
    const auto files = FileRoots::Open({.read = {base_ + "/root"}});
    EXPECT_TRUE(files.ok()) << files.status();
    return SetUpCommand(program_, *files);
  }
  std::string Refusal() {
    const auto setup = Prepare();
    EXPECT_FALSE(setup.ok());
    return std::string(setup.status().message());
  }

  std::string base_;
  v1::ExternalProgram program_;
};

TEST_F(SetUpCommandTest, FindsAProgramInPath) {
  program_.add_command("sh");
  program_.add_command("-c");
  (*program_.mutable_environment())["PATH"] = "/nowhere:/bin";
  const auto setup = Prepare();
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ(setup->program, "/bin/sh");
  EXPECT_THAT(setup->arguments, ::testing::ElementsAre("sh", "-c"));
  EXPECT_FALSE(setup->directory.is_open());
}

TEST_F(SetUpCommandTest, FindsAProgramInTheWorkingDirectory) {
  program_.add_command("./script");
  program_.set_working_directory(base_ + "/root");
  const auto setup = Prepare();
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ(setup->program, "./script");
  EXPECT_TRUE(setup->directory.is_open());
}

TEST_F(SetUpCommandTest, SaysWhyAProgramCannotRun) {
  program_.add_command("no-such-program");
  EXPECT_THAT(Refusal(), HasSubstr("external.command: there is no "
                                   "no-such-program in PATH ("));
  program_.set_command(0, base_ + "/root/none");
  EXPECT_THAT(Refusal(), HasSubstr("/root/none: No such file or directory"));
  program_.set_command(0, base_ + "/root/plain");
  EXPECT_THAT(Refusal(), HasSubstr("/root/plain: Permission denied"));
  program_.set_command(0, base_ + "/root");
  EXPECT_THAT(Refusal(), HasSubstr("/root: Is a directory"));
}

TEST_F(SetUpCommandTest, ReadsSecrets) {
  program_.add_command("/bin/sh");
  (*program_.mutable_environment())["OPEN"] = "x";
  auto& secrets = *program_.mutable_secret_environment();
  secrets["TOKEN"] = base_ + "/root/key";
  const auto setup = Prepare();
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ(setup->variables.at("TOKEN"), "secret");
  EXPECT_EQ(setup->variables.at("OPEN"), "x");
  secrets["TOKEN"] = base_ + "/root/none";
  EXPECT_THAT(Refusal(), HasSubstr("external.secret_environment.TOKEN: "));
}

TEST_F(SetUpCommandTest, OpensNothingBeyondTheRoots) {
  program_.add_command("/bin/sh");
  program_.set_working_directory(base_ + "/other");
  EXPECT_THAT(Refusal(), HasSubstr("external.working_directory: "));
  EXPECT_THAT(Refusal(), HasSubstr("--allow_read"));
  program_.clear_working_directory();
  (*program_.mutable_secret_environment())["TOKEN"] = base_ + "/other/key";
  EXPECT_THAT(Refusal(), HasSubstr("--allow_read"));
}

}  // namespace
}  // namespace ringmaster
