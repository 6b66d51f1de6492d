#include "server/ctl/client/job_watch.h"

#include <grpcpp/security/credentials.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ctl/client/testing/fake_coordinator.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Client> ClientOf(const std::string& address) {
  return std::make_unique<Client>(
      ClientOptions{.address = address,
                    .credentials = grpc::InsecureChannelCredentials(),
                    .timeout = absl::Seconds(5)});
}

v1::Job JobAt(int64_t step, v1::JobState state = v1::JOB_STATE_RUNNING) {
  v1::Job job;
  job.set_id("mlp-1");
  job.set_state(state);
  job.mutable_figures()->set_step(step);
  return job;
}

// The first snapshot that is as wanted; the last one seen if none is within 20
// s.
WatchSnapshot AwaitSnapshot(
    const JobWatch& watch, Bell& bell,
    const std::function<bool(const WatchSnapshot&)>& wanted) {
  const MonotonicTime deadline = Clock::Real().Now() + absl::Seconds(20);
  WatchSnapshot snapshot = watch.Snapshot();
  while (!wanted(snapshot) && bell.Await(Clock::Real(), deadline))
    snapshot = watch.Snapshot();
  EXPECT_TRUE(wanted(snapshot));
  return snapshot;
}

bool IsOver(const WatchSnapshot& snapshot) { return snapshot.end.has_value(); }

TEST(JobWatchTest, FollowsAJobToItsEnd) {
  FakeCoordinator coordinator;
  coordinator.SetJob(JobAt(1));
  Bell bell;
  JobWatch watch(ClientOf(coordinator.address()), "mlp", {}, Clock::Real(),
                 bell);
  AwaitSnapshot(watch, bell, [](const auto& seen) {
    return seen.job && seen.job->figures().step() == 1;
  });
  coordinator.SetJob(JobAt(2));
  AwaitSnapshot(watch, bell, [](const auto& seen) {
    return seen.job->figures().step() == 2;
  });
  coordinator.SetJob(JobAt(3, v1::JOB_STATE_SUCCEEDED));
  const WatchSnapshot last = AwaitSnapshot(watch, bell, IsOver);
  EXPECT_TRUE(last.end->ok()) << *last.end;
  EXPECT_EQ(last.job->figures().step(), 3);
}

TEST(JobWatchTest, EndsAtOnceWithAJobThatHasEnded) {
  FakeCoordinator coordinator;
  coordinator.SetJob(JobAt(3, v1::JOB_STATE_FAILED));
  Bell bell;
  JobWatch watch(ClientOf(coordinator.address()), "mlp", {}, Clock::Real(),
                 bell);
  EXPECT_TRUE(AwaitSnapshot(watch, bell, IsOver).end->ok());
}

TEST(JobWatchTest, SurvivesARestartOfTheCoordinator) {
  Bell bell;
  auto coordinator = std::make_unique<FakeCoordinator>();
  const int port = coordinator->port();
  coordinator->SetJob(JobAt(1));
  JobWatch watch(ClientOf(coordinator->address()), "mlp", {}, Clock::Real(),
                 bell);
  coordinator->AwaitWatcher();
  coordinator.reset();
  const WatchSnapshot lost = AwaitSnapshot(
      watch, bell, [](const auto& seen) { return !seen.lost.empty(); });
  EXPECT_EQ(lost.job->figures().step(), 1);
  coordinator = std::make_unique<FakeCoordinator>(port);
  coordinator->SetJob(JobAt(7));
  AwaitSnapshot(watch, bell, [](const auto& seen) {
    return seen.lost.empty() && seen.job->figures().step() == 7;
  });
  coordinator->SetJob(JobAt(9, v1::JOB_STATE_SUCCEEDED));
  EXPECT_TRUE(AwaitSnapshot(watch, bell, IsOver).end->ok());
}

TEST(JobWatchTest, GivesUpWhenTheCoordinatorStaysAway) {
  Bell bell;
  auto coordinator = std::make_unique<FakeCoordinator>();
  coordinator->SetJob(JobAt(1));
  JobWatch watch(ClientOf(coordinator->address()), "mlp",
                 {.reconnect_limit = absl::ZeroDuration()}, Clock::Real(),
                 bell);
  coordinator->AwaitWatcher();
  coordinator.reset();
  const WatchSnapshot last = AwaitSnapshot(watch, bell, IsOver);
  EXPECT_EQ(last.end->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(last.end->message()), HasSubstr("gave up after"));
}

TEST(JobWatchTest, EndsWithTheErrorOfAFirstConnection) {
  FakeCoordinator coordinator;
  coordinator.FailWith(WithReason(absl::NotFoundError("there is no job mlp"),
                                  reason::kJobNotFound));
  Bell bell;
  JobWatch watch(ClientOf(coordinator.address()), "mlp", {}, Clock::Real(),
                 bell);
  EXPECT_EQ(AwaitSnapshot(watch, bell, IsOver).end->code(),
            absl::StatusCode::kNotFound);
}

TEST(JobWatchTest, StopsWhileAStreamIsOpen) {
  FakeCoordinator coordinator;
  coordinator.SetJob(JobAt(1));
  Bell bell;
  auto watch =
      std::make_optional<JobWatch>(ClientOf(coordinator.address()), "mlp",
                                   JobWatchOptions{}, Clock::Real(), bell);
  coordinator.AwaitWatcher();
  watch.reset();  // returns
}

TEST(BellTest, KeepsARingUntilItIsAwaited) {
  Bell bell;
  bell.Ring();
  bell.Ring();
  EXPECT_TRUE(bell.Await(Clock::Real(), Clock::Real().Now()));
  EXPECT_FALSE(bell.Await(Clock::Real(), Clock::Real().Now()));
}

}  // namespace
}  // namespace ringmaster::ctl
