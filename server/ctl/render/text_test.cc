#include "server/ctl/render/text.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

const Style kPlain;
const Style kRich{.width = 80, .height = 24, .color = true, .unicode = true};

TEST(TextTest, PaintsOnlyWhereTheStyleHasColors) {
  EXPECT_EQ(Paint(kPlain, Color::kRed, "x"), "x");
  EXPECT_EQ(Paint(kRich, Color::kRed, "x"), "\x1b[31mx\x1b[0m");
  EXPECT_EQ(Paint(kRich, Color::kNone, "x"), "x");
}

TEST(TextTest, ReplacesControlCharactersAndKeepsOtherText) {
  EXPECT_EQ(Printable("a\x1b[2Jb\nc\x7F"), "a?[2Jb?c?");
  EXPECT_EQ(Printable("gr\xC3\xBC\xC3\x9F"), "gr\xC3\xBC\xC3\x9F");
  // CSI as one code point, U+009B.
  EXPECT_EQ(Printable("a\xC2\x9B"
                      "2J"),
            "a?2J");
}

TEST(TextTest, CountsCodePointsAndNotColors) {
  EXPECT_EQ(DisplayWidth("\x1b[31mgr\xC3\xBC\x1b[0m"), 3);
  EXPECT_EQ(DisplayWidth(""), 0);
}

TEST(TextTest, CutsToTheWidthAndResetsColors) {
  EXPECT_EQ(Fit(kPlain, "abcdef", 5), "ab...");
  EXPECT_EQ(Fit(kRich, "abcdef", 5), "abcd…");
  EXPECT_EQ(Fit(kPlain, "abc", 3), "abc");
  EXPECT_EQ(Fit(kPlain, "abcdef", 2), "..");
  EXPECT_EQ(Fit(kRich, "\x1b[31mabcdef\x1b[0m", 3), "\x1b[31mab…\x1b[0m");
  EXPECT_EQ(Fit(kRich, "\x1b[31mabc\x1b[0m", 3), "\x1b[31mabc\x1b[0m");
  EXPECT_EQ(Fit(kRich, "\xC3\xBC\xC3\xBC\xC3\xBC", 2), "\xC3\xBC…");
  EXPECT_EQ(Fit(kRich, "abc", 0), "");
  EXPECT_EQ(Fit(kPlain, "abc", 0), "");
}

TEST(TextTest, FormatsLossesOfAnySize) {
  EXPECT_EQ(FormatLoss(2.31), "2.310");
  EXPECT_EQ(FormatLoss(0), "0.000");
  EXPECT_EQ(FormatLoss(0.0123), "0.0123");
  EXPECT_EQ(FormatLoss(1.5e6), "1.5e+06");
  EXPECT_EQ(FormatLoss(std::nan("")), "nan");
  EXPECT_EQ(FormatLoss(std::numeric_limits<double>::infinity()), "inf");
}

TEST(TextTest, FormatsRatesAndShares) {
  EXPECT_EQ(FormatRate(81234.4), "81234");
  EXPECT_EQ(FormatRate(7.26), "7.3");
  EXPECT_EQ(FormatRate(0.424), "0.42");
  EXPECT_EQ(FormatRate(-1), "-");
  EXPECT_EQ(FormatPercent(0.123), "12%");
  EXPECT_EQ(FormatPercent(7), "100%");
  EXPECT_EQ(FormatPercent(std::nan("")), "-");
}

TEST(TextTest, FormatsDurationsWithTwoUnitsAtMost) {
  EXPECT_EQ(HumanDuration(absl::ZeroDuration()), "0s");
  EXPECT_EQ(HumanDuration(absl::Microseconds(85)), "85us");
  EXPECT_EQ(HumanDuration(absl::Microseconds(3140)), "3.1ms");
  EXPECT_EQ(HumanDuration(absl::Milliseconds(250)), "250ms");
  EXPECT_EQ(HumanDuration(absl::Milliseconds(2400)), "2.4s");
  EXPECT_EQ(HumanDuration(absl::Seconds(21)), "21s");
  EXPECT_EQ(HumanDuration(absl::Milliseconds(59700)), "1m00s");
  EXPECT_EQ(HumanDuration(absl::Seconds(65)), "1m05s");
  EXPECT_EQ(HumanDuration(absl::Minutes(123)), "2h03m");
  EXPECT_EQ(HumanDuration(absl::Hours(76)), "3d04h");
  EXPECT_EQ(HumanDuration(-absl::Seconds(1)), "-");
  EXPECT_EQ(HumanDuration(absl::InfiniteDuration()), "-");
}

TEST(TextTest, DrawsBarsOfTheGivenWidth) {
  EXPECT_EQ(Bar(kPlain, 0, 12), "[----------]");
  EXPECT_EQ(Bar(kPlain, 0.56, 12), "[#####-----]");
  EXPECT_EQ(Bar(kPlain, 1, 12), "[##########]");
  EXPECT_EQ(Bar(kPlain, std::nan(""), 1), "[--]");
  EXPECT_EQ(Bar(kRich, 0.5, 6), "[██░░]");
}

TEST(TextTest, DrawsTheLastValuesAsASparkline) {
  const std::vector<double> falling = {99, 8, 4, 1};
  EXPECT_EQ(Sparkline(kRich, falling, 3), "█▄▁");
  EXPECT_EQ(Sparkline(kPlain, falling, 3), "");
  EXPECT_EQ(Sparkline(kRich, std::vector<double>{1}, 3), "");
  EXPECT_EQ(Sparkline(kRich, std::vector<double>{2, 2}, 3), "▁▁");
  EXPECT_EQ(Sparkline(kRich, std::vector<double>{1, std::nan(""), 2}, 3),
            "▁x█");
}

// The loss of the first steps falls from far above.
TEST(TextTest, TheFirstValuesDoNotFlattenASparkline) {
  EXPECT_EQ(Sparkline(kRich, std::vector<double>{99, 3, 2, 1}, 4), "██▅▁");
  EXPECT_EQ(Sparkline(kRich, std::vector<double>{-99, 3, 2, 1}, 4), "▁█▅▁");
}

TEST(TextTest, EscapesControlCharactersButNotNewlineAndTab) {
  EXPECT_EQ(EscapeControls("a\tb\n\x1b[1m\xc2\x85\xc3\xa9\x7f"),
            "a\tb\n\\x1b[1m\\x85\xc3\xa9\\x7f");
  EXPECT_EQ(EscapeControls("\xc2"), "\xc2");
}

TEST(TextTest, WrapsBetweenWordsWherePossible) {
  const auto wrapped = [](std::string_view text, int width) {
    return absl::StrJoin(WrapLines(text, width), "|");
  };
  EXPECT_EQ(wrapped("", 5), "");
  EXPECT_EQ(wrapped("one two", 7), "one two");
  EXPECT_EQ(wrapped("one two", 6), "one|two");
  EXPECT_EQ(wrapped("one two", 3), "one|two");
  EXPECT_EQ(wrapped("abcdefgh", 3), "abc|def|gh");
  EXPECT_EQ(wrapped("a\n\nb", 3), "a||b");
  EXPECT_EQ(wrapped("\xc3\xa9\xc3\xa9\xc3\xa9", 2),
            "\xc3\xa9\xc3\xa9|\xc3\xa9");
}

}  // namespace
}  // namespace ringmaster::ctl
