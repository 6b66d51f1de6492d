#include "worker/data/token_file.h"

#include <sys/stat.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/data/testing/data_files.h"

namespace ringmaster {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr int32_t kMagic = 20240520;

class TokenFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<TokenFile> Open(
      const std::string& contents,
      TokenFormat format = TokenFormat::kDetect) const {
    return TokenFile::Open(directory_.Write("train.bin", contents), format);
  }
  void ExpectRefused(const std::string& contents, TokenFormat format,
                     const std::string& part) const {
    const absl::Status status = Open(contents, format).status();
    ExpectError(status, kInvalid, "train.bin: ");
    ExpectError(status, kInvalid, part);
  }
  static std::vector<uint16_t> Tokens(const TokenFile& file) {
    return {file.tokens().begin(), file.tokens().end()};
  }

  const std::vector<uint16_t> tokens_ = {1, 50256, 65535, 0};
  TestDirectory directory_;
};

TEST_F(TokenFileTest, ReadsBothFormatsAndTellsThemApart) {
  EXPECT_EQ(Tokens(*Open(LlmCTokens(tokens_))), tokens_);
  EXPECT_EQ(Tokens(*Open(RawTokens(tokens_))), tokens_);
  EXPECT_EQ(Tokens(*Open(RawTokens({7}))), std::vector<uint16_t>{7});
}

TEST_F(TokenFileTest, TheFormatCanBeForced) {
  EXPECT_EQ(Tokens(*Open(LlmCTokens(tokens_), TokenFormat::kLlmC)), tokens_);
  EXPECT_EQ(Open(LlmCTokens(tokens_), TokenFormat::kRaw)->tokens().size(),
            512 + tokens_.size());
}

TEST_F(TokenFileTest, StaysValidWhenMoved) {
  TokenFile a = *Open(LlmCTokens(tokens_));
  TokenFile b = std::move(a);
  EXPECT_EQ(Tokens(b), tokens_);
  a = *TokenFile::Open(directory_.Write("other.bin", RawTokens({5})),
                       TokenFormat::kDetect);
  std::swap(a, b);
  EXPECT_EQ(Tokens(a), tokens_);
}

TEST_F(TokenFileTest, RefusesAHeaderThatDoesNotFitTheFile) {
  const std::string cut = LlmCTokens(tokens_).substr(0, 1024 + 6);
  ExpectRefused(cut, TokenFormat::kDetect,
                "tells of 4 tokens of 2 bytes, but 6 bytes follow it");
  ExpectRefused(LlmCTokens(tokens_) + "xx", TokenFormat::kDetect,
                "10 bytes follow");
  ExpectRefused(LlmCHeader(kMagic, 1, -4), TokenFormat::kDetect,
                "tells of -4 tokens");
  ExpectRefused(LlmCTokens(tokens_).substr(0, 100), TokenFormat::kDetect,
                "has 100 bytes, but llm.c's header alone has 1024");
  ExpectRefused("ab", TokenFormat::kLlmC, "has 2 bytes");
}

TEST_F(TokenFileTest, RefusesOtherMagicsAndVersions) {
  ExpectRefused(LlmCHeader(kMagic, 2, 0), TokenFormat::kDetect,
                "llm.c's version 2, but only version 1");
  ExpectRefused(LlmCHeader(1234, 1, 0), TokenFormat::kLlmC,
                "begins with 1234, but llm.c's files begin with 20240520");
  ExpectRefused(LlmCHeader(20240801, 7, 0), TokenFormat::kDetect,
                "32-bit tokens");
}

TEST_F(TokenFileTest, RefusesOddAndEmptyFiles) {
  ExpectRefused("abc", TokenFormat::kDetect,
                "has 3 bytes, which is no whole number of 2-byte tokens");
  ExpectRefused("", TokenFormat::kDetect, "holds no tokens");
  ExpectRefused(LlmCTokens({}), TokenFormat::kDetect, "holds no tokens");
}

TEST_F(TokenFileTest, RefusesWhatIsNoReadableFile) {
  ExpectError(TokenFile::Open("/nowhere/a.bin", TokenFormat::kRaw).status(),
              absl::StatusCode::kNotFound, "/nowhere/a.bin");
  ExpectError(TokenFile::Open(directory_.path(), TokenFormat::kRaw).status(),
              kInvalid, "not a regular file");
  const std::string fifo = directory_.path() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  ExpectError(TokenFile::Open(fifo, TokenFormat::kRaw).status(), kInvalid,
              "not a regular file");
}

}  // namespace
}  // namespace ringmaster
