#include "worker/train/state/settings_difference.h"

#include <cstddef>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"

namespace ringmaster {
namespace {

constexpr size_t kMostShown = 5;
constexpr size_t kMostBytes = 60;  // of a value
constexpr int kMostDepth = 32;     // of values in values; a file says how many

using Settings = std::map<std::string, std::string>;  // by dotted name

// The end of the value that begins at `begin`: the next space outside of
// quotes, braces and brackets.
size_t EndOfValue(std::string_view text, size_t begin) {
  int depth = 0;
  bool is_quoted = false;
  size_t i = begin;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (is_quoted) {
      if (c == '\\') ++i;
      is_quoted = c != '"';
    } else if (c == '"') {
      is_quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ' ' && depth == 0) {
      break;
    }
  }
  return i < text.size() ? i : text.size();
}

// Adds the settings of "a=1 b={c=2}" to `settings`, as "a" and "b.c"; returns
// false if the text is none of that form, or deeper than any job's.
bool AddSettings(std::string_view text, const std::string& prefix, int depth,
                 Settings& settings) {
  if (depth > kMostDepth) return false;
  while (!text.empty()) {
    const size_t equals = text.find_first_of("= ");
    if (equals == text.npos || text[equals] != '=') return false;
    const size_t end = EndOfValue(text, equals + 1);
    const std::string name =
        absl::StrCat(prefix, absl::string_view(text.data(), equals));
    const std::string_view value = text.substr(equals + 1, end - equals - 1);
    if (value.size() >= 2 && value.front() == '{' && value.back() == '}') {
      if (!AddSettings(value.substr(1, value.size() - 2), name + ".", depth + 1,
                       settings))
        return false;
    } else {
      settings[name] = std::string(value);
    }
    text.remove_prefix(end < text.size() ? end + 1 : end);
  }
  return true;
}

// Of the fields of the job, the first line. What follows is derived from them,
// but for the precision at the end, which depends on the device.
std::optional<Settings> SettingsIn(std::string_view text) {
  constexpr std::string_view kPrecision = "\nprecision=";
  Settings settings;
  if (!AddSettings(text.substr(0, text.find('\n')), "", 0, settings))
    return std::nullopt;
  if (const size_t at = text.rfind(kPrecision); at != text.npos)
    settings["precision"] = text.substr(at + kPrecision.size());
  return settings;
}

std::string ValueIn(const Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  if (found == settings.end()) return "default";
  const std::string start = BoundedUtf8(found->second, kMostBytes);
  return start.size() < found->second.size() ? start + "..." : start;
}

}  // namespace

std::string SettingsDifference(std::string_view before, std::string_view now) {
  const std::optional<Settings> old_settings = SettingsIn(before);
  const std::optional<Settings> new_settings = SettingsIn(now);
  if (!old_settings.has_value() || !new_settings.has_value()) return "";
  Settings all = *old_settings;
  all.insert(new_settings->begin(), new_settings->end());
  std::string text;
  size_t count = 0;
  for (const auto& [name, value] : all) {
    const auto before_it = old_settings->find(name);
    const auto now_it = new_settings->find(name);
    const bool is_equal = before_it != old_settings->end() &&
                          now_it != new_settings->end() &&
                          before_it->second == now_it->second;
    if (is_equal || ++count > kMostShown) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", name, " ",
                    ValueIn(*old_settings, name), ", now ",
                    ValueIn(*new_settings, name));
  }
  if (count > kMostShown)
    absl::StrAppend(&text, "; and ", count - kMostShown, " more");
  return text;
}

}  // namespace ringmaster
