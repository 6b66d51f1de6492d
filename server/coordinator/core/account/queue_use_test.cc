#include "server/coordinator/core/account/queue_use.h"

#include <gtest/gtest.h>

namespace ringmaster::coordinator {
namespace {

TEST(QueueUseTest, UseIsWorkerSecondsOfWhichOldOnesCountLess) {
  State state;
  state.half_life = absl::Hours(1);
  for (const char* name : {"a", "default"}) {
    state.queues[name].spec.set_name(name);
  }
  Job& job = state.jobs[1];
  job.number = 1;
  job.queue = "a";
  job.stage = stage::Running{};
  job.members.resize(3);
  for (Member& member : job.members) member.identity.role = v1::ROLE_WORKER;
  job.members[2].is_lost = true;
  state.active_jobs.insert(1);
  const MonotonicTime begin = MonotonicTime() + absl::Seconds(5);
  state.used_to = begin;
  // Too little to look at all members for.
  AccountUse(state, begin + absl::Milliseconds(50));
  EXPECT_EQ(state.queues["a"].used, 0);
  for (int i = 1; i <= 10; ++i) AccountUse(state, begin + absl::Seconds(i));
  EXPECT_NEAR(state.queues["a"].used, 20, 0.1);
  EXPECT_EQ(state.queues["default"].used, 0);
  // In an hour the 20 become 10, and the hour itself is worth 1/(2 ln 2) of its length.
  AccountUse(state, begin + absl::Seconds(10) + absl::Hours(1));
  EXPECT_NEAR(state.queues["a"].used, 10 + 2 * 3600 * 0.7213, 1);
  state.active_jobs.clear();
  job.stage = stage::Ended{v1::JOB_STATE_SUCCEEDED};
  const double before = state.queues["a"].used;
  AccountUse(state, begin + absl::Seconds(10) + absl::Hours(3));
  EXPECT_NEAR(state.queues["a"].used, before / 4, 0.1);
}

}  // namespace
}  // namespace ringmaster::coordinator
