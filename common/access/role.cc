#include "common/access/role.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

constexpr std::array<std::pair<Role, std::string_view>, 5> kNames = {{
    {Role::kViewer, "viewer"},
    {Role::kSubmitter, "submitter"},
    {Role::kOperator, "operator"},
    {Role::kWorker, "worker"},
    {Role::kServer, "server"},
}};

}  // namespace

std::string_view NameOf(Role role) {
  return kNames[static_cast<size_t>(role)].second;
}

std::optional<Role> RoleOfName(std::string_view name) {
  for (const auto& [role, known] : kNames) {
    if (known == name) return role;
  }
  return std::nullopt;
}

std::string RoleNames() {
  std::string names;
  for (size_t i = 0; i < kNames.size(); ++i) {
    absl::StrAppend(&names,
                    i == 0                   ? ""
                    : i + 1 == kNames.size() ? " or "
                                             : ", ",
                    std::string(kNames[i].second));
  }
  return names;
}

std::string NamesOf(RoleSet roles) {
  std::string names;
  for (const auto& [role, name] : kNames) {
    if (!roles.Has(role)) continue;
    absl::StrAppend(&names, names.empty() ? "" : ",", std::string(name));
  }
  return names;
}

}  // namespace ringmaster
