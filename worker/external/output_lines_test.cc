#include "worker/external/output_lines.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Cut(const std::vector<std::string>& pieces) {
  std::vector<std::string> lines;
  LineCutter cutter([&](std::string_view line) { lines.emplace_back(line); });
  for (const std::string& piece : pieces) cutter.Take(piece);
  cutter.Finish();
  return lines;
}

TEST(LineCutterTest, CutsAtLineFeedsWhereverThePiecesEnd) {
  EXPECT_THAT(Cut({"one\ntw", "o\n", "\nthree"}),
              ElementsAre("one", "two", "", "three"));
  EXPECT_THAT(Cut({"one\r", "\ntwo\r\n"}), ElementsAre("one", "two"));
  EXPECT_THAT(Cut({""}), ElementsAre());
}

TEST(LineCutterTest, OfALineThatIsWrittenOverTheLastTextCounts) {
  EXPECT_THAT(Cut({"\r 10%", "\r 20%\r100%\ndone\n"}),
              ElementsAre("100%", "done"));
}

TEST(LineCutterTest, CutsALongLineIntoPieces) {
  const std::string piece(LineCutter::kMaxLineBytes, 'x');
  EXPECT_THAT(Cut({piece + piece + "y\n"}), ElementsAre(piece, piece, "y"));
}

std::string Words(const std::vector<std::string>& lines) {
  LastWords words;
  for (const std::string& line : lines) words.Add(line);
  return words.Text();
}

TEST(LastWordsTest, AreTheLastLineThatSaysSomething) {
  EXPECT_EQ(Words({}), "");
  EXPECT_EQ(Words({"one", "  two  ", "", " "}), "two");
  EXPECT_EQ(Words({std::string(2000, 'x')}), std::string(500, 'x') + "...");
}

TEST(LastWordsTest, AreUtf8WhateverWasPrinted) {
  EXPECT_EQ(Words({"\xff"}), "\uFFFD");
  EXPECT_EQ(Words({"  File \"\xff.py\", line 1", "ValueError"}),
            "ValueError (File \"\uFFFD.py\", line 1)");
  // The character would begin with byte 500.
  const std::string most(499, 'x');
  EXPECT_EQ(Words({most + "\u00fc" + "y"}), most + "...");
  EXPECT_EQ(Words({"  File \"" + std::string(493, 'x') + "\u00fc", "boom"}),
            "boom (File \"" + std::string(493, 'x') + ")");
}

TEST(LastWordsTest, OfATracebackAlsoSayWhere) {
  EXPECT_EQ(Words({"Traceback (most recent call last):",
                   "  File \"train.py\", line 9, in <module>", "    main()",
                   "  File \"train.py\", line 3, in main",
                   "    raise ValueError(\"boom\")", "ValueError: boom"}),
            "ValueError: boom (File \"train.py\", line 3, in main)");
}

}  // namespace
}  // namespace ringmaster
