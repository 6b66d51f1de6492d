#include "common/plan/collective_costs.h"

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr int kMaxCores = 1 << 20;

absl::Status CheckSeconds(const char* path, const char* field, double value) {
  if (value > 0 && value <= 1) return absl::OkStatus();  // false for NaN
  return absl::InvalidArgumentError(
      absl::StrCat("costs.", path, field,
                   " must be above 0 and at most 1 second, got ", value));
}

absl::Status CheckPath(const char* path, const PathCost& cost) {
  RETURN_IF_ERROR(CheckSeconds(path, ".latency_seconds", cost.latency));
  return CheckSeconds(path, ".seconds_per_byte", cost.seconds_per_byte);
}

}  // namespace

absl::Status CheckCosts(const MachineCosts& costs) {
  RETURN_IF_ERROR(CheckPath("shared_memory", costs.shared_memory));
  RETURN_IF_ERROR(CheckPath("unix", costs.unix_socket));
  RETURN_IF_ERROR(CheckPath("tcp", costs.tcp));
  RETURN_IF_ERROR(CheckPath("remote", costs.remote));
  RETURN_IF_ERROR(CheckSeconds("", "reduce_seconds_per_byte",
                               costs.reduce_seconds_per_byte));
  if (costs.cores >= 1 && costs.cores <= kMaxCores) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "costs.cores must be in [1, ", kMaxCores, "], got ", costs.cores));
}

}  // namespace ringmaster
