#include "server/coordinator/core/config.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster::coordinator {
namespace {

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

absl::Status RequirePositive(std::string_view name, absl::Duration value) {
  if (value > absl::ZeroDuration() && value < absl::InfiniteDuration()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Text(name, value), " must be positive and finite"));
}

}  // namespace

Config Config::FromFailureBudget(absl::Duration failure_budget) {
  Config config;
  config.failure_budget = failure_budget;
  config.beat_interval = failure_budget / 5;
  config.lease = failure_budget * 3 / 4;
  config.halt_budget = config.lease;
  config.suspicion_grace = config.lease;
  config.reattach_budget = 2 * config.lease;
  config.stall_tolerance = config.lease / 4;
  config.connect_timeout = 5 * failure_budget;
  config.collective_timeout = 15 * failure_budget;
  config.progress_cap = std::max(config.progress_cap, 2 * config.lease);
  return config;
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
  RETURN_IF_ERROR(
      RequireAtLeast("reattach budget", reattach_budget, "lease", lease));
  RETURN_IF_ERROR(RequirePositive("stall tolerance", stall_tolerance));
  RETURN_IF_ERROR(RequirePositive("connect timeout", connect_timeout));
  RETURN_IF_ERROR(RequirePositive("collective timeout", collective_timeout));
  RETURN_IF_ERROR(RequireAtLeast("progress cap", progress_cap, "lease", lease));
  RETURN_IF_ERROR(RequirePositive("stop budget", stop_budget));
  if (max_link_faults < 0 || max_ended_jobs < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "limits out of range: ", max_link_faults, " link faults (at least 0), ",
        max_ended_jobs, " ended jobs kept (at least 1)"));
  }
  if (protocol_min < 1 || protocol_max < protocol_min) {
    return absl::InvalidArgumentError(
        absl::StrCat("protocol versions ", protocol_min, " to ", protocol_max,
                     " are no range of positive numbers"));
  }
  return absl::OkStatus();
}

}  // namespace ringmaster::coordinator
