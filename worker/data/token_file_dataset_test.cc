// Tests data sets of .bin files: which tokens make which sample, what they
// refuse and what they leave out.
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common/transport/cancel_token.h"
#include "gtest/gtest.h"
#include "worker/data/dataset.h"
#include "worker/data/testing/data_files.h"
#include "worker/nn/testing/allocation_counter.h"

namespace ringmaster {
namespace {

using Tokens = std::vector<int32_t>;
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kTooLittle = absl::StatusCode::kFailedPrecondition;

// Tokens [begin, end).
std::vector<uint16_t> Range(int begin, int end) {
  std::vector<uint16_t> tokens(static_cast<size_t>(end - begin));
  std::iota(tokens.begin(), tokens.end(), begin);
  return tokens;
}

class TokenFileDatasetTest : public ::testing::Test {
 protected:
  // Samples of three tokens with a target each.
  DataConfig Config(const std::string& path) const {
    return {.kind = "tokens",
            .shape = {.tokens = 3, .targets = 3},
            .vocabulary = 1000,
            .path = path,
            .eval_fraction = 0};
  }
  static std::unique_ptr<Dataset> Make(const DataConfig& config) {
    auto dataset = CreateDataset(config);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return *std::move(dataset);
  }
  static void ExpectRefused(const DataConfig& config, absl::StatusCode code,
                            const std::string& part) {
    ExpectError(CreateDataset(config).status(), code, part);
  }
  // All samples of a split: the first token, then the targets.
  static std::vector<Tokens> Samples(const Dataset& dataset,
                                     Split split = Split::kTrain) {
    Batch batch(1, dataset.shape());
    std::vector<Tokens> samples;
    for (int64_t id = 0; id < dataset.size(split); ++id) {
      EXPECT_TRUE(dataset.FillBatch(split, {id}, batch).ok());
      samples.push_back({batch.inputs()[0]});
      samples.back().insert(samples.back().end(), batch.targets().begin(),
                            batch.targets().end());
      // With a target for each token, targets are the inputs shifted by one.
      if (dataset.shape().targets == 1) continue;
      for (size_t i = 1; i < batch.inputs().size(); ++i)
        EXPECT_EQ(batch.inputs()[i], batch.targets()[i - 1]);
    }
    return samples;
  }

