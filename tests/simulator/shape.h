// Shape: what a simulated cluster is like, drawn from the seed.
#ifndef RINGMASTER_TESTS_SIMULATOR_SHAPE_H_
#define RINGMASTER_TESTS_SIMULATOR_SHAPE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/coordinator/core/state/config.h"
#include "server/coordinator/core/state/types.h"
#include "tests/simulator/bug.h"
#include "tests/simulator/holders.h"
#include "tests/simulator/random.h"

namespace ringmaster::simulator {

// Processes; the last ones are parameter servers where there are any.
inline constexpr int kWorkers = 8;
inline constexpr int kServers = 3;
inline constexpr int64_t kMicrosecond = 1'000;
inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr int64_t kSecond = 1'000'000'000;
// Faults come only before this time.
inline constexpr int64_t kFaultyTime = 60 * kSecond;
// With no fault under way, a step commits within this time.
inline constexpr int64_t kProgressBound = 20 * kSecond;

// The shape of one job.
struct JobShape {
  int min_workers = 1;
  int max_workers = kWorkers;
  int total_steps = 200;
  int64_t step_time = 0;  // of the computing of a step
  int64_t copy_time = 0;  // of the state, per rank
  int64_t settle = 0;
  // With kServers: how many the job has, and copies of each shard.
  int servers = 0;
  int replicas = 0;
  bool keeps_checkpoints = false;
  int priority = 0;
  int64_t submit_time = 0;
};

// An action of a user on a job.
struct UserAction {
  int64_t time = 0;
  int job = 0;
  coordinator::JobChange change;
};

struct Shape {
  std::array<int, kWorkers> host_of = {};
  int64_t prepare_time = 0;  // of a process's first generation
  coordinator::Config config;
  Holders holders = Holders::kRanks;
  std::vector<JobShape> jobs;
  std::vector<UserAction> actions;

  [[nodiscard]] coordinator::Sharding ShardingOf(const JobShape& job) const;
  // Returns true if the process in that slot may hold shards.
  [[nodiscard]] bool IsHolder(int slot) const {
    return holders == Holders::kServers
               ? RoleOf(slot) == v1::ROLE_PARAMETER_SERVER
               : holders == Holders::kWorkers;
  }
  // Returns the role of the process in that slot.
  [[nodiscard]] v1::Role RoleOf(int slot) const {
    return holders == Holders::kServers && slot >= kWorkers - kServers
               ? v1::ROLE_PARAMETER_SERVER
               : v1::ROLE_WORKER;
  }
};

// The newest protocol version that a process with that incarnation speaks: some
// are of the release before, so a job has members of both.
[[nodiscard]] constexpr int ProtocolOfLife(uint64_t incarnation) {
  return incarnation % 16 == 1 ? coordinator::kIntegrityProtocol - 1
                               : coordinator::kNewestProtocol;
}

// Draws a cluster with one job.
[[nodiscard]] Shape DrawShape(Random& random, Random& leave_random, Bug bug,
                              Holders holders);
// Adds one to three jobs, and what users do to them all.
void DrawMoreJobs(Random& random, Shape& shape);

// "job", "job2", ...
[[nodiscard]] std::string JobName(int job);
// The job that has that id; 0 if none has.
[[nodiscard]] int JobOfId(std::string_view id);

[[nodiscard]] std::string WorkerName(int slot);
// The inverse; -1 if it is no worker's name.
[[nodiscard]] int SlotOf(std::string_view name);

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_SHAPE_H_
