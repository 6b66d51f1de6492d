#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/transport/cancel_token.h"
#include "gtest/gtest.h"
#include "worker/data/dataset.h"
#include "worker/data/testing/data_files.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

class TextDatasetTest : public ::testing::Test {
 protected:
  fs::path Write(const std::string& relative,
                 const std::string& contents) const {
    return directory_.Write(relative, contents);
  }

  static absl::StatusOr<std::unique_ptr<Dataset>> Open(
      const fs::path& path, int64_t window = 2, double eval_fraction = 0,
      int64_t max_bytes = 1 << 20) {
    return CreateDataset({.kind = "text",
                          .shape = {.tokens = window},
                          .path = path.string(),
                          .eval_fraction = eval_fraction,
                          .max_bytes = max_bytes});
  }

  // All bytes of the training part.
  static std::string Contents(const Dataset& dataset) {
    Batch batch(1, dataset.shape());
    std::string contents;
    for (int64_t id = 0; id < dataset.size(Split::kTrain); ++id) {
      EXPECT_TRUE(dataset.FillBatch(Split::kTrain, {id}, batch).ok());
      if (id == 0)
        contents.assign(batch.inputs().begin(), batch.inputs().end());
      contents.push_back(static_cast<char>(batch.targets()[0]));
    }
    return contents;
  }

  TestDirectory directory_;
  const fs::path root_ = directory_.path();
};

TEST_F(TextDatasetTest, SampleIsAWindowOfBytesAndTheNextByte) {
  const auto dataset = *Open(Write("a.txt", std::string("ab\xff\0d", 5)), 3);
  EXPECT_EQ(dataset->size(Split::kTrain), 2);
  Batch batch(1, {.tokens = 3});
  ASSERT_TRUE(dataset->FillBatch(Split::kTrain, {1}, batch).ok());
  EXPECT_EQ(batch.inputs()[0], 'b');
  EXPECT_EQ(batch.inputs()[1], 0xff);
  EXPECT_EQ(batch.inputs()[2], 0);
  EXPECT_EQ(batch.targets()[0], 'd');
}

TEST_F(TextDatasetTest, HoldsOutTheLastBytesWithoutCrossingTheBorder) {
  const auto dataset = *Open(Write("a.txt", "0123456789"), 2, 0.4);
  EXPECT_EQ(Contents(*dataset), "012345");
  EXPECT_EQ(dataset->size(Split::kHeldOut), 2);
  Batch batch(2, {.tokens = 2});
  ASSERT_TRUE(dataset->FillBatch(Split::kHeldOut, {0, 1}, batch).ok());
  EXPECT_EQ(batch.inputs()[0], '6');
  EXPECT_EQ(batch.targets()[1], '9');
}

TEST_F(TextDatasetTest, HeldOutPartMayBeTooSmallForASample) {
  EXPECT_EQ(
      (*Open(Write("a.txt", "0123456789"), 2, 0.1))->size(Split::kHeldOut), 0);
}

TEST_F(TextDatasetTest, JoinsTheFilesOfATreeInTheOrderOfTheirPaths) {
  Write("b.txt", "BB");
  Write("a/z.txt", "ZZ");
  Write("a/deep/er.txt", "DD");
  Write("empty", "");
  EXPECT_EQ(Contents(**Open(root_)), "DDZZBB");
}

TEST_F(TextDatasetTest, ReadsLinkedFilesButDoesNotFollowLinkedDirectories) {
  Write("tree/a", "AAAA");
  Write("outside/b", "BBBB");
  fs::create_symlink(root_ / "outside/b", root_ / "tree/link_to_file");
  fs::create_directory_symlink(root_ / "outside",
                               root_ / "tree/link_to_directory");
  fs::create_directory_symlink(root_ / "tree", root_ / "tree/loop");
  fs::create_symlink(root_ / "nowhere", root_ / "tree/dangling");
  EXPECT_EQ(Contents(**Open(root_ / "tree")), "AAAABBBB");
}

TEST_F(TextDatasetTest, PassesOverWhatIsNotARegularFile) {
  Write("tree/a", "AAAA");
  ASSERT_EQ(mkfifo((root_ / "tree/fifo").c_str(), 0600), 0);
  EXPECT_EQ(Contents(**Open(root_ / "tree")), "AAAA");
  ExpectError(Open(root_ / "tree/fifo").status(),
              absl::StatusCode::kInvalidArgument, "neither a regular file nor");
}

TEST_F(TextDatasetTest, FingerprintIsOfTheContentsNotOfThePath) {
  const uint64_t base = (*Open(Write("a.txt", "hello world")))->fingerprint();
  EXPECT_EQ((*Open(Write("other/b.txt", "hello world")))->fingerprint(), base);
  EXPECT_NE((*Open(Write("c.txt", "hello worle")))->fingerprint(), base);
  EXPECT_NE((*Open(Write("d.txt", "hello world ")))->fingerprint(), base);
}

