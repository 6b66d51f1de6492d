#include "worker/data/bpe_tokenizer.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/data/testing/data_files.h"

namespace ringmaster {
namespace {

using Ids = std::vector<int32_t>;
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// "Ġ" is how the files write a space.
const std::vector<std::string> kMerges = {
    "h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "a a",
};
enum : int32_t {
  kHe = 256,
  kLl,
  kHell,
  kHello,
  kSpaceW,
  kOr,
  kSpaceWor,
  kLd,
  kAa,
  kEndOfText,
};

class BpeTokenizerTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<BpeTokenizer>> Load(
      const std::string& vocab, const std::string& merges) const {
    return BpeTokenizer::Load(directory_.Write("vocab.json", vocab),
                              directory_.Write("merges.txt", merges));
  }
  std::unique_ptr<BpeTokenizer> Make(
      const std::vector<std::string>& merges = kMerges) const {
    auto tokenizer = Load(VocabJson(merges), MergesText(merges));
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return *std::move(tokenizer);
  }
  void ExpectVocabRefused(const std::string& vocab,
                          const std::string& part) const {
    ExpectError(Load(vocab, "").status(), kInvalid, part);
    ExpectError(Load(vocab, "").status(), kInvalid, "vocab.json");
  }
  // The vocabulary of kMerges, with `from` replaced.
  static std::string Changed(const std::string& from, const std::string& to) {
    std::string vocab = VocabJson(kMerges);
    const size_t at = vocab.find(from);
    EXPECT_NE(at, std::string::npos);
    return vocab.replace(at, from.size(), to);
  }

