// LearningRateAt is the learning rate of each step.
//
//   step <= warmup_steps:  base_rate * step / warmup_steps
//   afterwards, constant:  base_rate
//   afterwards, the rest:  base_rate * (final_ratio + (1 - final_ratio) * left)
//     cosine:              left = (1 + cos(pi * progress)) / 2
//     linear and wsd:      left = 1 - progress
//
// where progress rises linearly from 0 at the step that the fall begins after to
// 1 at total_steps. That step is warmup_steps, but for wsd (warmup-stable-decay)
// it is total_steps - decay_steps: until then the rate stays at base_rate.
//
// (Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm
// Restarts", ICLR 2017, without the restarts; Hu et al., "MiniCPM", 2024.) Steps
// count from 1: step 1 is base_rate / warmup_steps, step warmup_steps is
// base_rate, and step total_steps is final_ratio * base_rate, exactly.
#ifndef RINGMASTER_COMMON_OPTIMIZER_SCHEDULE_H_
#define RINGMASTER_COMMON_OPTIMIZER_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace ringmaster {

struct ScheduleConfig {
  std::string kind = "constant";  // or "cosine", "linear" or "wsd"
  int64_t warmup_steps = 0;       // >= 0
  double final_ratio = 0;         // in [0, 1]; not for constant
  int64_t decay_steps = 0;        // wsd: >= 1; else 0

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