TEST_F(TextDatasetTest, IdentityHasEachFile) {
  Write("a", "AAAA");
  Write("b", "BBBB");
  const v1::DataIdentity base = (*Open(root_))->identity();
  ASSERT_EQ(base.parts_size(), 2);
  EXPECT_EQ(base.parts(1).first_file(), root_ / "b");
  EXPECT_EQ(base.parts(1).size_bytes(), 4);
  Write("b", "BBBC");
  const v1::DataIdentity other = (*Open(root_))->identity();
  EXPECT_EQ(other.parts(0).hash(), base.parts(0).hash());
  EXPECT_NE(other.parts(1).hash(), base.parts(1).hash());
}

TEST_F(TextDatasetTest, ReadsAFileLargerThanOnePiece) {
  std::string contents((1 << 20) + 12345, 'x');
  contents.back() = 'y';
  const auto dataset = *Open(Write("a.txt", contents), 2, 0, 1 << 22);
  Batch batch(1, {.tokens = 2});
  ASSERT_TRUE(
      dataset
          ->FillBatch(Split::kTrain, {dataset->size(Split::kTrain) - 1}, batch)
          .ok());
  EXPECT_EQ(batch.targets()[0], 'y');
  EXPECT_EQ(dataset->size(Split::kTrain),
            static_cast<int64_t>(contents.size()) - 2);
}

TEST_F(TextDatasetTest, MissingPathIsNotFound) {
  ExpectError(Open(root_ / "missing").status(), absl::StatusCode::kNotFound,
              (root_ / "missing").string());
  Write("file", "abc");
  ExpectError(Open(root_ / "file/below").status(), absl::StatusCode::kNotFound,
              "file/below");
}

TEST_F(TextDatasetTest, TooLittleDataTellsHowMuchOneSampleNeeds) {
  ExpectError(Open(Write("a.txt", "ab"), 2).status(),
              absl::StatusCode::kFailedPrecondition,
              "holds 2 bytes, of which 2 are for training; one sample needs 3");
  ExpectError(Open(Write("b.txt", ""), 2).status(),
              absl::StatusCode::kFailedPrecondition, "holds 0 bytes");
  fs::create_directory(root_ / "empty");
  ExpectError(Open(root_ / "empty", 2).status(),
              absl::StatusCode::kFailedPrecondition, "holds 0 bytes");
}

TEST_F(TextDatasetTest, MoreThanMaxBytesIsRefusedAndTellsTheLimit) {
  Write("tree/a", "AAAA");
  Write("tree/b", "BBBB");
  EXPECT_TRUE(Open(root_ / "tree", 2, 0, 8).ok());
  ExpectError(Open(root_ / "tree", 2, 0, 7).status(),
              absl::StatusCode::kInvalidArgument, "data.max_bytes = 7");
}

TEST_F(TextDatasetTest, ATargetForEachByteMeansSamplesThatDoNotOverlap) {
  const auto dataset = *CreateDataset({.kind = "text",
                                       .shape = {.tokens = 3, .targets = 3},
                                       .path = Write("a.txt", "0123456789"),
                                       .eval_fraction = 0.3});
  EXPECT_EQ(dataset->size(Split::kTrain), 2);
  EXPECT_EQ(dataset->size(Split::kHeldOut), 0);
  Batch batch(2, dataset->shape());
  ASSERT_TRUE(dataset->FillBatch(Split::kTrain, {0, 1}, batch).ok());
  EXPECT_EQ(std::string(batch.inputs().begin(), batch.inputs().end()),
            "012345");
  EXPECT_EQ(std::string(batch.targets().begin(), batch.targets().end()),
            "123456");
}

TEST_F(TextDatasetTest, AModelThatMasksTokensGetsWindowsAlone) {
  const auto dataset =
      *CreateDataset({.kind = "text",
                      .shape = {.tokens = 3, .targets = 2, .is_masked = true},
                      .path = Write("a.txt", "abcdefgh").string(),
                      .eval_fraction = 0});
  ASSERT_EQ(dataset->size(Split::kTrain), 2);
  Batch batch(2, dataset->shape());
  ASSERT_TRUE(dataset->FillBatch(Split::kTrain, {0, 1}, batch).ok());
  EXPECT_EQ(std::string(batch.inputs().begin(), batch.inputs().end()),
            "abcdef");
  EXPECT_THAT(batch.targets(), ::testing::Each(0));
}

TEST_F(TextDatasetTest, AModelMustTakeAllBytes) {
  ExpectError(CreateDataset({.kind = "text",
                             .vocabulary = 64,
                             .path = Write("a.txt", "0123456789")})
                  .status(),
              absl::StatusCode::kInvalidArgument,
              "256 different tokens, but the model takes 64");
}

