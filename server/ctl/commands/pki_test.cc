#include "server/ctl/commands/pki.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/access/access_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/commands/testing/ctl_test.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

mode_t ModeOf(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777;
}

class PkiTest : public ::testing::Test {
 protected:
  ~PkiTest() override { fs::remove_all(directory_); }

  static Outcome Run(std::vector<std::string> args) {
    args.insert(args.begin(), "pki");
    return RunCtl(args);
  }
  // Its one line.
  static std::string ErrorOf(std::vector<std::string> args) {
    const Outcome outcome = Run(std::move(args));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    return outcome.error;
  }

  const std::string directory_ = absl::StrCat(
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(PkiTest, MakesAnAuthorityAndWhatItIssues) {
  ASSERT_EQ(Run({"init", directory_}).code, 0);
  const Outcome issued = Run({"issue", directory_, "worker", "node-1"});
  EXPECT_EQ(issued.code, 0) << issued.error;
  EXPECT_THAT(issued.out, HasSubstr("worker node-1, until 20"));
  EXPECT_EQ(ModeOf(directory_ + "/ca.key"), 0600u);
  EXPECT_EQ(ModeOf(directory_ + "/node-1.key"), 0600u);
  EXPECT_EQ(ModeOf(directory_ + "/node-1.pem"), 0644u);
  const std::string before = TextOf(directory_ + "/node-1.pem");
  const std::string key = TextOf(directory_ + "/node-1.key");
  EXPECT_EQ(Run({"renew", directory_, "node-1"}).code, 0);
  EXPECT_NE(TextOf(directory_ + "/node-1.pem"), before);
  EXPECT_EQ(TextOf(directory_ + "/node-1.key"), key);
}

TEST_F(PkiTest, ReplacesNothing) {
  ASSERT_EQ(Run({"init", directory_}).code, 0);
  const std::string key = TextOf(directory_ + "/ca.key");
  EXPECT_NE(Run({"init", directory_}).code, 0);
  EXPECT_EQ(TextOf(directory_ + "/ca.key"), key);
  ASSERT_EQ(Run({"issue", directory_, "worker", "a"}).code, 0);
  const Outcome again = Run({"issue", directory_, "operator", "a"});
  EXPECT_NE(again.code, 0);
  EXPECT_EQ(again.error, "error: " + directory_ +
                             "/a.pem is there already; ringctl pki renew keeps "
                             "its key, or remove it first\n");
}

TEST_F(PkiTest, ATokenAndItsEntryBelongTogether) {
  fs::create_directory(directory_);
  const std::string path = directory_ + "/alice.token";
  const Outcome made = Run({"token", "submitter", "alice", "--out", path});
  ASSERT_EQ(made.code, 0) << made.error;
  EXPECT_EQ(ModeOf(path), 0600u);
  std::string token = TextOf(path);
  token.pop_back();
  EXPECT_GE(token.size(), 43u);
  const auto rules =
      AccessRules::Parse(absl::StrCat("tokens:\n", made.out), "a.yaml");
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_NE(rules->FindToken(token), nullptr);
  EXPECT_EQ(rules->FindToken(token)->identity.name, "alice");
  // It is nowhere but in the file.
  EXPECT_THAT(made.out, ::testing::Not(HasSubstr(token)));
}

TEST_F(PkiTest, SaysWhatIsWrong) {
  EXPECT_THAT(ErrorOf({"issue", directory_, "worker", "a"}),
              AllOf(HasSubstr("ca.pem: No such file"),
                    HasSubstr("ringctl pki init " + directory_)));
  ASSERT_EQ(Run({"init", directory_}).code, 0);
  EXPECT_EQ(ErrorOf({"issue", directory_, "root", "a"}),
            "error: ROLE: \"root\" must be viewer, submitter, operator, worker "
            "or server, or coordinator\n");
  for (const char* const name : {"ca", ".hidden", "a/b", ""}) {
    EXPECT_THAT(ErrorOf({"issue", directory_, "worker", name}),
                HasSubstr("NAME: "))
        << name;
  }
  EXPECT_THAT(ErrorOf({"issue", directory_, "coordinator", "head"}),
              HasSubstr("--hosts: a coordinator's certificate needs"));
  EXPECT_THAT(
      ErrorOf({"issue", directory_, "coordinator", "head", "--hosts", "a,b"}),
      HasSubstr("\"a,b\" is neither an address nor a DNS name"));
  EXPECT_THAT(ErrorOf({"issue", directory_, "worker", std::string(65, 'a')}),
              HasSubstr("at most 64 characters"));
  EXPECT_EQ(Run({"issue", directory_, "coordinator,worker,submitter", "node",
                 "--hosts", "node"})
                .code,
            0);
  EXPECT_THAT(ErrorOf({"renew", directory_, "nobody"}),
              HasSubstr("nobody.pem: No such file"));
  EXPECT_THAT(ErrorOf({"init", "/proc/no"}), HasSubstr("/proc/no: "));
  std::ofstream(directory_ + "/ca.key") << "nonsense";
  EXPECT_THAT(ErrorOf({"issue", directory_, "worker", "a"}),
              HasSubstr("has another key than the certificate"));
}

TEST_F(PkiTest, JsonNamesTheFiles) {
  ASSERT_EQ(Run({"init", directory_, "-o", "json"}).code, 0);
  const Outcome issued =
      Run({"issue", directory_, "viewer", "vera", "-o", "json"});
  EXPECT_EQ(nlohmann::json::parse(issued.out)["certificate"],
            directory_ + "/vera.pem");
}

}  // namespace
}  // namespace ringmaster::ctl
