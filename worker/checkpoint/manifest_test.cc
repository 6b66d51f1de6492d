#include "worker/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

CheckpointManifest Sample() {
  CheckpointManifest manifest;
  manifest.step = 120;
  manifest.plan_text = "model small\ntensor 0 \"x\"\n";
  manifest.plan_hash = 0xffffffffffffffff;
  manifest.model_kind = "gpt";
  manifest.model_settings = "layers=2";
  manifest.program_text = "seed=7";
  manifest.data_fingerprint = 1;
  manifest.parameters_hash = 0x0123456789abcdef;
  manifest.creation_time = absl::FromUnixSeconds(1'700'000'000);
  manifest.writer_version = "ringmaster 1";
  manifest.files = {{"model.safetensors", {kDigestBlockBytes + 1, 5, {6, 7}}},
                    {"empty", {0, 8, {}}}};
  return manifest;
}

TEST(ManifestTest, DecodesWhatItEncoded) {
  const CheckpointManifest sample = Sample();
  const absl::StatusOr<CheckpointManifest> manifest =
      DecodeManifest(EncodeManifest(sample));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->step, sample.step);
  EXPECT_EQ(manifest->plan_text, sample.plan_text);
  EXPECT_EQ(manifest->plan_hash, sample.plan_hash);
  EXPECT_EQ(manifest->model_kind, sample.model_kind);
  EXPECT_EQ(manifest->model_settings, sample.model_settings);
  EXPECT_EQ(manifest->program_text, sample.program_text);
  EXPECT_EQ(manifest->data_fingerprint, sample.data_fingerprint);
  EXPECT_EQ(manifest->parameters_hash, sample.parameters_hash);
  EXPECT_EQ(manifest->creation_time, sample.creation_time);
  EXPECT_EQ(manifest->writer_version, sample.writer_version);
  ASSERT_EQ(manifest->files.size(), 2u);
  EXPECT_EQ(manifest->files[0].digest, sample.files[0].digest);
  EXPECT_EQ(manifest->Find("empty")->digest, sample.files[1].digest);
  EXPECT_EQ(manifest->Find("other"), nullptr);
  EXPECT_EQ(manifest->total_bytes(), kDigestBlockBytes + 1);
  EXPECT_EQ(manifest->loss_scale, std::nullopt);
}

TEST(ManifestTest, KeepsALossScale) {
  CheckpointManifest sample = Sample();
  sample.loss_scale = LossScale(4096, 17);
  EXPECT_EQ(DecodeManifest(EncodeManifest(sample))->loss_scale,
            sample.loss_scale);
  for (const double value : {0.0, 3.0, 2 * LossScale::kMost}) {
    sample.loss_scale = LossScale(value, 0);
    EXPECT_EQ(DecodeManifest(EncodeManifest(sample)).status().message(),
              "its member loss_scale is missing or malformed");
  }
}

TEST(ManifestTest, KeepsEvaluations) {
  CheckpointManifest sample = Sample();
  EXPECT_EQ(DecodeManifest(EncodeManifest(sample))->evaluations, std::nullopt);
  sample.evaluations = EvaluationHistory();
  EXPECT_EQ(DecodeManifest(EncodeManifest(sample))->evaluations,
            EvaluationHistory());
  sample.evaluations->Note(20, 1.0 / 3, 0.1);
  sample.evaluations->Note(40, 0.3, 0.1);
  EXPECT_EQ(DecodeManifest(EncodeManifest(sample))->evaluations,
            sample.evaluations);
  sample.evaluations->last_step = -1;
  EXPECT_EQ(DecodeManifest(EncodeManifest(sample)).status().message(),
            "its member last_step is missing or malformed");
}

TEST(EvaluationHistoryTest, KnowsTheBestAndCountsWhatIsNoProgress) {
  EvaluationHistory history;
  history.Note(10, std::numeric_limits<double>::quiet_NaN(), 0.1);
  EXPECT_EQ(history.best_step, 0);
  EXPECT_EQ(history.without_progress, 1);
  history.Note(20, 2.0, 0.1);
  EXPECT_EQ(history.best_step, 20);
  EXPECT_EQ(history.without_progress, 0);
  // Better, but by too little, twice: together they are enough.
  history.Note(30, 1.95, 0.1);
  EXPECT_EQ(history.best_step, 30);
  EXPECT_EQ(history.without_progress, 1);
  history.Note(40, 1.85, 0.1);
  EXPECT_EQ(history.without_progress, 0);
  history.Note(40, 1.0, 0.1);
  EXPECT_EQ(history.best_loss, 1.85) << "it is known";
  history.Note(50, 1.85, 0);
  EXPECT_EQ(history.best_step, 40);
  EXPECT_EQ(history.without_progress, 1);
}

TEST(ManifestTest, KeepsCompanions) {
  CheckpointManifest sample = Sample();
  EXPECT_TRUE(DecodeManifest(EncodeManifest(sample))->companions.empty());
  sample.companions = {{"vocab.json", "/data/gpt2-vocab.json"},
                       {"merges.txt", "/data/merges.txt"}};
  EXPECT_EQ(DecodeManifest(EncodeManifest(sample))->companions,
            sample.companions);
  sample.companions[1].name = "../merges.txt";
  EXPECT_EQ(DecodeManifest(EncodeManifest(sample)).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(ManifestTest, TextsNeedNotBeUtf8) {
  CheckpointManifest sample = Sample();
  sample.program_text = "path=\xff";
  const absl::StatusOr<CheckpointManifest> manifest =
      DecodeManifest(EncodeManifest(sample));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->program_text, "path=\xEF\xBF\xBD");
}

TEST(ManifestTest, NoticesEveryChangedByte) {
  const std::string text = EncodeManifest(Sample());
  ASSERT_TRUE(DecodeManifest(text).ok());
  // The line's end and space between values do not count.
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == ' ' || text[i] == '\n') continue;
    std::string changed = text;
    changed[i] ^= 0x01;
    EXPECT_FALSE(DecodeManifest(changed).ok()) << i << ": " << changed;
  }
}

TEST(ManifestTest, NoticesACutText) {
  const std::string text = EncodeManifest(Sample());
  for (const size_t length : {size_t{0}, size_t{1}, text.size() / 2}) {
    EXPECT_EQ(DecodeManifest(text.substr(0, length)).status().code(),
              absl::StatusCode::kDataLoss);
  }
  EXPECT_FALSE(DecodeManifest(std::string(100'000, '[')).ok());
  EXPECT_THAT(DecodeManifest("{}").status().message(),
              HasSubstr("format_version is missing"));
}

// Its members may differ, so the rest of it is not looked at.
TEST(ManifestTest, NamesANewerVersion) {
  const absl::Status status =
      DecodeManifest(R"({"format_version":2})").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("format version 2"));
}

TEST(ManifestTest, RefusesFilesOutsideTheCheckpoint) {
  for (const char* const name : {"../model.safetensors", "", ".", "/x"}) {
    CheckpointManifest sample = Sample();
    sample.files[0].name = name;
    EXPECT_EQ(DecodeManifest(EncodeManifest(sample)).status().code(),
              absl::StatusCode::kDataLoss)
        << name;
  }
}

TEST(ManifestTest, RefusesBlocksThatDoNotMakeTheFile) {
  CheckpointManifest sample = Sample();
  sample.files[0].digest.block_hashes.pop_back();
  const absl::Status status = DecodeManifest(EncodeManifest(sample)).status();
  EXPECT_THAT(status.message(), HasSubstr("block_hashes"));
}

}  // namespace
}  // namespace ringmaster