class EncodedTextDatasetTest : public TextDatasetTest {
 protected:
  // "ab" is token 256, and there are 258.
  DataConfig Config(const std::string& text) const {
    return {.kind = "text",
            .shape = {.tokens = 2, .targets = 2},
            .vocabulary = 258,
            .path = Write("text", text),
            .eval_fraction = 0,
            .vocabulary_path = Write("vocab.json", VocabJson({"a b"})),
            .merges_path = Write("merges.txt", MergesText({"a b"}))};
  }
};

TEST_F(EncodedTextDatasetTest, TokensAreTheTokenizers) {
  const auto dataset = *CreateDataset(Config("abc ab!abab?"));
  // ab c | space ab | ! | ab ab | ?
  EXPECT_EQ(dataset->size(Split::kTrain), 3);
  Batch batch(3, dataset->shape());
  ASSERT_TRUE(dataset->FillBatch(Split::kTrain, {0, 1, 2}, batch).ok());
  EXPECT_EQ(std::vector<int32_t>(batch.inputs().begin(), batch.inputs().end()),
            (std::vector<int32_t>{256, 'c', ' ', 256, '!', 256}));
  EXPECT_EQ(
      std::vector<int32_t>(batch.targets().begin(), batch.targets().end()),
      (std::vector<int32_t>{'c', ' ', 256, '!', 256, 256}));
}

// Text is encoded in pieces; where these end must not show.
TEST_F(EncodedTextDatasetTest, LongTextIsEncodedAsAWhole) {
  std::string text;
  while (text.size() < (size_t{5} << 19)) text += "ab ";
  const auto dataset = *CreateDataset(Config(text));
  const auto tokens = static_cast<int64_t>(text.size() / 3 * 2);
  EXPECT_EQ(dataset->size(Split::kTrain), (tokens - 1) / 2);
  Batch batch(1, dataset->shape());
  for (int64_t id = 0; id < dataset->size(Split::kTrain); ++id) {
    ASSERT_TRUE(dataset->FillBatch(Split::kTrain, {id}, batch).ok());
    ASSERT_EQ(batch.inputs()[0], 256) << id;
    ASSERT_EQ(batch.inputs()[1], ' ') << id;
  }
}

TEST_F(EncodedTextDatasetTest, TheVocabularyMustFitTheModel) {
  DataConfig config = Config("abc ab!abab?");
  config.vocabulary = 257;
  ExpectError(CreateDataset(config).status(),
              absl::StatusCode::kInvalidArgument,
              "vocab.json has 258 tokens, but the model takes 257");
  // Models round the number up.
  config.vocabulary = 320;
  EXPECT_TRUE(CreateDataset(config).ok());
}

TEST_F(EncodedTextDatasetTest, BadTokenizerFilesAreNamed) {
  DataConfig config = Config("abc ab!abab?");
  config.merges_path = "/nowhere/merges.txt";
  ExpectError(CreateDataset(config).status(), absl::StatusCode::kNotFound,
              "/nowhere/merges.txt");
}

TEST_F(EncodedTextDatasetTest, FingerprintTellsTokensFromBytes) {
  DataConfig config = Config("abc ab!abab?");
  const uint64_t encoded = (*CreateDataset(config))->fingerprint();
  EXPECT_EQ((*CreateDataset(config))->fingerprint(), encoded);
  config.vocabulary_path = "";
  config.merges_path = "";
  EXPECT_NE((*CreateDataset(config))->fingerprint(), encoded);
}

// A generation may be halted while its data is being read.
TEST_F(TextDatasetTest, ReadingEndsWhenItIsCancelled) {
  const fs::path file = Write("tree/a", "AAAA");
  CancelToken cancel;
  cancel.Cancel("halted");
  for (const fs::path& path : {file, root_ / "tree"}) {
    ExpectError(CreateDataset({.kind = "text",
                               .shape = {.tokens = 2},
                               .path = path.string(),
                               .eval_fraction = 0},
                              &cancel)
                    .status(),
                absl::StatusCode::kAborted, "halted");
  }
}

TEST_F(TextDatasetTest, UnreadablePathIsPermissionDenied) {
  const fs::path file = Write("tree/secret/a", "AAAA");
  fs::permissions(file, fs::perms::none);
  // Root may read anything, so the test runs as nobody meanwhile.
  const uid_t user = geteuid();
  if (user == 0 && seteuid(65534) != 0)
    GTEST_SKIP() << "root that cannot give up its rights reads everything";
  const absl::Cleanup restore = [user] { EXPECT_EQ(seteuid(user), 0); };
  ExpectError(Open(file).status(), absl::StatusCode::kPermissionDenied,
              "secret/a");

  ASSERT_EQ(seteuid(user), 0);
  fs::permissions(root_ / "tree/secret", fs::perms::none);
  if (user == 0) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  EXPECT_EQ(Open(root_ / "tree").status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Open(file).status().code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(seteuid(user), 0);
  fs::permissions(root_ / "tree/secret", fs::perms::owner_all);
}

}  // namespace
}  // namespace ringmaster
