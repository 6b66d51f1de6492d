#include "worker/nn/model_config.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace ringmaster {
namespace {

std::string NumberText(double value) { return absl::StrFormat("%.17g", value); }

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
      absl::StrCat("\"", text, "\" describes no model"));
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  if (words.size() < 2 || words[0] != "model" || words[1].empty()) return error;
  ModelConfig config = {.kind = words[1], .settings = {}};
  for (size_t i = 2; i < words.size(); ++i) {
    const std::pair<std::string, std::string> setting =
        absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    std::vector<double>& values = config.settings[setting.first];
    for (const absl::string_view number :
         absl::StrSplit(setting.second, ',', absl::SkipEmpty())) {
      if (!absl::SimpleAtod(number, &values.emplace_back())) return error;
    }
  }
  return config;
}

const std::vector<double>* SettingsReader::Find(const std::string& name) {
  known_.insert(name);
  const auto it = config_.settings.find(name);
  return it == config_.settings.end() ? nullptr : &it->second;
}

void SettingsReader::Refuse(const std::string& name, double value,
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
      Refuse(name, value,
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
  Refuse(name, static_cast<double>(values.size()), "one number, not a list");
  return range.low;
}

double SettingsReader::Real(const std::string& name, double missing,
                            RealRange range) {
  const std::vector<double>* const values = Find(name);
  if (values == nullptr) return missing;
  if (values->size() != 1) {
    Refuse(name, static_cast<double>(values->size()), "one number, not a list");
    return range.low;
  }
  const double value = values->front();
  if (value >= range.low && value <= range.high) return value;
  Refuse(name, value, absl::StrCat("in [", range.low, ", ", range.high, "]"));
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
