#include "worker/data/pretokenizer.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using Words = std::vector<std::string>;

Words Split(std::string_view text) {
  Words words;
  while (!text.empty()) {
    const size_t length = FirstWordBytes(text);
    words.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return words;
}

TEST(PretokenizerTest, AWordTakesTheOneSpaceBeforeIt) {
  EXPECT_EQ(Split("Hello big world"), (Words{"Hello", " big", " world"}));
  EXPECT_EQ(Split(" a"), Words{" a"});
}

TEST(PretokenizerTest, LettersNumbersAndTheRestAreApart) {
  EXPECT_EQ(Split("abc123!?x9"), (Words{"abc", "123", "!?", "x", "9"}));
  EXPECT_EQ(Split("f(x, 12)"), (Words{"f", "(", "x", ",", " 12", ")"}));
  EXPECT_EQ(Split("a_b"), (Words{"a", "_", "b"}));
}

TEST(PretokenizerTest, ContractionsAreWords) {
  EXPECT_EQ(Split("I'm we're they've he'll I'd it's don't"),
            (Words{"I", "'m", " we", "'re", " they", "'ve", " he", "'ll", " I",
                   "'d", " it", "'s", " don", "'t"}));
  // By their letters alone: what follows does not matter, capitals do.
  EXPECT_EQ(Split("'store"), (Words{"'s", "tore"}));
  EXPECT_EQ(Split("IT'S"), (Words{"IT", "'", "S"}));
  EXPECT_EQ(Split("'l"), (Words{"'", "l"}));
  // A quotation mark after a space, or after another mark, begins no
  // contraction.
  EXPECT_EQ(Split("a 's"), (Words{"a", " '", "s"}));
  EXPECT_EQ(Split("!'s"), (Words{"!'", "s"}));
}

TEST(PretokenizerTest, WhiteSpaceLeavesItsLastCharacterToTheNextWord) {
  EXPECT_EQ(Split("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(Split("a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(Split("a\nb"), (Words{"a", "\n", "b"}));
  EXPECT_EQ(Split("a \t b"), (Words{"a", " \t", " b"}));
  EXPECT_EQ(Split("a\r\n  b"), (Words{"a", "\r\n ", " b"}));
  EXPECT_EQ(Split("a  "), (Words{"a", "  "}));
  EXPECT_EQ(Split(" "), Words{" "});
  EXPECT_EQ(Split("\n"), Words{"\n"});
}

TEST(PretokenizerTest, ClassesAreUnicodes) {
  EXPECT_EQ(Split("naïve été"), (Words{"naïve", " été"}));
  EXPECT_EQ(Split("Привет мир"), (Words{"Привет", " мир"}));
  EXPECT_EQ(Split("日本語2024年"), (Words{"日本語", "2024", "年"}));
  // Arabic-Indic digits, a Roman numeral and a superscript are numbers.
  EXPECT_EQ(Split("x٣Ⅷ²"), (Words{"x", "٣Ⅷ²"}));
  EXPECT_EQ(Split("ok 😀😀!"), (Words{"ok", " 😀😀!"}));
  // A combining mark is neither a letter nor a number.
  EXPECT_EQ(Split("e\u0301a"), (Words{"e", "\u0301", "a"}));
}

TEST(PretokenizerTest, WhiteSpaceIsUnicodesToo) {
  // Only U+0020 is taken along by a word.
  EXPECT_EQ(Split("a\u00a0b"), (Words{"a", "\u00a0", "b"}));
  EXPECT_EQ(Split("a\u3000\u2003 b"), (Words{"a", "\u3000\u2003", " b"}));
  EXPECT_EQ(Split("a\u2028\u0085b"), (Words{"a", "\u2028", "\u0085", "b"}));
  // Zero-width space and byte order mark are none.
  EXPECT_EQ(Split("\ufeff\u200b"), Words{"\ufeff\u200b"});
}

TEST(PretokenizerTest, BytesThatAreNotUtf8AreCharactersOfTheirOwn) {
  EXPECT_EQ(Split("a\xff\xfe!b"), (Words{"a", "\xff\xfe!", "b"}));
  EXPECT_EQ(Split(" \xc3"), Words{" \xc3"});  // the text ends in a character
  EXPECT_EQ(Split("\xc0\xaf"), Words{"\xc0\xaf"});          // overlong
  EXPECT_EQ(Split("\xed\xa0\x80"), Words{"\xed\xa0\x80"});  // surrogate
  EXPECT_EQ(Split("é\xa9x"), (Words{"é", "\xa9", "x"}));
  EXPECT_EQ(Split(std::string("a\0b", 3)),
            (Words{"a", std::string(1, '\0'), "b"}));
}

TEST(PretokenizerTest, RunsWithoutEndAreCut) {
  for (const char c : {'a', '1', '!', ' '}) {
    const std::string text(kMaxWordBytes + 7, c);
    EXPECT_EQ(FirstWordBytes(text), kMaxWordBytes) << c;
  }
  // Never within a character.
  std::string text = "a";
  while (text.size() < kMaxWordBytes + 10) text += "日";
  EXPECT_EQ((FirstWordBytes(text) - 1) % 3, 0u);
}

}  // namespace
}  // namespace ringmaster
