#include "server/coordinator/core/state/config.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster::coordinator {
namespace {

constexpr absl::Duration kMaxBeatInterval = absl::Seconds(1);
constexpr absl::Duration kMinConnectTimeout = absl::Seconds(3);

std::string Text(std::string_view name, absl::Duration value) {
  return absl::StrCat(absl::string_view(name.data(), name.size()), " ",
                      absl::FormatDuration(value));
}

absl::Status RequireAtLeast(std::string_view name, absl::Duration value,
                            std::string_view bound_name, absl::Duration bound) {
  if (value >= bound) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Text(name, value), " is less than ", Text(bound_name, bound),
      "; it follows from --failure_budget unless it is set by itself"));
}

absl::Status RequireAtLeast(std::string_view name, int value, int bound) {
  if (value >= bound) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "limit out of range: ", value, " ",
      absl::string_view(name.data(), name.size()), " (at least ", bound, ")"));
}

absl::Status RequirePositive(std::string_view name, absl::Duration value) {
  if (value > absl::ZeroDuration() && value < absl::InfiniteDuration()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Text(name, value), " must be positive and finite"));
}

}  // namespace

Config Config::FromFailureBudget(absl::Duration failure_budget,
                                 absl::Duration progress_cap) {
  Config config;
  config.failure_budget = failure_budget;
  config.beat_interval = std::min(failure_budget / 5, kMaxBeatInterval);
  config.lease = failure_budget * 3 / 4;
  config.halt_budget = config.lease;
  config.suspicion_grace = config.lease;
  config.probe_timeout = config.lease / 2;
  config.reattach_budget =
      std::max(2 * config.lease, kReturnTime + config.lease);
  config.stall_tolerance = config.lease / 4;
  config.connect_timeout =
      std::max(failure_budget + config.lease, kMinConnectTimeout);
  config.progress_cap = progress_cap != absl::ZeroDuration()
                            ? progress_cap
                            : std::max(config.progress_cap, 2 * config.lease);
  config.collective_timeout = config.progress_cap + 2 * config.lease;
  return config;
}

std::string Config::Times() const {
  const std::pair<std::string_view, absl::Duration> times[] = {
      {"failure budget", failure_budget},
      {"beats every", beat_interval},
      {"lease", lease},
      {"answer to a halt within", halt_budget},
      {"a peer's report explained within", suspicion_grace},
      {"a link probed within", probe_timeout},
      {"attached again within", reattach_budget},
      {"own stall from", stall_tolerance},
      {"connected within", connect_timeout},
      {"no progress for at most", progress_cap},
      {"a collective's last resort", collective_timeout},
  };
  std::string text;
  for (const auto& [name, value] : times) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", Text(name, value));
  }
  return text;
}

absl::Status Config::Validate() const {
  if (failure_budget < kMinFailureBudget ||
      failure_budget > kMaxFailureBudget) {
    return absl::InvalidArgumentError(
        absl::StrCat("--failure_budget=", absl::FormatDuration(failure_budget),
                     " is outside ", absl::FormatDuration(kMinFailureBudget),
                     " to ", absl::FormatDuration(kMaxFailureBudget),
                     "; below, ordinary scheduling delays look like failures"));
  }
  RETURN_IF_ERROR(RequirePositive("beat interval", beat_interval));
  RETURN_IF_ERROR(
      RequireAtLeast("lease", lease, "two beat intervals", 2 * beat_interval));
  RETURN_IF_ERROR(RequirePositive("halt budget", halt_budget));
  RETURN_IF_ERROR(
      RequireAtLeast("suspicion grace", suspicion_grace, "lease", lease));
  RETURN_IF_ERROR(RequirePositive("probe timeout", probe_timeout));
  RETURN_IF_ERROR(RequireAtLeast("reattach budget", reattach_budget,
                                 "a worker's longest back-off and a lease",
                                 kReturnTime + lease));
  RETURN_IF_ERROR(RequirePositive("stall tolerance", stall_tolerance));
  RETURN_IF_ERROR(RequirePositive("connect timeout", connect_timeout));
  RETURN_IF_ERROR(RequirePositive("progress cap", progress_cap));
  RETURN_IF_ERROR(RequirePositive("collective timeout", collective_timeout));
  if (progress_cap < lease) {
    return absl::InvalidArgumentError(
        absl::StrCat("--progress_cap=", absl::FormatDuration(progress_cap),
                     " is shorter than a lease, ", absl::FormatDuration(lease),
                     ", which is three quarters of --failure_budget; a member "
                     "that is silent for less may be alive"));
  }
  RETURN_IF_ERROR(RequireAtLeast("collective timeout", collective_timeout,
                                 "progress cap", progress_cap));
  RETURN_IF_ERROR(RequireAtLeast("--state_wait", state_wait, "nothing",
                                 absl::ZeroDuration()));
  RETURN_IF_ERROR(RequireAtLeast("--overtake_time", overtake_time, "nothing",
                                 absl::ZeroDuration()));
  RETURN_IF_ERROR(RequirePositive("stop budget", stop_budget));
  RETURN_IF_ERROR(RequirePositive("join settle", join_settle));
  RETURN_IF_ERROR(RequirePositive("quarantine window", quarantine_window));
  RETURN_IF_ERROR(RequirePositive("quarantine time", quarantine_time));
  RETURN_IF_ERROR(RequireAtLeast("quarantine faults", quarantine_faults, 0));
  RETURN_IF_ERROR(RequireAtLeast("rollbacks", max_rollbacks, 0));
  RETURN_IF_ERROR(RequireAtLeast("ended jobs kept", max_ended_jobs, 1));
  if (protocol_min < 1 || protocol_max < protocol_min) {
    return absl::InvalidArgumentError(
        absl::StrCat("protocol versions ", protocol_min, " to ", protocol_max,
                     " are no range of positive numbers"));
  }
  return absl::OkStatus();
}

}  // namespace ringmaster::coordinator
