#include "common/logging/log_format.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ringmaster {
namespace {

// 2026-01-02 12:03:04.123 UTC
const absl::Time kTime = absl::FromUnixMillis(1'767'355'384'123);

std::string Text(const LogRecord& record) {
  return FormatLogText(record, absl::UTCTimeZone());
}

std::string TextOfValue(const LogValue& value) {
  const LogField field = {"v", value};
  const std::string line = Text({.time = kTime,
                                 .level = LogLevel::kInfo,
                                 .role = "",
                                 .worker = "",
                                 .event = "e",
                                 .context = {},
                                 .fields = {&field, 1}});
  return line.substr(line.find("v=") + 2);
}

TEST(LogTextTest, IsOneLineOfKeysAndValues) {
  const std::vector<LogField> context = {{"generation", 3}, {"step", 0}};
  const std::vector<LogField> fields = {{"job", "words"}, {"ranks", 4}};
  EXPECT_EQ(Text({.time = kTime,
                  .level = LogLevel::kInfo,
                  .role = "coordinator",
                  .worker = "",
                  .event = "job.started",
                  .context = context,
                  .fields = fields}),
            "2026-01-02T12:03:04.123+00:00 I coordinator job.started "
            "generation=3 step=0 "
            "job=words ranks=4");
}

TEST(LogTextTest, NamesTheWorkerBesideItsRole) {
  EXPECT_EQ(Text({.time = kTime,
                  .level = LogLevel::kError,
                  .role = "worker",
                  .worker = "node-7",
                  .event = "peer.lost",
                  .context = {},
                  .fields = {}}),
            "2026-01-02T12:03:04.123+00:00 E worker/node-7 peer.lost");
}

TEST(LogTextTest, AnEventsOwnFieldReplacesTheContexts) {
  const std::vector<LogField> context = {{"rank", 1}};
  const std::vector<LogField> fields = {{"rank", 2}};
  EXPECT_EQ(Text({.time = kTime,
                  .level = LogLevel::kWarning,
                  .role = "",
                  .worker = "",
                  .event = "rank.lost",
                  .context = context,
                  .fields = fields}),
            "2026-01-02T12:03:04.123+00:00 W rank.lost rank=2");
}

TEST(LogTextTest, FormatsEveryKindOfValue) {
  EXPECT_EQ(TextOfValue(true), "true");
  EXPECT_EQ(TextOfValue(-5), "-5");
  EXPECT_EQ(TextOfValue(std::numeric_limits<uint64_t>::max()),
            "18446744073709551615");
  EXPECT_EQ(TextOfValue(0.25), "0.25");
  EXPECT_EQ(TextOfValue(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(TextOfValue("text"), "text");
  EXPECT_EQ(TextOfValue(std::string("text")), "text");
  EXPECT_EQ(TextOfValue(absl::string_view("text")), "text");
  EXPECT_EQ(TextOfValue(absl::Milliseconds(1500)), "1.5s");
  EXPECT_EQ(TextOfValue(absl::AbortedError("gone")), "\"ABORTED: gone\"");
}

TEST(LogTextTest, QuotesWhatWouldNotSplit) {
  EXPECT_EQ(TextOfValue(""), "\"\"");
  EXPECT_EQ(TextOfValue("two words"), "\"two words\"");
  EXPECT_EQ(TextOfValue("a=b"), "\"a=b\"");
  EXPECT_EQ(TextOfValue("say \"hi\"\\"), "\"say \\\"hi\\\"\\\\\"");
  EXPECT_EQ(TextOfValue("a\nb\tc\x01"), "\"a\\nb\\tc\\x01\"");
  EXPECT_EQ(TextOfValue("Zürich"), "Zürich");
}

TEST(LogJsonTest, IsAnObjectWithTheSameKeys) {
  const std::vector<LogField> context = {{"rank", 1}, {"step", 9}};
  const std::vector<LogField> fields = {{"rank", 2},
                                        {"ok", false},
                                        {"loss", 2.5},
                                        {"norm", HUGE_VAL},
                                        {"why", "a\n\"b\" \xff"}};
  const nlohmann::json line =
      nlohmann::json::parse(FormatLogJson({.time = kTime,
                                           .level = LogLevel::kWarning,
                                           .role = "worker",
                                           .worker = "a",
                                           .event = "rank.lost",
                                           .context = context,
                                           .fields = fields}));
  EXPECT_EQ(line, (nlohmann::json{{"time", "2026-01-02T12:03:04.123000Z"},
                                  {"level", "warning"},
                                  {"role", "worker"},
                                  {"worker", "a"},
                                  {"event", "rank.lost"},
                                  {"rank", 2},
                                  {"step", 9},
                                  {"ok", false},
                                  {"loss", 2.5},
                                  {"norm", "inf"},
                                  {"why", "a\n\"b\" \xef\xbf\xbd"}}));
}

}  // namespace
}  // namespace ringmaster
