#include "server/ctl/doctor/finding.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;

const std::vector<Finding> kFindings = {
    Good("cores", "2"),
    Warn("host name", "node-7 is 127.0.1.1", "others cannot reach that",
         "correct /etc/hosts"),
    Fail("coordinator", "no answer", "no job can run", "start one",
         ExitCode::kRetryElsewhere)};

TEST(FindingTest, ALineACheckWithTheRemedyBelow) {
  EXPECT_THAT(FindingLines(kFindings, {.width = 80}),
              ElementsAre("ok       cores        2",
                          "warning  host name    node-7 is 127.0.1.1",
                          "                      others cannot reach that",
                          "                      -> correct /etc/hosts",
                          "failure  coordinator  no answer",
                          "                      no job can run",
                          "                      -> start one",
                          "1 failure, 1 warning, 1 ok"));
}

TEST(FindingTest, LongTextGoesOnBelowItself) {
  EXPECT_THAT(FindingLines(std::vector{Good("a",
                                            "one two three four five "
                                            "six seven")},
                           {.width = 34}),
              ElementsAre("ok       a  one two three four",
                          "            five six seven",
                          "0 failures, 0 warnings, 1 ok"));
}

TEST(FindingTest, OnlyATerminalIsColoured) {
  const auto plain = FindingLines(kFindings, {.color = false});
  const auto coloured = FindingLines(kFindings, {.color = true});
  EXPECT_EQ(plain[0].find('\x1b'), std::string::npos);
  EXPECT_NE(coloured[0].find('\x1b'), std::string::npos);
}

TEST(FindingTest, WhatMustBeCorrectedComesBeforeWhatMayPass) {
  EXPECT_EQ(ExitCodeOfFindings(std::vector<Finding>{}), ExitCode::kDone);
  EXPECT_EQ(ExitCodeOfFindings(std::span(kFindings).first(2)), ExitCode::kDone);
  EXPECT_EQ(ExitCodeOfFindings(kFindings), ExitCode::kRetryElsewhere);
  std::vector<Finding> findings = kFindings;
  findings.push_back(Fail("disk", "read-only", "", "", ExitCode::kUsage));
  EXPECT_EQ(ExitCodeOfFindings(findings), ExitCode::kUsage);
}

TEST(FindingTest, JsonKeepsEverything) {
  const absl::StatusOr<std::vector<Finding>> read = FromJson(ToJson(kFindings));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, kFindings);
}

TEST(FindingTest, WhatIsNoListOfFindingsIsRefused) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"findings": 3})", R"({"findings": [3]})",
        R"({"findings": [{"level": "fine"}]})"}) {
    EXPECT_EQ(FromJson(text).status().code(), absl::StatusCode::kDataLoss)
        << text;
  }
}

}  // namespace
}  // namespace ringmaster::ctl
