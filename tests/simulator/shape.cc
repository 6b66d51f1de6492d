#include "tests/simulator/shape.h"

#include "absl/time/time.h"

namespace ringmaster::simulator {

Shape DrawShape(Random& random, Bug bug, bool is_sharded) {
  Shape shape;
  shape.is_sharded = is_sharded;
  const auto host_count = static_cast<int>(random.Between(2, 4));
  for (int slot = 0; slot < kWorkers; ++slot) {
    shape.host_of[slot] = slot % host_count;
  }
  shape.min_workers = static_cast<int>(random.Between(1, 5));
  shape.max_workers =
      static_cast<int>(random.Between(shape.min_workers + 1, kWorkers));
  shape.total_steps = static_cast<int>(random.Between(200, 320));
  shape.step_time = random.Between(60, 160) * kMillisecond;
  shape.prepare_time = random.Between(10, 300) * kMillisecond;
  shape.copy_time = random.Between(1, 60) * kMillisecond;
  shape.settle = random.Between(50, 500) * kMillisecond;
  shape.config = coordinator::Config::FromFailureBudget(
      absl::Milliseconds(random.Between(4, 20) * 100));
  // That a job fails after a few rollbacks is policy; here it goes on.
  shape.config.max_rollbacks = 100;
  if (bug == Bug::kEndlessLease) {
    shape.config.lease = absl::Hours(1);
    shape.config.halt_budget = absl::Hours(1);
  }
  return shape;
}

std::string WorkerName(int slot) {
  return std::string{'w', static_cast<char>('0' + slot)};
}

int SlotOf(std::string_view name) {
  const bool is_name = name.size() == 2 && name[0] == 'w' && name[1] >= '0' &&
                       name[1] < '0' + kWorkers;
  return is_name ? name[1] - '0' : -1;
}

}  // namespace ringmaster::simulator
