#include "worker/checkpoint/import_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/testing/test_files.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

// A tensor of a file: F32, `count` elements base, base + 1, ...
struct Entry {
  std::string name;
  Shape shape;
  float base = 0;
};

class ImportParametersTest : public ::testing::Test {
 protected:
  void WriteEntries(const std::vector<Entry>& entries) {
    std::vector<std::vector<float>> values;
    std::vector<TensorBytes> tensors;
    for (const Entry& entry : entries) {
      values.emplace_back(static_cast<size_t>(entry.shape.num_elems()));
      for (size_t i = 0; i < values.back().size(); ++i)
        values.back()[i] = entry.base + static_cast<float>(i);
    }
    for (size_t i = 0; i < entries.size(); ++i) {
      tensors.push_back({entries[i].name, DType::kFloat32, entries[i].shape,
                         absl::MakeConstSpan(
                             reinterpret_cast<const uint8_t*>(values[i].data()),
                             values[i].size() * sizeof(float))});
    }
    unlink(path_.c_str());
    absl::StatusOr<DurableFile> file = DurableFile::Create(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(WriteSafetensors(tensors, {}, *file).ok());
    ASSERT_TRUE(file->Close().ok());
  }

  absl::Status Import(const std::string& path) {
    parameters_.assign(static_cast<size_t>(plan_.total_elems()), -1);
    return ImportParameters(path, plan_, absl::MakeSpan(parameters_));
  }

  void ExpectMismatch(const std::vector<Entry>& entries,
                      const std::string& words) {
    WriteEntries(entries);
    const absl::Status status = Import(path_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr(path_ + ": " + words));
  }

  const std::string directory_ = FreshDirectory();
  const std::string path_ = directory_ + "/model.safetensors";
  const Plan plan_ = PlanOf({{"transformer.wte.weight", {5, 3}, {}},
                             {"transformer.h.0.ln_1.bias", {3}, {}}});
  const Entry wte_ = {"transformer.wte.weight", {5, 3}, 10};
  const Entry bias_ = {"transformer.h.0.ln_1.bias", {3}, 25};
  std::vector<float> parameters_;
};

TEST_F(ImportParametersTest, ReadsAFileOrItsDirectory) {
  WriteEntries({bias_, wte_});
  for (const std::string& path : {path_, directory_}) {
    const absl::Status status = Import(path);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(parameters_, ArenaOf(plan_, 10));
  }
}

TEST_F(ImportParametersTest, ReadsOneOfOurCheckpoints) {
  const TestJob job;
  const std::string path = WriteCheckpoint(directory_, job.ContentsAt(3))->path;
  std::vector<float> parameters(job.parameters.size());
  const absl::Status status =
      ImportParameters(path, job.plan, absl::MakeSpan(parameters));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(parameters, job.parameters);
}

TEST_F(ImportParametersTest, ReadsGpt2AsItIsPublished) {
  WriteEntries({{"wte.weight", {5, 3}, 10},
                {"h.0.ln_1.bias", {3}, 25},
                {"h.0.attn.bias", {1, 1, 4, 4}, 0},
                {"h.0.attn.masked_bias", {}, 0},
                {"lm_head.weight", {5, 3}, 10}});
  const absl::Status status = Import(path_);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(parameters_, ArenaOf(plan_, 10));
}

TEST_F(ImportParametersTest, LeavesOutTheCountsOfPyTorchsNorms) {
  const std::string bytes(18 * sizeof(float) + sizeof(int64_t), '\0');
  WriteFile(
      path_,
      SafetensorsText(
          R"({"wte.weight":{"dtype":"F32","shape":[5,3],"data_offsets":[0,60]},)"
          R"("h.0.ln_1.bias":{"dtype":"F32","shape":[3],"data_offsets":[60,72]},)"
          R"("bn1.num_batches_tracked":{"dtype":"I64","shape":[],)"
          R"("data_offsets":[72,80]}})",
          bytes));
  const absl::Status status = Import(path_);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ImportParametersTest, ReadsHalves) {
  const std::vector<uint16_t> ones(18, 0x3c00);
  WriteFile(
      path_,
      SafetensorsText(
          R"({"wte.weight":{"dtype":"F16","shape":[5,3],"data_offsets":[0,30]},)"
          R"("h.0.ln_1.bias":{"dtype":"F16","shape":[3],"data_offsets":[30,36]}})",
          {reinterpret_cast<const char*>(ones.data()), 36}));
  const absl::Status status = Import(path_);
  ASSERT_TRUE(status.ok()) << status;
  for (const PlannedTensor& tensor : plan_.tensors()) {
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
      EXPECT_EQ(parameters_[i], 1.0f);
  }
  EXPECT_EQ(parameters_[15], 0.0f);  // padding
}

TEST_F(ImportParametersTest, NamesWhatDoesNotFit) {
  ExpectMismatch({wte_},
                 "transformer.h.0.ln_1.bias is not in the file, [3] in the "
                 "job's model");
  ExpectMismatch({{"wte.weight", {3, 5}, 0}, bias_},
                 "transformer.wte.weight is [3,5] in the file, [5,3] in the "
                 "job's model");
  ExpectMismatch({wte_, bias_, {"h.1.ln_1.bias", {3}, 0}},
                 "h.1.ln_1.bias is [3] in the file, not in the job's model");
  ExpectMismatch({wte_, bias_, {"wte.weight", {5, 3}, 0}},
                 "wte.weight comes with and without \"transformer.\"");
}

TEST_F(ImportParametersTest, AnOutputOfItsOwnIsNotDropped) {
  ExpectMismatch({wte_, bias_, {"lm_head.weight", {5, 3}, 11}},
                 "lm_head.weight differs from wte.weight");
  ExpectMismatch({wte_, bias_, {"lm_head.weight", {3, 5}, 10}},
                 "lm_head.weight differs from wte.weight");
}

class ImportBertTest : public ImportParametersTest {
 protected:
  const Plan bert_ =
      PlanOf({{"classifier.weight", {2, 3}, {}},
              {"bert.embeddings.LayerNorm.weight", {3}, {}},
              {"bert.embeddings.word_embeddings.weight", {5, 3}, {}}});
  const Entry words_ = {"bert.embeddings.word_embeddings.weight", {5, 3}, 9};
  const Entry norm_ = {"bert.embeddings.LayerNorm.gamma", {3}, 6};
};

TEST_F(ImportBertTest, AHeadIsExchangedForOneThatIsStillToLearn) {
  WriteEntries({words_,
                norm_,
                {"bert.embeddings.position_ids", {1, 4}, 0},
                {"bert.pooler.dense.weight", {3, 3}, 0},
                {"cls.predictions.bias", {5}, 0}});
  std::vector<float> want = ArenaOf(bert_, 0);
  std::vector<float> got(want.size(), 77);
  const absl::Status status =
      ImportParameters(path_, bert_, absl::MakeSpan(got));
  ASSERT_TRUE(status.ok()) << status;
  for (const PlannedTensor& tensor : bert_.tensors()) {
    for (int64_t i = 0; i < tensor.range.count; ++i) {
      const int64_t at = tensor.range.begin + i;
      EXPECT_EQ(got[at],
                tensor.spec.name == "classifier.weight" ? 77 : want[at])
          << tensor.spec.name;
    }
  }
}

TEST_F(ImportBertTest, ItsOwnHeadIsTakenOverIfItFits) {
  std::vector<float> parameters(static_cast<size_t>(bert_.total_elems()));
  WriteEntries({words_, norm_, {"classifier.weight", {2, 3}, 0}});
  EXPECT_TRUE(ImportParameters(path_, bert_, absl::MakeSpan(parameters)).ok());
  EXPECT_EQ(parameters, ArenaOf(bert_, 0));
  WriteEntries({words_, norm_, {"classifier.weight", {3, 3}, 0}});
  EXPECT_THAT(
      ImportParameters(path_, bert_, absl::MakeSpan(parameters)).message(),
      HasSubstr("classifier.weight is [3,3] in the file, [2,3] in the "
                "job's model"));
  WriteEntries({words_});
  EXPECT_THAT(
      ImportParameters(path_, bert_, absl::MakeSpan(parameters)).message(),
      HasSubstr("bert.embeddings.LayerNorm.weight is not in the file"));
}

TEST_F(ImportBertTest, AnOutputOfItsOwnIsNotDroppedWhereTokensArePredicted) {
  const Plan masked =
      PlanOf({{"cls.predictions.bias", {5}, {}},
              {"bert.embeddings.LayerNorm.weight", {3}, {}},
              {"bert.embeddings.word_embeddings.weight", {5, 3}, {}}});
  const auto status_of = [&](const Plan& plan, float base) {
    WriteEntries(
        {words_, norm_, {"cls.predictions.decoder.weight", {5, 3}, base}});
    std::vector<float> parameters(static_cast<size_t>(plan.total_elems()));
    return ImportParameters(path_, plan, absl::MakeSpan(parameters));
  };
  EXPECT_TRUE(status_of(masked, words_.base).ok());
  EXPECT_TRUE(status_of(bert_, words_.base + 1).ok());
  const absl::Status status = status_of(masked, words_.base + 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              HasSubstr("cls.predictions.decoder.weight differs from "
                        "bert.embeddings.word_embeddings.weight"));
}

TEST_F(ImportParametersTest, NamesAFileThatIsNotThere) {
  const absl::Status status = Import(directory_);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(path_));
}

}  // namespace
}  // namespace ringmaster
