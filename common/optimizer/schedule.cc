#include "common/optimizer/schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"

namespace ringmaster {
namespace {

// cos(pi * x) for x in [0, 1], from the Taylor series of sin: cos(pi x) =
// sin(pi (1/2 - x)), whose argument is at most pi / 2, where the terms left out
// are below 2e-18. Not std::cos, which may differ in its last bit from one C
// library or processor to the next, and ranks must not.
double CosPi(double x) {
  constexpr double kPi = 3.14159265358979323846;
  constexpr int kLastPower = 21;
  const double angle = kPi * (0.5 - x);
  const double square = angle * angle;
  // Horner's scheme: 1 - square / (2*3) * (1 - square / (4*5) * (...)).
  double sum = 1;
  for (int power = kLastPower; power > 1; power -= 2)
    sum = 1 - square / (power * (power - 1)) * sum;
  return angle * sum;
}

}  // namespace

absl::Status ScheduleConfig::Validate() const {
  if (kind != "constant" && kind != "cosine" && kind != "linear" &&
      kind != "wsd") {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.schedule.kind is \"", kind,
                     "\"; known are constant, cosine, linear and wsd"));
  }
  if (warmup_steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.schedule.warmup_steps is ", warmup_steps,
                     ", but must be at least 0"));
  }
  // Written so that NaN fails.
  if (!(final_ratio >= 0 && final_ratio <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.schedule.final_ratio is ", final_ratio,
                     ", but must be in [0, 1]"));
  }
  if (kind == "wsd" ? decay_steps < 1 : decay_steps != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.schedule.decay_steps is ", decay_steps, ", but must be ",
        kind == "wsd" ? "at least 1 with wsd" : "0 without wsd"));
  }
  return absl::OkStatus();
}

double LearningRateAt(const ScheduleConfig& schedule, double base_rate,
                      int64_t step, int64_t total_steps) {
  RM_CHECK(step >= 1, "steps count from 1");
  const int64_t warmup = schedule.warmup_steps;
  // At step == warmup the quotient would round what is exactly base_rate.
  if (step < warmup) {
    return base_rate * static_cast<double>(step) / static_cast<double>(warmup);
  }
  if (step == warmup || schedule.kind == "constant") return base_rate;
  if (step >= total_steps) return base_rate * schedule.final_ratio;
  const int64_t stable_until =
      schedule.kind == "wsd"
          ? std::max(warmup, total_steps - schedule.decay_steps)
          : warmup;
  if (step <= stable_until) return base_rate;
  const double progress = static_cast<double>(step - stable_until) /
                          static_cast<double>(total_steps - stable_until);
  const double left =
      schedule.kind == "cosine" ? (1 + CosPi(progress)) / 2 : 1 - progress;
  return base_rate * (schedule.final_ratio + (1 - schedule.final_ratio) * left);
}

}  // namespace ringmaster
