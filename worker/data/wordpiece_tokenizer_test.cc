#include "worker/data/wordpiece_tokenizer.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/testing/data_files.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

class WordPieceTokenizerTest : public ::testing::Test {
 protected:
  // The tokens as they are written in the vocabulary.
  std::string Tokens(std::string_view text, bool lowercase = true) {
    const auto tokenizer = WordPieceTokenizer::Load(
        directory_.Write("vocab.txt", absl::StrJoin(vocabulary_, "\n") + "\n"),
        lowercase);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    std::vector<std::string> tokens;
    for (const int32_t id : (*tokenizer)->Encode(text))
      tokens.push_back(vocabulary_[static_cast<size_t>(id)]);
    return absl::StrJoin(tokens, " ");
  }
  std::string Error(const std::string& vocabulary) {
    return std::string(
        WordPieceTokenizer::Load(directory_.Write("bad.txt", vocabulary), true)
            .status()
            .message());
  }

  const std::vector<std::string> vocabulary_ = {"[PAD]",
                                                "[UNK]",
                                                "[CLS]",
                                                "[SEP]",
                                                "[MASK]",
                                                "want",
                                                "##want",
                                                "##ed",
                                                "wa",
                                                "un",
                                                "runn",
                                                "##ing",
                                                ",",
                                                "low",
                                                "lowest",
                                                "resume",
                                                "R\u00e9sum\u00e9",
                                                "\u4e2d",
                                                "\u6587",
                                                "[",
                                                "]",
                                                "!"};
  TestDirectory directory_;
};

TEST_F(WordPieceTokenizerTest, TakesTheLongestTokensFromTheLeft) {
  // The example of Google's tests of BERT.
  EXPECT_EQ(Tokens("UNwanted,running"), "un ##want ##ed , runn ##ing");
  EXPECT_EQ(Tokens("lowest low"), "lowest low");
}

TEST_F(WordPieceTokenizerTest, AWordThatCannotBeMadeIsUnknown) {
  EXPECT_EQ(Tokens("unwantedX running"), "[UNK] runn ##ing");
  EXPECT_EQ(Tokens(std::string(101, 'a')), "[UNK]");
  EXPECT_EQ(Tokens(""), "");
}

TEST_F(WordPieceTokenizerTest, LettersLoseCaseAndAccentsTogether) {
  EXPECT_EQ(Tokens("R\u00e9sum\u00e9"), "resume");
  EXPECT_EQ(Tokens("Re\u0301sume\u0301"), "resume");
  EXPECT_EQ(Tokens("R\u00e9sum\u00e9", false), "R\u00e9sum\u00e9");
}

TEST_F(WordPieceTokenizerTest, MarksAndIdeographsStandAlone) {
  EXPECT_EQ(Tokens("low!\u4e2d\u6587low"), "low ! \u4e2d \u6587 low");
  EXPECT_EQ(Tokens("\u00a1low"), "[UNK] low");
  // A special token in text is what it is written with.
  EXPECT_EQ(Tokens("[SEP]"), "[ [UNK] ]");
}

TEST_F(WordPieceTokenizerTest, DropsControlsAndBytesThatAreNoText) {
  EXPECT_EQ(Tokens("lo\u0007w\u200d"), "low");
  EXPECT_EQ(Tokens("lo\xffw\xef\xbf\xbd"), "low");
  EXPECT_EQ(Tokens(std::string_view("lo\0w", 4)), "low");
  EXPECT_EQ(Tokens("low\u00a0low\tlow"), "low low low");
  EXPECT_EQ(Tokens("low\u2028low\u2029low"), "low low low");
}

TEST_F(WordPieceTokenizerTest, BadVocabulariesAreNamed) {
  EXPECT_THAT(Error("a\n"), HasSubstr("bad.txt has no \"[UNK]\""));
  EXPECT_THAT(Error("[UNK]\na\na\n"),
              HasSubstr("bad.txt: line 3: \"a\" is there twice"));
  EXPECT_THAT(
      WordPieceTokenizer::Load("/nowhere/vocab.txt", true).status().message(),
      HasSubstr("/nowhere/vocab.txt"));
}

}  // namespace
}  // namespace ringmaster