  TestDirectory directory_;
};

TEST_F(BpeTokenizerTest, MergesPairsInTheOrderOfTheList) {
  const auto tokenizer = Make();
  EXPECT_EQ(tokenizer->Encode("hello world"), (Ids{kHello, kSpaceWor, kLd}));
  EXPECT_EQ(tokenizer->Encode("hell"), Ids{kHell});
  EXPECT_EQ(tokenizer->Encode("helo"), (Ids{kHe, 'l', 'o'}));
  EXPECT_EQ(tokenizer->Encode("wor"), (Ids{'w', kOr}));
  EXPECT_EQ(tokenizer->Encode(""), Ids{});
}

TEST_F(BpeTokenizerTest, EqualPairsAreMergedFromTheLeft) {
  const auto tokenizer = Make();
  EXPECT_EQ(tokenizer->Encode("aaaaa"), (Ids{kAa, kAa, 'a'}));
}

// Learned lists never put a merge before those that make its parts; a list
// that does must still mean what it says: all pairs of one kind, then the next.
TEST_F(BpeTokenizerTest, APairIsMergedEverywhereBeforeTheNextKind) {
  const auto tokenizer = Make({"ab c", "a b", "c a"});
  // "abcab": both a b, then ab c; c a never gets its turn.
  EXPECT_EQ(tokenizer->Encode("abcab"), (Ids{256, 257}));
}

TEST_F(BpeTokenizerTest, NothingIsMergedAcrossWords) {
  const auto tokenizer = Make({"a !", "! a"});
  EXPECT_EQ(tokenizer->Encode("a!a"), (Ids{'a', '!', 'a'}));
}

TEST_F(BpeTokenizerTest, TellsTheVocabularyAndTheEndOfText) {
  const auto tokenizer = Make();
  EXPECT_EQ(tokenizer->vocabulary(), kEndOfText + 1);
  EXPECT_EQ(tokenizer->end_of_text(), kEndOfText);
  // It is never made from text.
  EXPECT_EQ(tokenizer->Encode("<|endoftext|>").size(), 13u);
  EXPECT_EQ(*tokenizer->Decode({kEndOfText}), "<|endoftext|>");

  const auto without =
      Load(Changed(",\n\"<|endoftext|>\": 265", ""), MergesText(kMerges));
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ((*without)->end_of_text(), std::nullopt);
}

TEST_F(BpeTokenizerTest, DecodeRefusesWhatIsNoToken) {
  const auto tokenizer = Make();
  EXPECT_EQ(*tokenizer->Decode({kHello, kSpaceW}), "hello w");
  ExpectError(tokenizer->Decode({0, 266}).status(), kInvalid,
              "no token 266 in a vocabulary of 266");
  ExpectError(tokenizer->Decode({-1}).status(), kInvalid, "no token -1");
}

TEST_F(BpeTokenizerTest, DecodeUndoesEncodeForAnyBytes) {
  const auto tokenizer = Make();
  std::mt19937 random(7);
  std::string text(1 << 20, '\0');
  for (char& c : text) c = static_cast<char>(random());
  const Ids tokens = tokenizer->Encode(text);
  EXPECT_EQ(*tokenizer->Decode(tokens), text);
  EXPECT_LE(tokens.size(), text.size());
}

TEST_F(BpeTokenizerTest, AWordOfAnyLengthIsEncodedInGoodTime) {
  const auto tokenizer = Make();
  const Ids tokens = tokenizer->Encode(std::string(1 << 20, 'a'));
  EXPECT_EQ(tokens, Ids(1 << 19, kAa));
}

TEST_F(BpeTokenizerTest, EncodeSomeStopsAtAWordOnceItHasEnough) {
  const auto tokenizer = Make();
  const std::string_view text = "hello hello hello";
  Ids tokens = {1};
  EXPECT_EQ(tokenizer->EncodeSome(text, 6, tokens), 11u);
  EXPECT_EQ(tokens, (Ids{1, kHello, ' ', kHello}));
  EXPECT_EQ(tokenizer->EncodeSome(text.substr(11), 100, tokens), 6u);
}

// More words than the cache holds, from several threads.
TEST_F(BpeTokenizerTest, CachedWordsHaveTheSameTokens) {
  const auto tokenizer = Make();
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += " hello" + std::to_string(i);
  const Ids expected = tokenizer->Encode(text);
  std::vector<Ids> found(3);
  {
    std::vector<std::thread> threads;
    threads.reserve(found.size());
    for (Ids& ids : found)
      threads.emplace_back([&] { ids = tokenizer->Encode(text); });
    for (std::thread& thread : threads) thread.join();
  }
  for (const Ids& ids : found) EXPECT_TRUE(ids == expected);
  EXPECT_EQ(*tokenizer->Decode(expected), text);
}

TEST_F(BpeTokenizerTest, MissingFilesAreNotFound) {
  ExpectError(BpeTokenizer::Load("/nowhere/vocab.json", "").status(),
              absl::StatusCode::kNotFound, "/nowhere/vocab.json");
  ExpectError(
      BpeTokenizer::Load(directory_.Write("vocab.json", VocabJson(kMerges)),
                         "/nowhere/merges.txt")
          .status(),
      absl::StatusCode::kNotFound, "/nowhere/merges.txt");
}

TEST_F(BpeTokenizerTest, MalformedJsonIsRefusedWithItsLine) {
  ExpectVocabRefused("{\n\"a\": 0,\n\"b\" 1}", "line 3: malformed JSON");
  ExpectVocabRefused("", "line 1: malformed JSON");
  ExpectVocabRefused("{\"a\": 0", "malformed JSON");
  ExpectVocabRefused("[1]", "one object of token and id");
  ExpectVocabRefused("7", "one object of token and id");
}

TEST_F(BpeTokenizerTest, IdsMustBeZeroToNMinusOne) {
  ExpectVocabRefused(Changed(": 265", ": 266"),
                     "\"<|endoftext|>\" has id 266, but the ids of 266 tokens "
                     "must be 0 to 265");
  ExpectVocabRefused(Changed(": 265", ": 264"), "both have id 264");
  ExpectVocabRefused(Changed(": 265", ": -1"), "\"<|endoftext|>\" has -1");
  ExpectVocabRefused(Changed(": 265", ": 2.5"), "has 2.5");
  ExpectVocabRefused(Changed(": 265", ": 99999999999"), "has 99999999999");
  ExpectVocabRefused(Changed(": 265", ": \"x\""), "has a string");
  ExpectVocabRefused(Changed(": 265", ": null"), "has null");
  ExpectVocabRefused(Changed(": 265", ": true"), "has a boolean");
  ExpectVocabRefused(Changed(": 265", ": {}"), "has an object");
  ExpectVocabRefused(Changed(": 265", ": []"), "has an array");
  ExpectVocabRefused(Changed("<|endoftext|>", "hello"),
                     "token \"hello\" is there twice");
}

TEST_F(BpeTokenizerTest, VocabularyMustBeOfBytes) {
  ExpectVocabRefused(Changed("\"\\u0041\"", "\"AA\""),
                     "no token for byte 65 (\"A\")");
  ExpectVocabRefused(Changed("<|endoftext|>", "\u2581the"),
                     "stands for no byte");
  ExpectVocabRefused(Changed("<|endoftext|>", "a b"), "stands for no byte");
  ExpectVocabRefused(Changed("<|endoftext|>", ""), "empty token");
}

TEST_F(BpeTokenizerTest, BadMergesAreRefusedWithTheirLine) {
  const std::string vocab = VocabJson(kMerges);
  const auto expect_refused = [&](const std::string& merges,
                                  const std::string& part) {
    ExpectError(Load(vocab, merges).status(), kInvalid, "merges.txt, " + part);
  };
  for (const char* line : {"he", "h  e", "h e l", " h", "h ", ""}) {
    expect_refused(std::string("l l\n") + line + "\nl d\n",
                   "line 2: \"" + std::string(line) + "\" is not two tokens");
  }
  expect_refused("#version: 0.2\nh e\nl o\n",
                 "line 3: \"l\" and \"o\" merge into \"lo\", which is not in "
                 "the vocabulary");
  expect_refused("xyz a\n", "line 1: \"xyz\" is not in the vocabulary");
  expect_refused("a xyz\n", "line 1: \"xyz\" is not in the vocabulary");
  expect_refused("h e\nl l\nh e\n", "line 3: \"h\" and \"e\" are merged by");
}

TEST_F(BpeTokenizerTest, AnErrorIsALineThatCutsWhatItCites) {
  const std::string vocab = VocabJson(kMerges);
  const std::string longest(100'000, 'x');
  std::vector<absl::Status> errors;
  for (const std::string& merges :
       std::vector<std::string>{longest + "\n", longest + " a\n",
                                "a " + longest + "\n", "\x1b[2J a\n"}) {
    errors.push_back(Load(vocab, merges).status());
  }
  for (const std::string& text : std::vector<std::string>{
           "{\"" + longest + "\": \"a\"}", "{\"a\\n\\u0007\": -1}",
           "{\"a\": \x7f", "{\"a\": 1." + longest,
           "{\"a\": 1." + std::string(100'000, '0') + "}",
           "{\"" + longest + "\": 0, \"" + longest + "\": 0}"}) {
    errors.push_back(Load(text, "").status());
  }
  for (const absl::Status& error : errors) {
    const std::string message(error.message());
    EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_LT(message.size(), 1000u) << message;
    EXPECT_TRUE(std::none_of(message.begin(), message.end(), [](char c) {
      return (c >= 0 && c < 0x20) || c == 0x7f;
    })) << message;
  }
}

TEST_F(BpeTokenizerTest, LinesMayEndAsOnWindows) {
  const auto tokenizer = Load(VocabJson(kMerges), "#version: 0.2\r\nh e\r\n\n");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Encode("he"), Ids{kHe});
}

}  // namespace
}  // namespace ringmaster
