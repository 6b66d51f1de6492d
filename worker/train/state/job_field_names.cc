#include "worker/train/state/job_field_names.h"

#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

constexpr std::string_view kPrefix = "data.";

struct FieldName {
  std::string_view kind;    // "": any
  std::string_view config;  // DataConfig's
  std::string_view job;     // in proto/ringmaster/v1/job.proto
};
constexpr std::array<FieldName, 11> kFieldNames = {{
    {"images", "path", "images"},
    {"images", "labels_path", "labels"},
    {"images", "evaluation_path", "evaluation_images"},
    {"images", "evaluation_labels_path", "evaluation_labels"},
    {"labelled_text", "labels", "labels"},
    {"", "path", "path"},
    {"", "evaluation_path", "evaluation_path"},
    {"", "eval_fraction", "eval_fraction"},
    {"", "max_bytes", "max_bytes"},
    {"", "vocabulary_path", "vocabulary"},
    {"", "merges_path", "merges"},
}};

// The job's name for the field, or nothing.
std::string_view JobNameOf(std::string_view kind, std::string_view field) {
  for (const FieldName& name : kFieldNames) {
    if (name.config == field && (name.kind.empty() || name.kind == kind))
      return name.job;
  }
  return {};
}

// The word that `text` begins with, of letters and underscores.
std::string_view FirstWord(std::string_view text) {
  size_t size = 0;
  while (size < text.size() &&
         (absl::ascii_islower(static_cast<unsigned char>(text[size])) ||
          text[size] == '_')) {
    ++size;
  }
  return text.substr(0, size);
}

}  // namespace

std::string InJobFields(std::string_view message, std::string_view kind) {
  std::string text;
  while (true) {
    const size_t at = message.find(kPrefix);
    if (at == std::string_view::npos) break;
    // Within a file's name it is none of ours.
    const bool is_word = at == 0 ? text.empty() : message[at - 1] == ' ';
    const std::string_view field =
        FirstWord(message.substr(at + kPrefix.size()));
    const std::string_view name =
        is_word ? JobNameOf(kind, field) : std::string_view();
    text.append(message.substr(0, at));
    if (name.empty()) {
      text.append(kPrefix).append(field);
    } else {
      absl::StrAppend(&text, "train.data.", std::string(kind), ".",
                      std::string(name));
    }
    message.remove_prefix(at + kPrefix.size() + field.size());
  }
  return text.append(message);
}

}  // namespace ringmaster
