#include "common/protocol/labels.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"

namespace ringmaster {
namespace {

constexpr size_t kMaxLength = 63;

absl::Status CheckWord(std::string_view what, std::string_view text) {
  const auto is_inner = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' ||
           c == '/';
  };
  if (!text.empty() && text.size() <= kMaxLength &&
      absl::ascii_isalnum(static_cast<unsigned char>(text.front())) &&
      absl::ascii_isalnum(static_cast<unsigned char>(text.back())) &&
      std::all_of(text.begin(), text.end(), is_inner)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(what), " ", Quoted(text, kMaxLength),
                   " must be 1 to ", kMaxLength,
                   " letters, digits, '-', '_', '.' and '/', and begin and end "
                   "with a letter or digit"));
}

}  // namespace

absl::Status CheckLabel(std::string_view key, std::string_view value) {
  RETURN_IF_ERROR(CheckWord("key", key));
  return CheckWord("value", value);
}

absl::Status CheckOwnLabels(const Labels& labels) {
  if (labels.size() > kMaxLabels) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there may be ", kMaxLabels, " labels, and are ", labels.size()));
  }
  for (const auto& [key, value] : labels) {
    RETURN_IF_ERROR(CheckLabel(key, value));
    if (key == kDeviceLabel || key == kHostLabel) {
      return absl::InvalidArgumentError(
          absl::StrCat("key \"", key, "\" is one that every worker has"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Labels> ParseLabels(std::string_view text) {
  Labels labels;
  for (const absl::string_view entry :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',',
                      absl::SkipEmpty())) {
    const std::pair<std::string, std::string> label =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    if (entry.find('=') == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          Quoted(std::string(entry), kMaxLength), " is not KEY=VALUE"));
    }
    if (!labels.insert(label).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "key ", Quoted(label.first, kMaxLength), " is there twice"));
    }
  }
  RETURN_IF_ERROR(CheckOwnLabels(labels));
  return labels;
}

std::string LabelsText(const Labels& labels) {
  return absl::StrJoin(labels, ", ", absl::PairFormatter("="));
}

}  // namespace ringmaster
