#include "server/ctl/commands/state.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/coordinator/journal/journal.h"
#include "server/coordinator/journal/testing/journal_files.h"
#include "server/coordinator/journal/testing/test_records.h"
#include "server/ctl/commands/testing/ctl_test.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;
using coordinator::FreshDirectory;
using coordinator::Journal;
using coordinator::OneOfEach;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Outcome RunState(std::vector<std::string> args) {
  args.insert(args.begin(), "state");
  return RunCtl(args);
}

class StateCommandTest : public ::testing::Test {
 protected:
  StateCommandTest() {
    const auto journal = Journal::Open({.state_dir = state_});
    EXPECT_TRUE(journal.ok()) << journal.status();
    for (const coordinator::JournalRecord& record : OneOfEach()) {
      EXPECT_EQ(coordinator::AppendAndWait(**journal, record),
                absl::StatusCode::kOk);
    }
  }
  ~StateCommandTest() override {
    for (const std::string& path : {state_, place_}) fs::remove_all(path);
  }

  Outcome BackUp(std::vector<std::string> more = {}) {
    more.insert(more.end(),
                {"backup", "--state_dir", state_, "--out", backup_});
    return RunState(more);
  }
  Outcome Restore(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"restore", backup_, "--state_dir", restored_});
    return RunState(more);
  }

  const std::string state_ = FreshDirectory();
  const std::string place_ = FreshDirectory();
  const std::string backup_ = place_ + "/backup";
  const std::string restored_ = place_ + "/restored";
};

TEST_F(StateCommandTest, SaysWhatWasBackedUpAndHowToGoOnFromIt) {
  const std::string records =
      absl::StrCat(OneOfEach().size(), " records, 1 job");
  const Outcome made = BackUp();
  EXPECT_EQ(made.code, 0) << made.error;
  EXPECT_THAT(made.out,
              AllOf(StartsWith(absl::StrCat("backed up ", state_, " to ",
                                            backup_, ": ", records)),
                    HasSubstr("generations up to ")));
  const Outcome restored = Restore();
  EXPECT_EQ(restored.code, 0) << restored.error;
  EXPECT_THAT(restored.out,
              AllOf(StartsWith(absl::StrCat("restored ", restored_, " from ",
                                            backup_, ": ", records)),
                    HasSubstr("--take_over"), HasSubstr("are sent\naway")));
  const auto journal = Journal::Open({.state_dir = restored_});
  ASSERT_TRUE(journal.ok()) << journal.status();
  EXPECT_EQ((*journal)->Load()->size(), OneOfEach().size());
}

TEST_F(StateCommandTest, PrintsJson) {
  const auto made =
      nlohmann::json::parse(BackUp({"-o", "json"}).out, nullptr, false);
  EXPECT_EQ(made["backed_up"], state_);
  EXPECT_EQ(made["backup"], backup_);
  EXPECT_EQ(made["records"], absl::StrCat(OneOfEach().size()));
  EXPECT_EQ(made["jobs"], "1");
  EXPECT_EQ(made["size_bytes"], absl::StrCat(fs::file_size(backup_)));
  auto restored =
      nlohmann::json::parse(Restore({"-o", "json"}).out, nullptr, false);
  EXPECT_EQ(restored["restored"], restored_);
  EXPECT_EQ(restored["generation"], made["generation"]);
}

TEST_F(StateCommandTest, AnErrorIsOneLine) {
  ASSERT_EQ(BackUp().code, 0);
  const std::string lacking = place_ + "/lacking";
  const struct {
    std::vector<std::string> args;
    std::string text;
  } cases[] = {
      {{"backup", "--state_dir", state_, "--out", backup_},
       backup_ + " is there already"},
      {{"backup", "--state_dir", lacking, "--out", backup_, "--force"},
       "there is no journal " + lacking},
      {{"backup", "--state_dir", state_, "--out", lacking + "/x"},
       "cannot write the file " + lacking + "/x: No such file"},
      {{"backup", "--state_dir", state_}, "--out"},
      {{"backup", "--out", backup_}, "--state_dir"},
      {{"backup", "--state_dir", state_, "--out="}, "--out"},
      {{"restore", "", "--state_dir", lacking}, "FILE: the path is empty"},
      {{"restore", lacking, "--state_dir", lacking},
       "there is no journal " + lacking},
      {{"restore", backup_, "--state_dir", state_},
       "there is a state in " + state_},
      {{"restore", backup_, "--state_dir", backup_}, backup_},
  };
  for (const auto& [args, text] : cases) {
    ExpectError(RunState(args), ExitCode::kUsage, text);
  }
  EXPECT_FALSE(fs::exists(lacking));
}

}  // namespace
}  // namespace ringmaster::ctl