  TestDirectory directory_;
};

TEST_F(TokenFileDatasetTest, EveryTokenIsATargetOnceAndTheTailIsLeftOut) {
  for (const std::string& contents :
       {RawTokens(Range(100, 109)), LlmCTokens(Range(100, 109))}) {
    const auto dataset = Make(Config(directory_.Write("a.bin", contents)));
    EXPECT_EQ(Samples(*dataset), (std::vector<Tokens>{{100, 101, 102, 103},
                                                      {103, 104, 105, 106}}));
  }
  // One more token completes the third.
  const auto dataset =
      Make(Config(directory_.Write("b.bin", RawTokens(Range(100, 110)))));
  EXPECT_EQ(dataset->size(Split::kTrain), 3);
}

// Equal sizes do not make equal data, and the end of a file that is held out counts.
TEST_F(TokenFileDatasetTest, IdentityTellsTheFilesApart) {
  directory_.Write("data/a.bin", LlmCTokens(Range(0, 50)));
  directory_.Write("data/b.bin", RawTokens(Range(0, 50)));
  DataConfig config = Config(directory_.path() / "data");
  config.eval_fraction = 0.2;
  const v1::DataIdentity base = Make(config)->identity();
  ASSERT_EQ(base.parts_size(), 2);
  EXPECT_EQ(base.parts(0).first_file(), directory_.path() / "data/a.bin");
  EXPECT_EQ(base.parts(0).size_bytes(), 1024 + 100);
  EXPECT_EQ(base.parts(1).size_bytes(), 100);
  std::vector<uint16_t> tokens = Range(0, 50);
  tokens.back() = 0;
  directory_.Write("data/b.bin", RawTokens(tokens));
  const v1::DataIdentity other = Make(config)->identity();
  EXPECT_EQ(other.parts(0).hash(), base.parts(0).hash());
  EXPECT_NE(other.parts(1).hash(), base.parts(1).hash());
  EXPECT_EQ(other.parts(1).size_bytes(), 100);
}

TEST_F(TokenFileDatasetTest, OneTargetMeansAWindowAtEveryToken) {
  DataConfig config = Config(directory_.Write("a.bin", RawTokens(Range(0, 6))));
  config.shape = {.tokens = 3};
  EXPECT_EQ(Samples(*Make(config)),
            (std::vector<Tokens>{{0, 3}, {1, 4}, {2, 5}}));
}

TEST_F(TokenFileDatasetTest, FillsABatchOfSeveralInTheirOrder) {
  const auto dataset =
      Make(Config(directory_.Write("a.bin", RawTokens(Range(0, 100)))));
  Batch batch(2, dataset->shape());
  ASSERT_TRUE(dataset->FillBatch(Split::kTrain, {7, 2}, batch).ok());
  EXPECT_EQ(Tokens(batch.inputs().begin(), batch.inputs().end()),
            (Tokens{21, 22, 23, 6, 7, 8}));
  EXPECT_EQ(Tokens(batch.targets().begin(), batch.targets().end()),
            (Tokens{22, 23, 24, 7, 8, 9}));
  EXPECT_EQ(batch.sample_ids()[0], 7);
}

TEST_F(TokenFileDatasetTest, FillingABatchAllocatesNothing) {
  std::vector<uint16_t> tokens = Range(0, 900);
  tokens[100] = 5000;
  directory_.Write("data/a.bin", RawTokens(tokens));
  directory_.Write("data/b.bin", LlmCTokens(tokens));
  DataConfig config = Config(directory_.path() / "data");
  config.skip_corrupt = true;
  const auto dataset = Make(config);
  Batch batch(64, dataset->shape());
  std::vector<int64_t> ids(64);
  std::iota(ids.begin(), ids.end(), dataset->size(Split::kTrain) - 64);
  const int64_t before = AllocationCount();
  EXPECT_TRUE(dataset->FillBatch(Split::kTrain, ids, batch).ok());
  EXPECT_EQ(AllocationCount() - before, 0);
}

TEST_F(TokenFileDatasetTest, ADirectoryIsItsBinFilesInTheOrderOfTheirNames) {
  directory_.Write("data/b.bin", LlmCTokens(Range(20, 24)));
  directory_.Write("data/a.bin", RawTokens(Range(10, 15)));
  directory_.Write("data/a_too_short.bin", RawTokens(Range(1, 3)));
  directory_.Write("data/readme.txt", "odd");
  directory_.Write("data/below/c.bin", RawTokens(Range(30, 40)));
  // No sample reaches from one file into the next.
  EXPECT_EQ(Samples(*Make(Config(directory_.path() / "data"))),
            (std::vector<Tokens>{{10, 11, 12, 13}, {20, 21, 22, 23}}));
}

TEST_F(TokenFileDatasetTest, HoldsOutTheLastFractionOfAllTokens) {
  directory_.Write("data/a.bin", RawTokens(Range(0, 10)));
  directory_.Write("data/b.bin", RawTokens(Range(10, 20)));
  DataConfig config = Config(directory_.path() / "data");
  config.eval_fraction = 0.7;
  const auto dataset = Make(config);
  EXPECT_EQ(Samples(*dataset), (std::vector<Tokens>{{0, 1, 2, 3}}));
  EXPECT_EQ(
      Samples(*dataset, Split::kHeldOut),
      (std::vector<Tokens>{
          {6, 7, 8, 9}, {10, 11, 12, 13}, {13, 14, 15, 16}, {16, 17, 18, 19}}));
}

TEST_F(TokenFileDatasetTest, EvaluationFilesAreHeldOutAndNotTrainedOn) {
  directory_.Write("data/train.bin", RawTokens(Range(0, 8)));
  DataConfig config = Config(directory_.path() / "data");
  config.evaluation_path =
      directory_.Write("data/val.bin", RawTokens(Range(50, 55)));
  config.eval_fraction = 0.5;  // of no account
  const auto dataset = Make(config);
  EXPECT_EQ(Samples(*dataset),
            (std::vector<Tokens>{{0, 1, 2, 3}, {3, 4, 5, 6}}));
  EXPECT_EQ(Samples(*dataset, Split::kHeldOut),
            (std::vector<Tokens>{{50, 51, 52, 53}}));

  config.path = config.evaluation_path;
  ExpectRefused(config, kInvalid, "no tokens to train on but those that");
}

TEST_F(TokenFileDatasetTest, TokensThatTheModelDoesNotTakeAreRefused) {
  std::vector<uint16_t> tokens = Range(0, 20);
  tokens[13] = 1000;
  DataConfig config = Config(directory_.Write("a.bin", LlmCTokens(tokens)));
  ExpectRefused(config, kInvalid,
                "a.bin: token 13 is 1000, but the model takes 1000 (0 to 999)");
  config.vocabulary = 1001;
  EXPECT_EQ(Make(config)->size(Split::kTrain), 6);
  // The token's number is that in the file, also beyond the border of the
  // held-out part.
  config.vocabulary = 1000;
  config.eval_fraction = 0.5;
  ExpectRefused(config, kInvalid, "token 13 is 1000");
  config.eval_fraction = 0;
  config.evaluation_path = config.path;
  config.path = directory_.Write("good.bin", RawTokens(Range(0, 20)));
  ExpectRefused(config, kInvalid, "data.evaluation_path: ");
}

TEST_F(TokenFileDatasetTest, CorruptSamplesCanBeLeftOut) {
  std::vector<uint16_t> tokens = Range(0, 16);
  tokens[3] = 5000;   // the border: of samples 0 and 1
  tokens[10] = 5000;  // within sample 3
  DataConfig config = Config(directory_.Write("a.bin", RawTokens(tokens)));
  config.skip_corrupt = true;
  const auto dataset = Make(config);
  EXPECT_EQ(Samples(*dataset),
            (std::vector<Tokens>{{6, 7, 8, 9}, {12, 13, 14, 15}}));
  EXPECT_EQ(dataset->skipped_samples(), 3);

  config.shape.targets = 1;
  EXPECT_EQ(Samples(*Make(config)),
            (std::vector<Tokens>{{4, 7}, {5, 8}, {6, 9}, {11, 14}, {12, 15}}));

  config.eval_fraction = 0.5;
  EXPECT_EQ(Samples(*Make(config), Split::kHeldOut),
            (std::vector<Tokens>{{11, 14}, {12, 15}}));
}

TEST_F(TokenFileDatasetTest, ThereMustBeAValidSampleToTrainOn) {
  DataConfig config = Config(
      directory_.Write("a.bin", RawTokens(std::vector<uint16_t>(10, 5000))));
  config.skip_corrupt = true;
  ExpectRefused(config, kTooLittle, "all 3 samples were left out");
  config.path = directory_.Write("b.bin", RawTokens(Range(0, 3)));
  ExpectRefused(config, kTooLittle,
                "holds 3 tokens, of which 3 are for training; one sample needs "
                "4");
  directory_.Write("data/a.bin", RawTokens(Range(0, 3)));
  directory_.Write("data/b.bin", RawTokens(Range(0, 3)));
  config.path = directory_.path() / "data";
  ExpectRefused(config, kTooLittle, "within one file");
}

TEST_F(TokenFileDatasetTest, ThereMustBeHeldOutSamplesWhereTheyAreWanted) {
  DataConfig config =
      Config(directory_.Write("a.bin", RawTokens(Range(0, 20))));
  config.eval_fraction = 0.1;
  EXPECT_EQ(Make(config)->size(Split::kHeldOut), 0);
  config.needs_held_out = true;
  ExpectRefused(config, kTooLittle, "data.eval_fraction: ");
  config.needs_held_out = false;
  config.evaluation_path = directory_.Write("b.bin", RawTokens(Range(0, 3)));
  ExpectRefused(config, kTooLittle, "data.evaluation_path: ");
}

TEST_F(TokenFileDatasetTest, TheFormatCanBeForced) {
  DataConfig config =
      Config(directory_.Write("a.bin", RawTokens(Range(0, 20))));
  config.token_format = "llm.c";
  ExpectRefused(config, kInvalid, "llm.c's header alone has 1024");
  config.token_format = "raw";
  EXPECT_EQ(Make(config)->size(Split::kTrain), 6);
}

TEST_F(TokenFileDatasetTest, FingerprintIsOfTheContents) {
  const DataConfig base =
      Config(directory_.Write("a.bin", RawTokens(Range(0, 20))));
  const uint64_t fingerprint = Make(base)->fingerprint();
  // Neither the path, nor the format, nor the held-out part matters.
  DataConfig config =
      Config(directory_.Write("other.bin", LlmCTokens(Range(0, 20))));
  config.eval_fraction = 0.5;
  EXPECT_EQ(Make(config)->fingerprint(), fingerprint);

  std::vector<uint16_t> changed = Range(0, 20);
  changed[19] = 0;
  config.path = directory_.Write("changed.bin", RawTokens(changed));
  EXPECT_NE(Make(config)->fingerprint(), fingerprint);
  // The ends of files do matter.
  directory_.Write("data/a.bin", RawTokens(Range(0, 10)));
  directory_.Write("data/b.bin", RawTokens(Range(10, 20)));
  config.path = directory_.path() / "data";
  EXPECT_NE(Make(config)->fingerprint(), fingerprint);
  config = base;
  config.evaluation_path = directory_.Write("eval.bin", RawTokens(Range(0, 9)));
  EXPECT_NE(Make(config)->fingerprint(), fingerprint);
}

TEST_F(TokenFileDatasetTest, BadFilesAreNamedWithTheirField) {
  DataConfig config = Config(directory_.Write("odd.bin", "abc"));
  ExpectRefused(config, kInvalid, "data.path: ");
  ExpectRefused(config, kInvalid, "odd.bin: has 3 bytes");
  config.path = "/nowhere/a.bin";
  ExpectRefused(config, absl::StatusCode::kNotFound,
                "data.path: cannot read /nowhere/a.bin");
  directory_.Write("none/readme.txt", "");
  config.path = directory_.path() / "none";
  ExpectRefused(config, kInvalid, "has no files that end in .bin");
  config.path = "/dev/null";
  ExpectRefused(config, kInvalid, "neither a regular file nor a directory");
  config.path = directory_.Write("a.bin", RawTokens(Range(0, 20)));
  config.evaluation_path = "/nowhere/b.bin";
  ExpectRefused(config, absl::StatusCode::kNotFound,
                "data.evaluation_path: cannot read /nowhere/b.bin");
}

TEST_F(TokenFileDatasetTest, ReadingEndsWhenItIsCancelled) {
  CancelToken cancel;
  cancel.Cancel("halted");
  ExpectError(
      CreateDataset(Config(directory_.Write("a.bin", RawTokens(Range(0, 20)))),
                    &cancel)
          .status(),
      absl::StatusCode::kAborted, "halted");
}

// Longer than the pieces in which tokens are checked.
TEST_F(TokenFileDatasetTest, ChecksAndHashesAllOfALongFile) {
  std::vector<uint16_t> tokens((1 << 20) + 3, 7);
  DataConfig config = Config(directory_.Write("a.bin", RawTokens(tokens)));
  const uint64_t fingerprint = Make(config)->fingerprint();
  tokens.back() = 8;
  config.path = directory_.Write("b.bin", RawTokens(tokens));
  EXPECT_NE(Make(config)->fingerprint(), fingerprint);
  tokens.back() = 1000;
  config.path = directory_.Write("c.bin", RawTokens(tokens));
  ExpectRefused(config, kInvalid, "token 1048578 is 1000");
}

}  // namespace
}  // namespace ringmaster
