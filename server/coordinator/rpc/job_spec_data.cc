#include "server/coordinator/rpc/job_spec_data.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace ringmaster::coordinator {
namespace {

constexpr int64_t kMaxSamples = int64_t{1} << 40;
constexpr int64_t kDefaultMaxBytes = int64_t{1} << 30;
constexpr int kByteTokens = 256;

template <typename Source>
void CheckEvalFraction(Source& source, const std::string& path,
                       SpecErrors& errors) {
  if (source.eval_fraction() == 0) source.set_eval_fraction(0.1);
  errors.RequireThat(source.eval_fraction() > 0 && source.eval_fraction() < 1,
                     path + ".eval_fraction", "above 0 and below 1",
                     source.eval_fraction());
}

// Checks a source whose held-out samples may be elsewhere, at
// `evaluation_path`.
template <typename Source>
void CheckHeldOut(Source& source, const std::string& path,
                  const std::string& evaluation_field,
                  const std::string& evaluation_path, SpecErrors& errors) {
  if (evaluation_path.empty()) {
    CheckEvalFraction(source, path, errors);
  } else if (source.eval_fraction() != 0) {
    errors.Add(absl::StrCat(path, ".eval_fraction and ", evaluation_field,
                            " exclude each other: give one of them"));
  }
}

template <typename Source>
void CheckCorruptRecords(Source& source, const std::string& path,
                         SpecErrors& errors) {
  if (source.corrupt_records() == v1::CORRUPT_RECORDS_UNSPECIFIED)
    source.set_corrupt_records(v1::CORRUPT_RECORDS_STOP);
  errors.RequireKnown(v1::CorruptRecords_IsValid(source.corrupt_records()),
                      path + ".corrupt_records", "stop or skip",
                      source.corrupt_records());
}

// Two paths of which each needs the other.
void RequireBothOrNone(const std::string& first_field,
                       const std::string& first_path,
                       const std::string& second_field,
                       const std::string& second_path, SpecErrors& errors) {
  errors.RequirePathOrNone(first_field, first_path);
  errors.RequirePathOrNone(second_field, second_path);
  if (first_path.empty() == second_path.empty()) return;
  errors.Add(absl::StrCat(
      first_field, " and ", second_field, " must be given together; ",
      first_path.empty() ? first_field : second_field, " is missing"));
}

void CheckText(v1::TextSource& text, SpecErrors& errors) {
  const std::string path = "train.data.text";
  if (text.max_bytes() == 0) text.set_max_bytes(kDefaultMaxBytes);
  errors.RequirePath(path + ".path", text.path(), "a file or a directory");
  CheckEvalFraction(text, path, errors);
  errors.RequireRange(path + ".max_bytes", text.max_bytes(), 1,
                      std::numeric_limits<int64_t>::max());
  RequireBothOrNone(path + ".vocabulary", text.vocabulary(), path + ".merges",
                    text.merges(), errors);
}

void CheckSynthetic(v1::SyntheticSource& synthetic, SpecErrors& errors) {
  if (synthetic.samples() == 0) synthetic.set_samples(65536);
  errors.RequireRange("train.data.synthetic.samples", synthetic.samples(), 1,
                      kMaxSamples);
  CheckEvalFraction(synthetic, "train.data.synthetic", errors);
}

void CheckTokens(v1::TokensSource& tokens, SpecErrors& errors) {
  const std::string path = "train.data.tokens";
  const std::string evaluation = path + ".evaluation_path";
  errors.RequirePath(path + ".path", tokens.path(), "a file or a directory");
  errors.RequirePathOrNone(evaluation, tokens.evaluation_path());
  CheckHeldOut(tokens, path, evaluation, tokens.evaluation_path(), errors);
  CheckCorruptRecords(tokens, path, errors);
}

void CheckImages(v1::ImagesSource& images, SpecErrors& errors) {
  const std::string path = "train.data.images";
  const std::string evaluation = path + ".evaluation_images";
  errors.RequirePath(path + ".images", images.images(), "a file of images");
  errors.RequirePath(path + ".labels", images.labels(), "a file of labels");
  RequireBothOrNone(evaluation, images.evaluation_images(),
                    path + ".evaluation_labels", images.evaluation_labels(),
                    errors);
  CheckHeldOut(images, path, evaluation, images.evaluation_images(), errors);
  CheckCorruptRecords(images, path, errors);
}

// Checks what the names of a spec alone can tell; the workers see the rest.
void CheckMatch(const v1::TrainProgram& train, SpecErrors& errors) {
  const v1::ModelSpec& model = train.model();
  const v1::DataSpec& data = train.data();
  if (model.has_cnn() && !data.has_images()) {
    errors.Add(
        "train.model.cnn classifies images: train.data must be images "
        "(train.data.images)");
  }
  if ((model.has_mlp() || model.has_gpt()) && data.has_images()) {
    errors.Add(absl::StrCat(
        "train.data.images is for a model that classifies images (cnn), but "
        "train.model.",
        model.has_mlp() ? "mlp" : "gpt",
        " takes tokens (text, tokens or synthetic)"));
  }
  if (model.has_mlp() && !data.text().vocabulary().empty()) {
    errors.Add(
        "train.data.text.vocabulary makes tokens that train.model.mlp does not "
        "have, since it predicts bytes: leave vocabulary and merges out, or "
        "take gpt");
  }
  const bool is_of_bytes =
      data.has_synthetic() ||
      (data.has_text() && data.text().vocabulary().empty());
  if (model.has_gpt() && is_of_bytes && model.gpt().vocabulary() >= 1 &&
      model.gpt().vocabulary() < kByteTokens) {
    errors.Add(absl::StrCat("train.model.gpt.vocabulary must be at least ",
                            kByteTokens, " for data of bytes, got ",
                            model.gpt().vocabulary()));
  }
}

}  // namespace

void CheckDataSource(v1::TrainProgram& train, SpecErrors& errors) {
  switch (train.data().source_case()) {
    case v1::DataSpec::kText:
      CheckText(*train.mutable_data()->mutable_text(), errors);
      break;
    case v1::DataSpec::kSynthetic:
      CheckSynthetic(*train.mutable_data()->mutable_synthetic(), errors);
      break;
    case v1::DataSpec::kTokens:
      CheckTokens(*train.mutable_data()->mutable_tokens(), errors);
      break;
    case v1::DataSpec::kImages:
      CheckImages(*train.mutable_data()->mutable_images(), errors);
      break;
    case v1::DataSpec::SOURCE_NOT_SET:
      errors.Add(
          "train.data must name a source: text, tokens, images or synthetic");
      return;
  }
  CheckMatch(train, errors);
}

}  // namespace ringmaster::coordinator
