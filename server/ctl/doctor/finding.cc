#include "server/ctl/doctor/finding.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace ringmaster::ctl {
namespace {

constexpr std::array<const char*, 3> kLevelNames = {"ok", "warning", "failure"};
constexpr std::array<Color, 3> kLevelColors = {Color::kGreen, Color::kYellow,
                                               Color::kRed};
constexpr int kLevelWidth = 9;  // "failure" and two blanks

std::string Padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

int CountOf(std::span<const Finding> findings, Level level) {
  return static_cast<int>(
      std::count_if(findings.begin(), findings.end(),
                    [&](const Finding& f) { return f.level == level; }));
}

std::string Counted(int count, std::string_view noun) {
  return absl::StrCat(count, " ", std::string(noun), count == 1 ? "" : "s");
}

}  // namespace

Finding Good(std::string_view check, std::string what) {
  return {.check = std::string(check),
          .level = Level::kOk,
          .what = std::move(what),
          .why = {},
          .remedy = {}};
}

Finding Warn(std::string_view check, std::string what, std::string why,
             std::string remedy) {
  return {.check = std::string(check),
          .level = Level::kWarning,
          .what = std::move(what),
          .why = std::move(why),
          .remedy = std::move(remedy)};
}

Finding Fail(std::string_view check, std::string what, std::string why,
             std::string remedy, ExitCode code) {
  return {.check = std::string(check),
          .level = Level::kFailure,
          .what = std::move(what),
          .why = std::move(why),
          .remedy = std::move(remedy),
          .code = code};
}

Finding NotKnown(std::string_view check, std::string_view why) {
  return Good(check, absl::StrCat("not known: ", std::string(why)));
}

ExitCode ExitCodeOfFindings(std::span<const Finding> findings) {
  ExitCode code = ExitCode::kDone;
  for (const Finding& finding : findings) {
    if (finding.level != Level::kFailure) continue;
    code =
        code == ExitCode::kDone ? finding.code : std::min(code, finding.code);
  }
  return code;
}

std::vector<std::string> FindingLines(std::span<const Finding> findings,
                                      const Style& style) {
  size_t check_width = 0;
  for (const Finding& finding : findings)
    check_width = std::max(check_width, finding.check.size());
  const size_t indent = kLevelWidth + check_width + 2;
  const int width = std::max(20, style.width - static_cast<int>(indent) - 1);
  std::vector<std::string> lines;
  for (const Finding& finding : findings) {
    const auto level = static_cast<size_t>(finding.level);
    std::string head =
        absl::StrCat(Paint(style, kLevelColors.at(level),
                           Padded(kLevelNames.at(level), kLevelWidth)),
                     Padded(finding.check, check_width + 2));
    for (const std::string& piece : WrapLines(Printable(finding.what), width)) {
      lines.push_back(absl::StrCat(head, piece));
      head.assign(indent, ' ');
    }
    const auto append = [&](const std::string& text) {
      for (const std::string& piece : WrapLines(Printable(text), width))
        lines.push_back(absl::StrCat(std::string(indent, ' '), piece));
    };
    if (!finding.why.empty()) append(finding.why);
    if (!finding.remedy.empty()) append(absl::StrCat("-> ", finding.remedy));
  }
  lines.push_back(
      absl::StrCat(Counted(CountOf(findings, Level::kFailure), "failure"), ", ",
                   Counted(CountOf(findings, Level::kWarning), "warning"), ", ",
                   CountOf(findings, Level::kOk), " ok"));
  return lines;
}

std::string ToJson(std::span<const Finding> findings) {
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : findings) {
    nlohmann::json entry = {
        {"check", finding.check},
        {"level", kLevelNames.at(static_cast<size_t>(finding.level))},
        {"what", finding.what}};
    if (!finding.why.empty()) entry["why"] = finding.why;
    if (!finding.remedy.empty()) entry["remedy"] = finding.remedy;
    if (finding.level == Level::kFailure)
      entry["exit_code"] = static_cast<int>(finding.code);
    list.push_back(std::move(entry));
  }
  const nlohmann::json document = {
      {"findings", std::move(list)},
      {"failures", CountOf(findings, Level::kFailure)},
      {"warnings", CountOf(findings, Level::kWarning)}};
  return document.dump(2, ' ', false,
                       nlohmann::json::error_handler_t::replace) +
         "\n";
}

absl::StatusOr<std::vector<Finding>> FromJson(std::string_view json) {
  const absl::Status broken =
      absl::DataLossError("what came is no list of findings");
  const nlohmann::json document =
      nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("findings") ||
      !document["findings"].is_array()) {
    return broken;
  }
  const auto text = [](const nlohmann::json& entry, const char* key) {
    const auto found = entry.find(key);
    return found != entry.end() && found->is_string()
               ? found->get<std::string>()
               : std::string();
  };
  std::vector<Finding> findings;
  for (const nlohmann::json& entry : document["findings"]) {
    if (!entry.is_object()) return broken;
    const auto* const level =
        std::find(kLevelNames.begin(), kLevelNames.end(), text(entry, "level"));
    if (level == kLevelNames.end()) return broken;
    Finding finding{.check = text(entry, "check"),
                    .level = static_cast<Level>(level - kLevelNames.begin()),
                    .what = text(entry, "what"),
                    .why = text(entry, "why"),
                    .remedy = text(entry, "remedy")};
    const auto code = entry.find("exit_code");
    if (code != entry.end() && code->is_number_integer())
      finding.code = static_cast<ExitCode>(code->get<int>());
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace ringmaster::ctl
