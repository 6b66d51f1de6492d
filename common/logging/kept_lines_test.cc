#include "common/logging/kept_lines.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kLineBytes = KeptLines::kBytesPerLine;

LogLine LineOf(std::string event, LogLevel level = LogLevel::kInfo,
               int second = 0) {
  return {.sequence = 0,
          .time = absl::FromUnixSeconds(second),
          .level = level,
          .event = std::move(event),
          .fields = ""};
}

std::vector<std::string> EventsOf(const LogLines& found) {
  std::vector<std::string> events;
  for (const LogLine& line : found.lines) events.push_back(line.event);
  return events;
}

TEST(KeptLinesTest, KeepsTheLastLines) {
  KeptLines kept(3);
  for (int i = 1; i <= 5; ++i) kept.Add(LineOf(absl::StrCat("e", i)));
  const LogLines found = kept.Select({});
  EXPECT_THAT(EventsOf(found), ElementsAre("e3", "e4", "e5"));
  EXPECT_EQ(found.lines.front().sequence, 3);
  EXPECT_EQ(found.first_held_sequence, 3);
  EXPECT_EQ(found.last_sequence, 5);
  EXPECT_EQ(found.left_out_count, 0);
}

TEST(KeptLinesTest, LongLinesCountForMore) {
  KeptLines kept(4);
  kept.Add(LineOf("short"));
  kept.Add(LineOf(std::string(3 * kLineBytes, 'x')));
  EXPECT_EQ(kept.Select({}).lines.size(), 2u);
  kept.Add(LineOf(std::string(2 * kLineBytes, 'y')));
  EXPECT_THAT(EventsOf(kept.Select({})),
              ElementsAre(std::string(2 * kLineBytes, 'y')));
}

TEST(KeptLinesTest, CutsAFieldThatIsTooLongAndWhatIsNoUtf8) {
  KeptLines kept(100);
  LogLine line = LineOf("e");
  line.fields = std::string(2 * KeptLines::kMaxFieldBytes, 'x') + "\xff";
  kept.Add(line);
  LogLine broken = LineOf("e");
  broken.fields = "path=\xff";
  kept.Add(broken);
  const LogLines found = kept.Select({});
  EXPECT_LE(found.lines[0].fields.size(), KeptLines::kMaxFieldBytes);
  EXPECT_EQ(found.lines[1].fields.find('\xff'), std::string::npos);
}

TEST(KeptLinesTest, KeepsNoneIfAskedTo) {
  KeptLines kept(2);
  kept.Add(LineOf("e1"));
  kept.Limit(0);
  kept.Add(LineOf("e2"));
  const LogLines found = kept.Select({});
  EXPECT_THAT(found.lines, IsEmpty());
  EXPECT_EQ(found.first_held_sequence, 0);
  EXPECT_EQ(found.last_sequence, 2);
}

TEST(KeptLinesTest, SelectsBySequenceTimeLevelAndCount) {
  KeptLines kept(100);
  kept.Add(LineOf("e1", LogLevel::kError, 1));
  kept.Add(LineOf("e2", LogLevel::kInfo, 2));
  kept.Add(LineOf("e3", LogLevel::kWarning, 3));
  kept.Add(LineOf("e4", LogLevel::kError, 4));
  EXPECT_THAT(EventsOf(kept.Select({.after_sequence = 2})),
              ElementsAre("e3", "e4"));
  EXPECT_THAT(EventsOf(kept.Select({.least = LogLevel::kWarning})),
              ElementsAre("e1", "e3", "e4"));
  EXPECT_THAT(EventsOf(kept.Select({.since = absl::FromUnixSeconds(3)})),
              ElementsAre("e3", "e4"));
  // The last two of those that are wanted.
  EXPECT_THAT(EventsOf(kept.Select({.least = LogLevel::kWarning, .tail = 2})),
              ElementsAre("e3", "e4"));
}

TEST(KeptLinesTest, CountsWhatDoesNotFit) {
  KeptLines kept(100);
  for (int i = 1; i <= 4; ++i) kept.Add(LineOf(absl::StrCat("e", i)));
  const size_t one = BytesOf(LineOf("e1"));
  const LogLines found = kept.Select({.tail = 3, .max_bytes = 2 * one});
  EXPECT_THAT(EventsOf(found), ElementsAre("e3", "e4"));
  EXPECT_EQ(found.left_out_count, 1);
}

}  // namespace
}  // namespace ringmaster
