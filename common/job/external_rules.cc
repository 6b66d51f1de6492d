#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/program_rules.h"
#include "common/job/rank_variables.h"
#include "common/text/quoted.h"

namespace ringmaster {
namespace {

bool HasZeroByte(const std::string& text) {
  return absl::StrContains(text, '\0');
}

// The first entry that is wrong stands for all.
void CheckVariables(
    const google::protobuf::Map<std::string, std::string>& variables,
    const std::string& path, SpecErrors& errors) {
  for (const auto& [name, value] : variables) {
    const char* wrong = nullptr;
    if (name.empty() || absl::StrContains(name, '=') || HasZeroByte(name))
      wrong = "is not the name of a variable";
    if (std::find(kRankVariables.begin(), kRankVariables.end(), name) !=
        kRankVariables.end()) {
      wrong = "is set by Ringmaster, for each rank";
    }
    if (HasZeroByte(value)) wrong = "must not contain a zero byte";
    if (wrong == nullptr) continue;
    errors.Add(absl::StrCat(path, ": ", Quoted(name), " ", wrong));
    return;
  }
}

}  // namespace

void CheckExternal(const v1::ExternalProgram& external, SpecErrors& errors) {
  if (external.command(0).empty())
    errors.Add("external.command must begin with the name of a program");
  if (std::any_of(external.command().begin(), external.command().end(),
                  HasZeroByte)) {
    errors.Add("external.command must not contain a zero byte");
  }
  CheckVariables(external.environment(), "external.environment", errors);
  CheckVariables(external.secret_environment(), "external.secret_environment",
                 errors);
  for (const auto& [name, path] : external.secret_environment()) {
    if (path.empty()) {
      errors.Add(absl::StrCat("external.secret_environment: ", Quoted(name),
                              " must name a file"));
    }
    if (!external.environment().contains(name)) continue;
    errors.Add(absl::StrCat(
        "external.environment and external.secret_environment both have ",
        Quoted(name), ": give one of them"));
  }
}

}  // namespace ringmaster
