#include "tests/simulator/shape.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace ringmaster::simulator {

coordinator::Sharding Shape::ShardingOf(const JobShape& job) const {
  switch (holders) {
    case Holders::kRanks:
      break;
    case Holders::kWorkers:
      return {.shards = job.max_workers, .replicas = 1};
    case Holders::kServers:
      return {.servers = job.servers,
              .shards = job.servers,
              .replicas = job.replicas};
  }
  return {};
}

Shape DrawShape(Random& random, Random& leave_random, Bug bug,
                Holders holders) {
  Shape shape;
  JobShape& job = shape.jobs.emplace_back();
  shape.holders = holders;
  const auto host_count = static_cast<int>(random.Between(2, 4));
  for (int slot = 0; slot < kWorkers; ++slot) {
    shape.host_of[slot] = slot % host_count;
  }
  job.min_workers = static_cast<int>(random.Between(1, 5));
  job.max_workers =
      static_cast<int>(random.Between(job.min_workers + 1, kWorkers));
  if (holders == Holders::kServers) {
    constexpr int kMost = kWorkers - kServers;
    job.min_workers = static_cast<int>(random.Between(1, 3));
    job.max_workers =
        static_cast<int>(random.Between(job.min_workers + 1, kMost));
    job.servers = static_cast<int>(random.Between(1, kServers));
    job.replicas = job.servers > 1 ? static_cast<int>(random.Between(0, 1)) : 0;
  }
  job.keeps_checkpoints = leave_random.Chance(50);
  job.total_steps = static_cast<int>(random.Between(200, 320));
  job.step_time = random.Between(60, 160) * kMillisecond;
  shape.prepare_time = random.Between(10, 300) * kMillisecond;
  job.copy_time = random.Between(1, 60) * kMillisecond;
  job.settle = random.Between(50, 500) * kMillisecond;
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

void DrawMoreJobs(Random& random, Shape& shape) {
  const auto draw = [&random](int64_t least, int64_t most) {
    return static_cast<int>(random.Between(least, most));
  };
  const int more = draw(1, 3);
  JobShape& first = shape.jobs.front();
  first.total_steps = draw(80, 200);
  first.priority = draw(0, 2);
  for (int i = 0; i < more; ++i) {
    JobShape job = first;
    job.min_workers = draw(1, 4);
    job.max_workers = draw(job.min_workers, kWorkers);
    job.total_steps = draw(40, 160);
    job.step_time = random.Between(40, 120) * kMillisecond;
    job.keeps_checkpoints = random.Chance(60);
    job.priority = draw(0, 2);
    job.submit_time = random.Between(0, 30'000) * kMillisecond;
    shape.jobs.push_back(job);
  }
  const int actions = draw(0, 3);
  for (int i = 0; i < actions; ++i) {
    UserAction action;
    action.time = random.Between(1'000, 40'000) * kMillisecond;
    action.job = draw(0, more);
    if (random.Chance(50)) {
      action.change.priority = draw(0, 3);
      shape.actions.push_back(action);
      continue;
    }
    action.change.is_suspended = true;
    shape.actions.push_back(action);
    action.time += random.Between(500, 10'000) * kMillisecond;
    action.change.is_suspended = false;
    shape.actions.push_back(action);
  }
}

std::string JobName(int job) {
  return job == 0 ? "job" : absl::StrCat("job", job + 1);
}

int JobOfId(std::string_view id) {
  constexpr std::string_view kPrefix = "job";
  if (!id.starts_with(kPrefix) || id.size() <= kPrefix.size()) return 0;
  const char digit = id[kPrefix.size()];
  return digit >= '2' && digit <= '9' ? digit - '1' : 0;
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
