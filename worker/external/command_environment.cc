#include "worker/external/command_environment.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "worker/agent/rpc/worker_identity.h"
#include "worker/views/view.h"

namespace ringmaster {
namespace {

// Of the worker alone: its supervisor's and its service manager's word to it.
constexpr std::array<std::string_view, 8> kNotInherited = {
    "LISTEN_FDS",    "LISTEN_PID",         "NOTIFY_SOCKET", "WATCHDOG_PID",
    "WATCHDOG_USEC", kPredecessorVariable, kViewsVariable,  kGroupVariable};

std::map<std::string, std::string> RankVariables(const CommandPlace& place) {
  const auto text = [](int value) { return absl::StrCat(value); };
  return {{"RANK", text(place.rank)},
          {"WORLD_SIZE", text(place.world_size)},
          {"LOCAL_RANK", text(place.local_rank)},
          {"LOCAL_WORLD_SIZE", text(place.local_world_size)},
          {"GROUP_RANK", text(place.host_index)},
          {"GROUP_WORLD_SIZE", text(place.host_count)},
          {"ROLE_NAME", "default"},
          {"ROLE_RANK", text(place.rank)},
          {"ROLE_WORLD_SIZE", text(place.world_size)},
          {"MASTER_ADDR", place.master_address},
          {"MASTER_PORT", text(place.master_port)},
          {"TORCHELASTIC_RESTART_COUNT", text(place.restart_count)},
          {"TORCHELASTIC_MAX_RESTARTS", text(place.max_restarts)},
          {"TORCHELASTIC_RUN_ID", place.run_id}};
}

}  // namespace

std::vector<std::string> CommandEnvironment(
    const std::vector<std::string>& inherited,
    const std::map<std::string, std::string>& own, const CommandPlace& place) {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : inherited) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = entry.substr(0, equals);
    if (std::find(kNotInherited.begin(), kNotInherited.end(), name) ==
        kNotInherited.end()) {
      variables[name] = entry.substr(equals + 1);
    }
  }
  for (const auto& [name, value] : own) variables[name] = value;
  for (const auto& [name, value] : RankVariables(place))
    variables[name] = value;
  // One thread for each of many ranks is torchrun's default, too.
  variables.emplace("OMP_NUM_THREADS", absl::StrCat(place.threads));
  // Python would hold back what it prints to a pipe.
  variables.emplace("PYTHONUNBUFFERED", "1");
  if (place.port_range.has_value()) {
    variables["RINGMASTER_DATA_PORTS"] =
        absl::StrCat(place.port_range->first, "-", place.port_range->last);
  }
  if (!place.views.empty()) variables[kViewsVariable] = place.views;
  if (!place.group.empty()) variables[kGroupVariable] = place.group;
  if (!place.python_path.empty()) {
    std::string& path = variables["PYTHONPATH"];
    path = absl::StrCat(place.python_path, path.empty() ? "" : ":", path);
  }
  std::vector<std::string> entries;
  entries.reserve(variables.size());
  for (const auto& [name, value] : variables)
    entries.push_back(absl::StrCat(name, "=", value));
  return entries;
}

}  // namespace ringmaster
