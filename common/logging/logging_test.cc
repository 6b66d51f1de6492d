#include "common/logging/logging.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/logging/testing/log_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class LoggingTest : public testing::Test {
 protected:
  ~LoggingTest() override {
    SetLogIdentity("", "");
    SetLogRank(std::nullopt);
    SetLogGeneration(std::nullopt);
    SetLogStep(std::nullopt);
    EXPECT_TRUE(InitLogging({}).ok());
  }
};

TEST_F(LoggingTest, WritesALineAnEvent) {
  LogCapture capture;
  LogEvent(LogLevel::kInfo, "job.started", {{"job", "words"}, {"ranks", 4}});
  LogEvent(LogLevel::kError, "disk.full");
  EXPECT_THAT(capture.lines(),
              ElementsAre(EndsWith(" I job.started job=words ranks=4"),
                          EndsWith(" E disk.full")));
}

TEST_F(LoggingTest, DropsWhatIsBelowItsLevel) {
  LogCapture capture;
  ASSERT_TRUE(InitLogging({.level = LogLevel::kWarning}).ok());
  LogEvent(LogLevel::kInfo, "not.shown");
  LogEvent(LogLevel::kWarning, "shown");
  EXPECT_THAT(capture.lines(), ElementsAre(EndsWith(" W shown")));
  EXPECT_FALSE(IsLogged(LogLevel::kDebug));
  EXPECT_TRUE(IsLogged(LogLevel::kError));
}

TEST_F(LoggingTest, CarriesTheContextUntilItIsTakenBack) {
  LogCapture capture;
  SetLogIdentity("worker", "node-7");
  SetLogRank(2);
  SetLogGeneration(5);
  SetLogStep(812);
  LogEvent(LogLevel::kInfo, "a");
  SetLogRank(std::nullopt);
  SetLogGeneration(std::nullopt);
  SetLogStep(std::nullopt);
  LogEvent(LogLevel::kInfo, "b");
  EXPECT_THAT(
      capture.lines(),
      ElementsAre(EndsWith(" I worker/node-7 a rank=2 generation=5 step=812"),
                  EndsWith(" I worker/node-7 b")));
}

TEST_F(LoggingTest, WritesJson) {
  LogCapture capture;
  ASSERT_TRUE(InitLogging({.format = LogFormat::kJson}).ok());
  LogEvent(LogLevel::kInfo, "job.started", {{"ranks", 4}});
  EXPECT_THAT(capture.lines(),
              ElementsAre(HasSubstr(R"("event":"job.started","ranks":4})")));
  EXPECT_TRUE(capture.Contains("job.started"));
  EXPECT_FALSE(capture.Contains("job.ended"));
}

TEST_F(LoggingTest, AppendsToAFileAndFlushesEachLine) {
  const std::string path = testing::TempDir() + "/ringmaster.log";
  std::ofstream(path) << "earlier\n";
  ASSERT_TRUE(InitLogging({.file = path}).ok());
  LogEvent(LogLevel::kInfo, "job.started");
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  EXPECT_THAT(content.str(), testing::AllOf(testing::StartsWith("earlier\n"),
                                            EndsWith(" I job.started\n")));
}

TEST_F(LoggingTest, KeepsItsLastLinesWhateverTheirFormat) {
  LogCapture capture;
  ASSERT_TRUE(InitLogging({.format = LogFormat::kJson, .kept_lines = 2}).ok());
  SetLogRank(1);
  LogEvent(LogLevel::kInfo, "a");
  LogEvent(LogLevel::kDebug, "not.logged");
  LogEvent(LogLevel::kWarning, "b", {{"path", "/with a blank"}, {"rank", 7}});
  LogEvent(LogLevel::kError, "c");
  const LogLines kept = SelectLog({});
  ASSERT_EQ(kept.lines.size(), 2u);
  EXPECT_EQ(kept.lines[0].event, "b");
  EXPECT_EQ(kept.lines[0].level, LogLevel::kWarning);
  EXPECT_EQ(kept.lines[0].fields, "path=\"/with a blank\" rank=7");
  EXPECT_EQ(kept.lines[1].fields, "rank=1");
  EXPECT_EQ(kept.lines[1].sequence, kept.last_sequence);
}

TEST_F(LoggingTest, AFileThatCannotBeOpenedIsNamedWithItsFlag) {
  const absl::Status status = InitLogging(
      {.level = LogLevel::kError, .file = "/dev/null/not/a/directory"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("--log_file"),
                             HasSubstr("/dev/null/not/a/directory")));
  EXPECT_TRUE(IsLogged(LogLevel::kInfo));  // Nothing changed.
}

TEST_F(LoggingTest, ParsesLevelsAndFormats) {
  EXPECT_EQ(*ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(*ParseLogLevel("error"), LogLevel::kError);
  EXPECT_EQ(*ParseLogFormat("json"), LogFormat::kJson);
  EXPECT_EQ(ParseLogLevel("loud").status().message(),
            "--log_level=loud: must be one of debug, info, warning, error");
  EXPECT_EQ(ParseLogFormat("xml").status().message(),
            "--log_format=xml: must be one of text, json");
}

TEST_F(LoggingTest, LinesOfManyThreadsStayWhole) {
  LogCapture capture;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int k = 0; k < 100; ++k) {
        SetLogStep(k);
        SetLogIdentity("worker", "a");
        LogEvent(LogLevel::kInfo, "step.done", {{"thread", i}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(capture.lines().size(), 400u);
}

}  // namespace
}  // namespace ringmaster
