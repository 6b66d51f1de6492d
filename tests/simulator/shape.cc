#include "tests/simulator/shape.h"

#include "absl/time/time.h"

namespace ringmaster::simulator {

coordinator::Sharding Shape::Sharding() const {
  switch (holders) {
    case Holders::kRanks:
      break;
    case Holders::kWorkers:
      return {.shards = max_workers, .replicas = 1};
    case Holders::kServers:
      return {.servers = servers, .shards = servers, .replicas = replicas};
  }
  return {};
}

Shape DrawShape(Random& random, Random& leave_random, Bug bug,
                Holders holders) {
  Shape shape;
  shape.holders = holders;
  const auto host_count = static_cast<int>(random.Between(2, 4));
  for (int slot = 0; slot < kWorkers; ++slot) {
    shape.host_of[slot] = slot % host_count;
  }
  shape.min_workers = static_cast<int>(random.Between(1, 5));
  shape.max_workers =
      static_cast<int>(random.Between(shape.min_workers + 1, kWorkers));
  if (holders == Holders::kServers) {
    constexpr int kMost = kWorkers - kServers;
    shape.min_workers = static_cast<int>(random.Between(1, 3));
    shape.max_workers =
        static_cast<int>(random.Between(shape.min_workers + 1, kMost));
    shape.servers = static_cast<int>(random.Between(1, kServers));
    shape.replicas =
        shape.servers > 1 ? static_cast<int>(random.Between(0, 1)) : 0;
  }
  shape.keeps_checkpoints = leave_random.Chance(50);
  shape.total_steps = static_cast<int>(random.Between(200, 320));
  shape.step_time = random.Between(60, 160) * kMillisecond;
  shape.prepare_time = random.Between(10, 300) * kMillisecond;
  shape.copy_time = random.Between(1, 60) * kMillisecond;
  shape.settle = random.Between(50, 500) * kMillisecond;
  shape.config = coordinator::Config::FromFailureBudget(
      absl::Milliseconds(random.Between(4, 20) * 100));
  shape.config.state_wait = absl::Seconds(random.Between(4, 40));
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
