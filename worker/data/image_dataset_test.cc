// Tests data sets of IDX files: which samples they have, what they refuse and
// what they leave out.
#include <memory>
#include <string>
#include <vector>

#include "common/transport/cancel_token.h"
#include "gtest/gtest.h"
#include "worker/data/dataset.h"
#include "worker/data/testing/data_files.h"
#include "worker/nn/testing/allocation_counter.h"

namespace ringmaster {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kTooLittle = absl::StatusCode::kFailedPrecondition;

class ImageDatasetTest : public ::testing::Test {
 protected:
  // Images of 1 x 2 pixels.
  std::string Images(const std::string& name, std::string_view pixels) const {
    return directory_.Write(
        name,
        IdxImagesFile(static_cast<uint32_t>(pixels.size() / 2), 1, 2, pixels));
  }
  std::string Labels(const std::string& name, std::string_view labels) const {
    return directory_.Write(name, IdxLabelsFile(labels));
  }
  // Five images, of three classes.
  DataConfig Config() const {
    return {.kind = "images",
            .shape = {.pixels = 2},
            .vocabulary = 3,
            .path = Images("images", "aAbBcCdDeE"),
            .labels_path = Labels("labels", std::string("\0\1\2\0\1", 5)),
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
  // All samples of a split as text, such as "aA0 bB1 ".
  static std::string Samples(const Dataset& dataset,
                             Split split = Split::kTrain) {
    Batch batch(1, dataset.shape());
    std::string samples;
    for (int64_t id = 0; id < dataset.size(split); ++id) {
      EXPECT_TRUE(dataset.FillBatch(split, {id}, batch).ok());
      EXPECT_EQ(batch.sample_ids()[0], id);
      samples.append(batch.pixels().begin(), batch.pixels().end());
      samples += std::to_string(batch.targets()[0]) + " ";
    }
    return samples;
  }

  TestDirectory directory_;
};

TEST_F(ImageDatasetTest, SampleIsAnImageAndItsLabel) {
  const auto dataset = Make(Config());
  EXPECT_EQ(Samples(*dataset), "aA0 bB1 cC2 dD0 eE1 ");
  EXPECT_EQ(dataset->skipped_samples(), 0);
  Batch batch(3, dataset->shape());
  ASSERT_TRUE(dataset->FillBatch(Split::kTrain, {4, 0}, batch).ok());
  EXPECT_EQ(std::string(batch.pixels().begin(), batch.pixels().end()), "eEaA");
  EXPECT_EQ(batch.targets()[0], 1);
  EXPECT_EQ(batch.targets()[1], 0);
}

TEST_F(ImageDatasetTest, FillingABatchAllocatesNothing) {
  const auto dataset = Make(Config());
  Batch batch(3, dataset->shape());
  const std::vector<int64_t> ids = {4, 0, 1};
  const int64_t before = AllocationCount();
  EXPECT_TRUE(dataset->FillBatch(Split::kTrain, ids, batch).ok());
  EXPECT_EQ(AllocationCount() - before, 0);
}

TEST_F(ImageDatasetTest, HoldsOutTheLastFraction) {
  DataConfig config = Config();
  config.eval_fraction = 0.4;
  const auto dataset = Make(config);
  EXPECT_EQ(Samples(*dataset), "aA0 bB1 cC2 ");
  EXPECT_EQ(Samples(*dataset, Split::kHeldOut), "dD0 eE1 ");
}

TEST_F(ImageDatasetTest, EvaluationFilesAreHeldOut) {
  DataConfig config = Config();
  config.eval_fraction = 0.4;  // of no account
  config.evaluation_path = Images("eval_images", "xXyY");
  config.evaluation_labels_path = Labels("eval_labels", "\2\1");
  const auto dataset = Make(config);
  EXPECT_EQ(Samples(*dataset), "aA0 bB1 cC2 dD0 eE1 ");
  EXPECT_EQ(Samples(*dataset, Split::kHeldOut), "xX2 yY1 ");
}

TEST_F(ImageDatasetTest, ImagesMustHaveTheModelsSize) {
  DataConfig config = Config();
  config.shape.pixels = 784;
  ExpectRefused(config, kInvalid,
                "images of 1 x 2 = 2 pixels, but the model takes 784");
}

TEST_F(ImageDatasetTest, ThereMustBeALabelForEachImage) {
  DataConfig config = Config();
  config.labels_path = Labels("few", "\1\1\1");
  ExpectRefused(config, kInvalid, "few has 3 labels, but");
  ExpectRefused(config, kInvalid, "images has 5 images");
}

TEST_F(ImageDatasetTest, LabelsThatAreNoClassAreRefused) {
  DataConfig config = Config();
  config.labels_path = Labels("bad", "\1\2\3\1\1");
  ExpectRefused(config, kInvalid,
                "bad: label 2 is 3, but the model has 3 classes (0 to 2)");
  config.eval_fraction = 0.8;
  ExpectRefused(config, kInvalid, "bad: label 2 is 3");
  config = Config();
  config.evaluation_path = Images("eval_images", "xXyY");
  config.evaluation_labels_path = Labels("eval_labels", "\1\7");
  ExpectRefused(config, kInvalid, "data.evaluation_labels_path: ");
  ExpectRefused(config, kInvalid, "label 1 is 7");
}

TEST_F(ImageDatasetTest, CorruptSamplesCanBeLeftOut) {
  DataConfig config = Config();
  config.labels_path = Labels("bad", "\7\1\7\1\7");
  config.skip_corrupt = true;
  config.eval_fraction = 0.4;
  const auto dataset = Make(config);
  EXPECT_EQ(Samples(*dataset), "bB1 ");
  EXPECT_EQ(Samples(*dataset, Split::kHeldOut), "dD1 ");
  EXPECT_EQ(dataset->skipped_samples(), 3);

  config.labels_path = Labels("all_bad", "\7\7\7\7\7");
  ExpectRefused(config, kTooLittle, "3 of these were left out");
}

TEST_F(ImageDatasetTest, ThereMustBeHeldOutSamplesWhereTheyAreWanted) {
  DataConfig config = Config();
  config.eval_fraction = 0.1;
  EXPECT_EQ(Make(config)->size(Split::kHeldOut), 0);
  config.needs_held_out = true;
  ExpectRefused(config, kTooLittle, "data.eval_fraction: ");
}

TEST_F(ImageDatasetTest, BadFilesAreNamedWithTheirField) {
  DataConfig config = Config();
  std::swap(config.path, config.labels_path);
  ExpectRefused(config, kInvalid, "data.path: ");
  ExpectRefused(config, kInvalid, "are images and labels swapped?");
  config = Config();
  config.labels_path = "/nowhere/labels";
  ExpectRefused(config, absl::StatusCode::kNotFound,
                "data.labels_path: cannot read /nowhere/labels");
  config = Config();
  config.max_bytes = 9;
  ExpectRefused(config, kInvalid, "more than the 9 that are allowed");
}

TEST_F(ImageDatasetTest, FingerprintIsOfTheContents) {
  const uint64_t base = Make(Config())->fingerprint();
  DataConfig config = Config();
  config.path = directory_.Write("compressed",
                                 Gzip(IdxImagesFile(5, 1, 2, "aAbBcCdDeE")));
  EXPECT_EQ(Make(config)->fingerprint(), base);
  config.path = Images("other", "aAbBcCdDeX");
  EXPECT_NE(Make(config)->fingerprint(), base);
  config = Config();
  config.labels_path = Labels("other", "\1\1\1\1\1");
  EXPECT_NE(Make(config)->fingerprint(), base);
  config = Config();
  config.evaluation_path = config.path;
  config.evaluation_labels_path = config.labels_path;
  EXPECT_NE(Make(config)->fingerprint(), base);
}

// It is that of the contents: a host may have them compressed.
TEST_F(ImageDatasetTest, IdentityHasImagesAndLabels) {
  DataConfig config = Config();
  const v1::DataIdentity base = Make(config)->identity();
  ASSERT_EQ(base.parts_size(), 2);
  EXPECT_EQ(base.parts(0).first_file(), config.path);
  EXPECT_EQ(base.parts(0).size_bytes(), 10);
  EXPECT_EQ(base.parts(1).size_bytes(), 5);
  config.path = directory_.Write("compressed",
                                 Gzip(IdxImagesFile(5, 1, 2, "aAbBcCdDeE")));
  config.labels_path = Labels("other", "\1\1\1\1\1");
  const v1::DataIdentity other = Make(config)->identity();
  EXPECT_EQ(other.parts(0).hash(), base.parts(0).hash());
  EXPECT_NE(other.parts(1).hash(), base.parts(1).hash());
}

TEST_F(ImageDatasetTest, ReadingEndsWhenItIsCancelled) {
  CancelToken cancel;
  cancel.Cancel("halted");
  ExpectError(CreateDataset(Config(), &cancel).status(),
              absl::StatusCode::kAborted, "halted");
}

}  // namespace
}  // namespace ringmaster
