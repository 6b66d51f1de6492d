#include "absl/strings/str_cat.h"
#include "common/job/program_rules.h"

namespace ringmaster {
namespace {

constexpr int kByteTokens = 256;

}  // namespace

void CheckData(const v1::TrainProgram& train, SpecErrors& errors) {
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
  if (model.has_gpt() && is_of_bytes &&
      model.gpt().vocabulary() < kByteTokens) {
    errors.Add(absl::StrCat("train.model.gpt.vocabulary must be at least ",
                            kByteTokens, " for data of bytes, got ",
                            model.gpt().vocabulary()));
  }
}

}  // namespace ringmaster
