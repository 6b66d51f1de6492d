#include "server/ctl/render/top_view.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(10'000);

v1::Member MemberOf(int rank, int seconds, int waiting) {
  v1::Member member;
  member.set_rank(rank);
  member.set_worker(absl::StrCat("w", rank));
  member.mutable_figures()->mutable_duration()->set_seconds(seconds);
  member.mutable_figures()
      ->mutable_phases()
      ->mutable_communication_wait()
      ->set_seconds(waiting);
  return member;
}

// A running job in its third generation, in which rank i has waited for so many
// of 100 seconds.
v1::Job JobOf(const std::string& id, const std::vector<int>& waiting) {
  v1::Job job;
  job.set_id(id);
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_generation(3);
  for (size_t i = 0; i < waiting.size(); ++i)
    *job.add_members() = MemberOf(static_cast<int>(i), 100, waiting[i]);
  return job;
}

std::vector<std::string> NamesOf(const std::vector<RankLoad>& loads) {
  std::vector<std::string> names;
  names.reserve(loads.size());
  for (const RankLoad& load : loads)
    names.push_back(absl::StrCat(load.job->id(), ":", load.member->rank()));
  return names;
}

TEST(RankLoadsTest, ThoseThatOthersWaitForComeFirst) {
  v1::Status status;
  *status.add_jobs() = JobOf("a", {10, 10});
  *status.add_jobs() = JobOf("b", {40, 0, 35});
  v1::Job& queued = *status.add_jobs();
  queued.set_state(v1::JOB_STATE_QUEUED);
  queued.add_members();
  const std::vector<RankLoad> loads = RankLoads(status, {});
  EXPECT_EQ(NamesOf(loads),
            (std::vector<std::string>{"b:1", "a:0", "a:1", "b:0", "b:2"}));
  EXPECT_THAT(loads[0].holds_up_ratio, DoubleNear(0.375, 1e-9));
  EXPECT_THAT(loads[0].wait_ratio, DoubleNear(0, 1e-9));
  EXPECT_THAT(loads[3].wait_ratio, DoubleNear(0.4, 1e-9));
  EXPECT_EQ(loads[3].holds_up_ratio, 0);
}

// A status with one job, in its third generation.
v1::Status StatusOf(const std::vector<v1::Member>& members) {
  v1::Status status;
  v1::Job& job = *status.add_jobs();
  job = JobOf("a", {});
  for (const v1::Member& member : members) *job.add_members() = member;
  return status;
}

TEST(RankLoadsTest, FiguresAreThoseSinceTheStatusBefore) {
  RankTimes times;
  times.Add(StatusOf({MemberOf(0, 100, 50), MemberOf(1, 100, 50)}));
  v1::Status now = StatusOf({MemberOf(0, 110, 50), MemberOf(1, 110, 59)});
  times.Add(now);
  const std::vector<RankLoad> loads = RankLoads(now, times);
  EXPECT_THAT(loads[0].holds_up_ratio, DoubleNear(0.9, 1e-9));
  EXPECT_EQ(loads[0].member->rank(), 0);
  // Those of another generation began anew.
  now.mutable_jobs(0)->set_generation(4);
  times.Add(now);
  EXPECT_THAT(RankLoads(now, times)[0].wait_ratio,
              DoubleNear(50.0 / 110, 1e-9));
}

TEST(RankLoadsTest, ARankBetweenTwoStepsShowsTheLastOnes) {
  RankTimes times;
  times.Add(StatusOf({MemberOf(0, 100, 50), MemberOf(1, 100, 50)}));
  const v1::Status now = StatusOf({MemberOf(0, 110, 50), MemberOf(1, 110, 59)});
  for (int screen = 0; screen < 3; ++screen) {
    times.Add(now);
    const std::vector<RankLoad> loads = RankLoads(now, times);
    EXPECT_THAT(loads[0].wait_ratio, DoubleNear(0, 1e-9));
    EXPECT_THAT(loads[1].wait_ratio, DoubleNear(0.9, 1e-9));
  }
}

