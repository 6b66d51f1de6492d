#include "server/coordinator/core/life/progress.h"

#include <gtest/gtest.h>

#include <string>

namespace ringmaster::coordinator {
namespace {

MonotonicTime At(absl::Duration since_start) {
  return MonotonicTime::FromNanos(1) + since_start;
}

// A job of two members that runs; its last progress was at the start.
class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() {
    Job job;
    job.id = "j-1";
    job.number = 1;
    job.stage = stage::Running{};
    job.generation = 1;
    job.is_assigned = true;
    job.last_progress = At(absl::ZeroDuration());
    job.progress_check = MonotonicTime::InfiniteFuture();
    for (int rank = 0; rank < 2; ++rank) {
      Worker worker;
      worker.name = "w" + std::to_string(rank);
      worker.phase = v1::PHASE_STEP;
      state_.workers.emplace(worker.name, worker);
      Member member;
      member.identity.rank = rank;
      member.identity.worker = worker.name;
      job.members.push_back(member);
    }
    state_.active_jobs = {1};
    state_.jobs.emplace(1, job);
  }

  Job& job() { return state_.jobs.at(1); }

  // A beat of `rank` without news.
  void Beat(int rank, MonotonicTime now) {
    Turn turn{config_, state_, outbox_, actions_, now, absl::UnixEpoch()};
    Member& member = job().members[rank];
    BeatReceived beat;
    beat.phase = v1::PHASE_STEP;
    NoteSigns(turn, job(), *state_.FindWorker(member.identity.worker), member,
              beat);
  }

  const Config config_ = Config::FromFailureBudget(absl::Seconds(2));
  State state_;
  Outbox outbox_;
  std::vector<Action> actions_;
};

TEST_F(ProgressTest, ALookIsDueWhenTheLeastPatienceIsOver) {
  Beat(0, At(absl::Seconds(1)));
  EXPECT_EQ(job().progress_check, At(config_.progress_cap));
}

TEST_F(ProgressTest, InAStandstillBeatsBringOneLookInABeatInterval) {
  const MonotonicTime first = At(config_.progress_cap + absl::Seconds(5));
  Beat(0, first);
  EXPECT_EQ(job().progress_check, first + config_.beat_interval);
  Beat(1, first + config_.beat_interval / 2);
  EXPECT_EQ(job().progress_check, first + config_.beat_interval);
}

TEST_F(ProgressTest, ALookThatIsDueBeforeStands) {
  job().progress_check = At(absl::Seconds(3));
  Beat(0, At(absl::Seconds(70)));
  EXPECT_EQ(job().progress_check, At(absl::Seconds(3)));
}

TEST_F(ProgressTest, AWaitForALostMemberIsInVain) {
  state_.FindWorker("w0")->waiting_for_rank = 1;
  EXPECT_GT(ProgressPatience(state_, job(), config_), config_.failure_budget);
  job().members[1].is_lost = true;
  EXPECT_EQ(ProgressPatience(state_, job(), config_), config_.failure_budget);
}

TEST_F(ProgressTest, AServerHasNoCollectivesToCompare) {
  job().members[1].identity.role = v1::ROLE_PARAMETER_SERVER;
  Worker& worker = *state_.FindWorker("w0");
  worker.waiting_for_rank = 1;
  worker.collective_sequence = 7;
  state_.FindWorker("w1")->waiting_for_rank = 0;
  EXPECT_EQ(FindStuckMember(state_, job()).identity.worker, "w0");
}

// All wait in a circle: only what w1 has sent does not arrive.
TEST_F(ProgressTest, WhoWaitsForOneThatHasGoneFurtherIsCutOff) {
  for (int rank = 2; rank < 4; ++rank) {
    Worker worker = *state_.FindWorker("w0");
    worker.name = "w" + std::to_string(rank);
    state_.workers.emplace(worker.name, worker);
    Member member = job().members[0];
    member.identity.rank = rank;
    member.identity.worker = worker.name;
    job().members.push_back(member);
  }
  for (int rank = 0; rank < 4; ++rank) {
    Worker& worker = *state_.FindWorker("w" + std::to_string(rank));
    worker.waiting_for_rank = (rank + 3) % 4;
    worker.collective_sequence = rank == 1 ? 8 : 7;
  }
  EXPECT_EQ(FindStuckMember(state_, job()).identity.worker, "w2");
}

}  // namespace
}  // namespace ringmaster::coordinator
