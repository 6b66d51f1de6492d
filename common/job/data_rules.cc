#include <optional>

#include "absl/strings/str_cat.h"
#include "common/job/program_rules.h"
#include "common/job/token_model.h"

namespace ringmaster {
namespace {

constexpr int kByteTokens = 256;

}  // namespace

void CheckData(const v1::TrainProgram& train, SpecErrors& errors) {
  const v1::ModelSpec& model = train.model();
  const v1::DataSpec& data = train.data();
  const char* const image_model = ImageModelOf(model);
  const bool is_of_images = data.has_images() || data.has_image_folder();
  if (image_model != nullptr && !is_of_images) {
    errors.Add(absl::StrCat("train.model.", image_model,
                            " classifies images: train.data must be images "
                            "(train.data.images or image_folder)"));
  }
  const int channels =
      model.has_cnn() ? model.cnn().channels() : model.resnet().channels();
  if (image_model != nullptr && data.has_image_folder() && channels != 1 &&
      channels != 3) {
    errors.Add(
        absl::StrCat("train.data.image_folder has pictures of 1 or 3 "
                     "channels (grey or RGB), but train.model.",
                     image_model, ".channels is ", channels));
  }
  const std::optional<TokenModel> tokens = TokenModelOf(model);
  if ((model.has_mlp() || tokens) && is_of_images) {
    errors.Add(absl::StrCat(
        "train.data.", data.has_images() ? "images" : "image_folder",
        " is for a model that classifies images (cnn, resnet), "
        "but train.model.",
        tokens ? tokens->kind : "mlp",
        " takes tokens (text, tokens or synthetic)"));
  }
  const bool has_classes = model.has_bert() && model.bert().classes() > 0;
  if (data.has_labelled_text() && !has_classes && !model.has_custom()) {
    errors.Add(
        "train.data.labelled_text is for a model that classifies texts: "
        "train.model must be a bert with classes");
  }
  if (has_classes && !data.has_labelled_text()) {
    errors.Add(
        "train.model.bert.classes makes it classify texts: train.data must be "
        "labelled_text, or classes be left out");
  }
  const int labels = data.labelled_text().labels_size();
  if (has_classes && labels > 0 && labels != model.bert().classes()) {
    errors.Add(absl::StrCat("train.data.labelled_text.labels must name the ",
                            model.bert().classes(),
                            " classes of train.model.bert, got ", labels));
  }
  if (has_classes && model.bert().type_vocabulary() > 1 &&
      model.bert().separator() == 0 &&
      !data.labelled_text().second_text().empty()) {
    errors.Add(
        "train.model.bert.separator must be given where "
        "train.data.labelled_text.second_text is: without it all tokens are of "
        "the first of train.model.bert.type_vocabulary types");
  }
  if (model.has_mlp() && !data.text().vocabulary().empty()) {
    errors.Add(
        "train.data.text.vocabulary makes tokens that train.model.mlp does not "
        "have, since it predicts bytes: leave vocabulary and merges out, or "
        "take gpt or llama");
  }
  const bool is_of_bytes =
      data.has_synthetic() ||
      (data.has_text() && data.text().vocabulary().empty());
  // A mask is no byte.
  const int least = kByteTokens + (model.has_bert() ? 1 : 0);
  if (tokens && is_of_bytes && tokens->vocabulary < least) {
    errors.Add(absl::StrCat("train.model.", tokens->kind,
                            ".vocabulary must be at least ", least,
                            " for data of bytes, got ", tokens->vocabulary));
  }
}

}  // namespace ringmaster