TEST(RankLoadsTest, TheLastStepsAreNotComparedWithAllSteps) {
  RankTimes times;
  v1::Status now = StatusOf(
      {MemberOf(0, 100, 0), MemberOf(1, 100, 0), MemberOf(2, 100, 90)});
  times.Add(now);
  // No rank has made a step: that of all shows.
  times.Add(now);
  EXPECT_THAT(RankLoads(now, times)[2].wait_ratio, DoubleNear(0.9, 1e-9));
  now = StatusOf(
      {MemberOf(0, 110, 5), MemberOf(1, 110, 5), MemberOf(2, 100, 90)});
  times.Add(now);
  for (const RankLoad& load : RankLoads(now, times)) {
    EXPECT_EQ(load.holds_up_ratio, 0);
    EXPECT_THAT(load.wait_ratio,
                DoubleNear(load.member->rank() == 2 ? -1 : 0.5, 1e-9));
  }
}

TEST(RankLoadsTest, FiguresThatFellBeginAnew) {
  RankTimes times;
  times.Add(StatusOf({MemberOf(0, 90, 0)}));
  times.Add(StatusOf({MemberOf(0, 100, 0)}));
  const v1::Status now = StatusOf({MemberOf(0, 10, 4)});
  times.Add(now);
  EXPECT_THAT(RankLoads(now, times)[0].wait_ratio, DoubleNear(0.4, 1e-9));
}

TEST(RankLoadsTest, ARankWithoutAStepIsNotKnown) {
  v1::Status status;
  v1::Job& job = *status.add_jobs();
  job = JobOf("a", {30});
  job.add_members()->set_rank(1);
  for (const RankLoad& load : RankLoads(status, {})) {
    EXPECT_EQ(load.holds_up_ratio, 0);
    EXPECT_EQ(load.wait_ratio < 0, load.member->rank() == 1);
  }
}

TEST(TopLinesTest, ThePoolItsJobsAndTheirRanks) {
  v1::Status status;
  status.mutable_coordinator()->set_host("alpha");
  *status.add_jobs() = JobOf("waits", {});
  status.mutable_jobs(0)->set_state(v1::JOB_STATE_QUEUED);
  *status.add_jobs() = JobOf("runs", {40, 0});
  const std::vector<std::string> lines =
      TopLines(status, {}, "", kNow, {.width = 100});
  const std::string text = absl::StrJoin(lines, "\n");
  EXPECT_LT(text.find("coordinator on alpha"), text.find("runs"));
  EXPECT_LT(text.find("runs"), text.find("waits"));
  EXPECT_LT(text.find("waits"), text.find("HOLDS UP"));
  EXPECT_LT(text.find("w1"), text.find("w0"));
  EXPECT_THAT(text, HasSubstr("40%"));
  EXPECT_THAT(
      absl::StrJoin(TopLines(status, {}, "no news: \x1b[2J", kNow, {}), "\n"),
      testing::AllOf(HasSubstr("no news: "), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(absl::StrJoin(TopLines({}, {}, "", kNow, {}), "\n"),
              HasSubstr("no jobs"));
}

TEST(TopLinesTest, FitsAnyTerminal) {
  v1::Status status;
  for (int i = 0; i < 40; ++i)
    *status.add_jobs() = JobOf(absl::StrCat("job-", i), {1, 2, 3, 4});
  for (const int height : {1, 2, 5, 8, 24, 60}) {
    for (const int width : {10, 40, 80}) {
      const std::vector<std::string> lines = TopLines(
          status, {}, "no news", kNow, {.width = width, .height = height});
      EXPECT_LE(lines.size(), static_cast<size_t>(std::max(1, height - 1)));
      for (const std::string& line : lines)
        EXPECT_LE(DisplayWidth(line), width);
    }
  }
  const std::string text = absl::StrJoin(
      TopLines(status, {}, "", kNow, {.width = 80, .height = 24}), "\n");
  EXPECT_THAT(text, HasSubstr("more jobs"));
  EXPECT_THAT(text, HasSubstr("more ranks"));
  EXPECT_THAT(text, HasSubstr("HOLDS UP"));
}

}  // namespace
}  // namespace ringmaster::ctl
