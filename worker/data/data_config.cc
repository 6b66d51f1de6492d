#include "worker/data/data_config.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// The data set of 2^40 samples would take longer than any job; larger numbers
// are mistakes, and could overflow.
constexpr int64_t kMaxSamples = int64_t{1} << 40;
constexpr int64_t kMaxTokens = int64_t{1} << 20;
constexpr int64_t kMaxPixels = int64_t{1} << 28;
constexpr int64_t kMaxVocabulary = int64_t{1} << 24;

template <typename T>
absl::Status BadField(const char* field, const T& value, const char* bounds) {
  return absl::InvalidArgumentError(
      absl::StrCat("data.", field, " is ", value, ", but must be ", bounds));
}

absl::Status CheckShape(const SampleShape& shape, bool is_image) {
  if (is_image) {
    if (shape.pixels < 1 || shape.pixels > kMaxPixels)
      return BadField("shape.pixels", shape.pixels, "in [1, 2^28]");
    if (shape.targets != 1)
      return BadField("shape.targets", shape.targets, "1");
    return absl::OkStatus();
  }
  if (shape.tokens < 1 || shape.tokens > kMaxTokens)
    return BadField("shape.tokens", shape.tokens, "in [1, 2^20]");
  if (shape.is_masked && (shape.targets < 1 || shape.targets > shape.tokens))
    return BadField("shape.targets", shape.targets, "at most shape.tokens");
  if (!shape.is_masked && shape.targets != 1 && shape.targets != shape.tokens)
    return BadField("shape.targets", shape.targets, "1 or shape.tokens");
  return absl::OkStatus();
}

absl::Status CheckCrops(const DataConfig& config) {
  if (!(config.crop_area > 0 && config.crop_area <= 1))
    return BadField("crop_area", config.crop_area, "in (0, 1]");
  if (!(config.evaluation_crop > 0 && config.evaluation_crop <= 1))
    return BadField("evaluation_crop", config.evaluation_crop, "in (0, 1]");
  if (config.decode_threads < 1)
    return BadField("decode_threads", config.decode_threads, "at least 1");
  return absl::OkStatus();
}

}  // namespace

absl::Status DataConfig::Validate() const {
  const bool is_folder = kind == "image_folder";
  const bool is_image = kind == "images" || is_folder;
  const bool is_labelled = kind == "labelled_text";
  if (!is_image && !is_labelled && kind != "text" && kind != "tokens" &&
      kind != "synthetic") {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.kind is \"", kind,
        "\"; known are text, tokens, images, image_folder, labelled_text, "
        "synthetic"));
  }
  RETURN_IF_ERROR(CheckShape(shape, is_image));
  if (vocabulary < 1 || vocabulary > kMaxVocabulary)
    return BadField("vocabulary", vocabulary, "in [1, 2^24]");
  if (kind != "synthetic" && path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.path is empty, but data.kind ", kind, " needs a file"));
  }
  if (is_folder) RETURN_IF_ERROR(CheckCrops(*this));
  if (is_image && !is_folder && labels_path.empty()) {
    return absl::InvalidArgumentError(
        "data.labels_path is empty, but data.kind images needs a file");
  }
  if (is_labelled && vocabulary_path.empty()) {
    return absl::InvalidArgumentError(
        "data.vocabulary_path is empty, but data.kind labelled_text needs a "
        "file");
  }
  if (!is_labelled && vocabulary_path.empty() != merges_path.empty()) {
    return absl::InvalidArgumentError(
        "data.vocabulary_path and data.merges_path must be given together");
  }
  if (is_image && !is_folder &&
      evaluation_path.empty() != evaluation_labels_path.empty()) {
    return absl::InvalidArgumentError(
        "data.evaluation_path and data.evaluation_labels_path must be given "
        "together");
  }
  if (token_format != "auto" && token_format != "llm.c" &&
      token_format != "raw") {
    return absl::InvalidArgumentError(
        absl::StrCat("data.token_format is \"", token_format,
                     "\"; known are auto, llm.c, raw"));
  }
  if (!(eval_fraction >= 0 && eval_fraction < 1))
    return BadField("eval_fraction", eval_fraction, "in [0, 1)");
  if (max_bytes < 1) return BadField("max_bytes", max_bytes, "at least 1");
  if (num_samples < 1 || num_samples > kMaxSamples)
    return BadField("num_samples", num_samples, "in [1, 2^40]");
  return absl::OkStatus();
}

std::string DataConfig::CanonicalText() const {
  std::string text = absl::StrFormat(
      "data %s tokens=%d pixels=%d targets=%d vocabulary=%d "
      "eval_fraction=%.17g seed=%d",
      kind, shape.tokens, shape.pixels, shape.targets, vocabulary,
      eval_fraction, seed);
  if (kind == "synthetic") absl::StrAppend(&text, " num_samples=", num_samples);
  if (kind == "labelled_text") {
    absl::StrAppend(&text, " classes=", classes, " padding=", padding,
                    " separator=", separator);
  }
  if (kind == "image_folder") {
    absl::StrAppendFormat(&text,
                          " crop_area=%.17g flip=%d evaluation_crop=%.17g",
                          crop_area, flip, evaluation_crop);
  }
  if (skip_corrupt) absl::StrAppend(&text, " skip_corrupt");
  return text;
}

}  // namespace ringmaster
