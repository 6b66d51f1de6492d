#include "worker/nn/model_config.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/text/quoted.h"

namespace ringmaster {
namespace {

std::string NumberText(double value) { return absl::StrFormat("%.17g", value); }

// For people: every digit of a whole number, six of any other.
std::string ShortText(double value) {
  const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
  return is_whole ? absl::StrFormat("%.0f", value) : absl::StrCat(value);
}

std::string ListText(size_t size) {
  return absl::StrCat("a list of ", size, " numbers");
}

}  // namespace

std::string ModelConfig::CanonicalText() const {
  std::string text = absl::StrCat("model ", kind);
  for (const auto& [name, values] : settings) {
    absl::StrAppend(
        &text, " ", name, "=",
        absl::StrJoin(values, ",", [](std::string* out, double value) {
          out->append(NumberText(value));
        }));
  }
  return text;
}

absl::StatusOr<ModelConfig> ModelConfig::FromCanonicalText(
    const std::string& text) {
  const absl::Status error = absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " describes no model"));
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  if (words.size() < 2 || words[0] != "model" || words[1].empty()) return error;
  ModelConfig config = {.kind = words[1], .settings = {}};
  for (size_t i = 2; i < words.size(); ++i) {
    const std::vector<std::string> parts = absl::StrSplit(words[i], '=');
    if (parts.size() != 2 || parts[0].empty()) return error;
    const auto [it, is_new] = config.settings.try_emplace(parts[0]);
    if (!is_new) return error;
    if (parts[1].empty()) continue;  // an empty list
    for (const absl::string_view number : absl::StrSplit(parts[1], ',')) {
      if (!absl::SimpleAtod(number, &it->second.emplace_back())) return error;
    }
  }
  return config;
}

int64_t EndOfTextOf(int64_t vocabulary) {
  constexpr int64_t kGpt2Vocabulary = 50257;
  return vocabulary == kGpt2Vocabulary ? kGpt2Vocabulary - 1 : -1;
}

const std::vector<double>* SettingsReader::Find(const std::string& name) {
  known_.insert(name);
  const auto it = config_.settings.find(name);
  return it == config_.settings.end() ? nullptr : &it->second;
}

void SettingsReader::Refuse(const std::string& name, const std::string& value,
                            const std::string& bounds) {
  if (!error_.ok()) return;
  error_ = absl::InvalidArgumentError(absl::StrCat("model.", config_.kind, ".",
                                                   name, " is ", value,
                                                   ", but must be ", bounds));
}

std::vector<int64_t> SettingsReader::Ints(const std::string& name,
                                          const std::vector<int64_t>& missing,
                                          IntRange range) {
  const std::vector<double>* const values = Find(name);
  if (values == nullptr) return missing;
  std::vector<int64_t> result;
  for (const double value : *values) {
    const bool is_good = value == std::floor(value) &&
                         value >= static_cast<double>(range.low) &&
                         value <= static_cast<double>(range.high);
    if (!is_good) {
      Refuse(name, ShortText(value),
             absl::StrCat("a whole number in [", range.low, ", ", range.high,
                          "]"));
    }
    result.push_back(is_good ? static_cast<int64_t>(value) : range.low);
  }
  return result;
}

int64_t SettingsReader::Int(const std::string& name, int64_t missing,
                            IntRange range) {
  const std::vector<int64_t> values = Ints(name, {missing}, range);
  if (values.size() == 1) return values[0];
  Refuse(name, ListText(values.size()), "one number");
  return range.low;
}

double SettingsReader::Real(const std::string& name, double missing,
                            RealRange range) {
  const std::vector<double>* const values = Find(name);
  if (values == nullptr) return missing;
  if (values->size() != 1) {
    Refuse(name, ListText(values->size()), "one number");
    return range.low;
  }
  const double value = values->front();
  if (value >= range.low && value <= range.high) return value;
  Refuse(name, ShortText(value),
         absl::StrCat("in [", range.low, ", ", range.high, "]"));
  return range.low;
}

absl::Status SettingsReader::Finish() const {
  if (!error_.ok()) return error_;
  for (const auto& [name, values] : config_.settings) {
    if (known_.contains(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("model.", config_.kind, " has no setting \"", name,
                     "\"; it has ", absl::StrJoin(known_, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace ringmaster
