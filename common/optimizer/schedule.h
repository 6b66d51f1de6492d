// LearningRateAt is the learning rate of each step.
//
//   step <= warmup_steps:  base_rate * step / warmup_steps
//   afterwards, constant:  base_rate
//   afterwards, cosine:    base_rate * (final_ratio + (1 - final_ratio) *
//                            (1 + cos(pi * progress)) / 2), where progress =
//                            (step - warmup_steps) / (total_steps -
//                            warmup_steps), at most 1
//
// (Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm
// Restarts", ICLR 2017, without the restarts.) Steps count from 1: step 1 is
// base_rate / warmup_steps, step warmup_steps is base_rate, and step
// total_steps is final_ratio * base_rate, exactly.
#ifndef RINGMASTER_COMMON_OPTIMIZER_SCHEDULE_H_
#define RINGMASTER_COMMON_OPTIMIZER_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace ringmaster {

struct ScheduleConfig {
  std::string kind = "constant";  // or "cosine"
  int64_t warmup_steps = 0;       // >= 0
  double final_ratio = 0;         // in [0, 1]; cosine only

  // INVALID_ARGUMENT names the first bad field as
  // "optimizer.schedule.<field>", with its value and its bounds.
  [[nodiscard]] absl::Status Validate() const;

  friend bool operator==(const ScheduleConfig&,
                         const ScheduleConfig&) = default;
};

// Pure, and the same to the bit on every processor. Requires a valid schedule
// and step >= 1. A step after total_steps counts as the last one.
double LearningRateAt(const ScheduleConfig& schedule, double base_rate,
                      int64_t step, int64_t total_steps);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_SCHEDULE_H_
