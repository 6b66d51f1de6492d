#include "server/ctl/commands/cordon.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/client/testing/fake_coordinator.h"
#include "server/ctl/commands/testing/ctl_test.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Workers a and b on host h1, of which b is in a job, and c on h2.
class CordonTest : public ::testing::Test {
 protected:
  CordonTest() {
    v1::Status status;
    for (const auto& [name, host] :
         {std::pair("a", "h1"), {"b", "h1"}, {"c", "h2"}}) {
      v1::Worker& worker = *status.add_workers();
      worker.set_name(name);
      worker.set_host(host);
    }
    status.mutable_workers(1)->set_job_id("j-1");
    status.mutable_workers(1)->set_rank(2);
    fake_.SetStatus(status);
    status_ = status;
  }

  // The status once `h1` is drained, and b has left its job.
  v1::Status Drained() const {
    v1::Status status = status_;
    v1::Cordon& cordon = *status.add_cordons();
    cordon.set_target("h1");
    cordon.set_drain(true);
    for (int i = 0; i < 2; ++i) {
      *status.mutable_workers(i)->mutable_cordon() = cordon;
      status.mutable_workers(i)->clear_job_id();
    }
    return status;
  }

  Outcome Run(std::vector<std::string> words) {
    words.insert(words.begin(), {"--coordinator", fake_.address()});
    return RunCtl(words);
  }

  FakeCoordinator fake_;
  v1::Status status_;
};

TEST_F(CordonTest, SaysWhatBecomesOfEachWorkerOfTheHost) {
  const Outcome cordon = Run({"cordon", "h1"});
  EXPECT_EQ(cordon.code, 0) << cordon.error;
  EXPECT_EQ(cordon.out,
            "worker a (host h1): cordoned\n"
            "worker b (host h1): cordoned; it stays rank 2 of job j-1\n");
  const Outcome drain = Run({"drain", "h1", "--reason=kernel update"});
  EXPECT_EQ(drain.code, 0) << drain.error;
  EXPECT_EQ(drain.out,
            "worker a (host h1): drained\n"
            "worker b (host h1): rank 2 of job j-1 until that can do without "
            "it\n");
  const auto shown =
      nlohmann::json::parse(Run({"workers", "-o", "json"}).out)["workers"];
  EXPECT_EQ(shown[0]["cordon"]["reason"], "kernel update");
  EXPECT_FALSE(shown[2].contains("cordon"));
  const Outcome lifted = Run({"uncordon", "h1"});
  EXPECT_EQ(lifted.code, 0) << lifted.error;
  EXPECT_EQ(lifted.out,
            "worker a (host h1): jobs may take it\n"
            "worker b (host h1): jobs may take it\n");
}

TEST_F(CordonTest, SaysWhenJobsLetGo) {
  const absl::Time before = absl::Now();
  const Outcome drain = Run({"drain", "h1", "--by=2h", "-o", "json"});
  ASSERT_EQ(drain.code, 0) << drain.error;
  absl::Time due;
  std::string error;
  const std::string shown =
      nlohmann::json::parse(drain.out)["workers"][1]["cordon"]["due_time"];
  ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, shown, &due, &error));
  EXPECT_GE(due, before + absl::Hours(2));
  EXPECT_LT(due, before + absl::Hours(2) + absl::Minutes(5));
  EXPECT_THAT(Run({"drain", "h1", "--by=2h"}).out,
              HasSubstr("until that can do without it, or "));
  EXPECT_THAT(Run({"workers"}).out, HasSubstr(", DRAINED by "));
  EXPECT_THAT(Run({"status"}).out, HasSubstr(", due in "));
}

TEST_F(CordonTest, SaysThatItIsDue) {
  v1::Status status = status_;
  v1::Cordon& cordon = *status.add_cordons();
  cordon.set_target("h1");
  cordon.set_drain(true);
  cordon.mutable_due_time()->set_seconds(1'000'000);
  *status.mutable_workers(1)->mutable_cordon() = cordon;
  fake_.SetNextStatus(status);
  const Outcome outcome = Run({"drain", "h1", "--by=1h", "--wait=300ms"});
  EXPECT_THAT(outcome.out,
              HasSubstr("worker b (host h1): rank 2 of job j-1, due to go "
                        "since "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("can do without")));
}

TEST_F(CordonTest, AnOlderCoordinatorDoesNotKnowTheTime) {
  fake_.SetNextStatus(Drained());
  const Outcome outcome = Run({"drain", "h1", "--by=2h", "--wait=1h"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.error,
              HasSubstr("h1 is drained without a time: the coordinator is too "
                        "old for --by"));
}

TEST_F(CordonTest, ATimeThatIsNoneIsOneLine) {
  for (const auto& [words, told] :
       {std::pair(std::vector<std::string>{"drain", "h1", "--by=soon"},
                  "--by=soon: give a duration"),
        {{"drain", "h1", "--by=2020-01-02T18:00:00Z"},
         "--by=2020-01-02T18:00:00Z: that is past"},
        {{"drain", "h1", "--by=-5m"}, "--by=-5m: that is past"},
        {{"drain", "h1", "--by="}, "flag --by needs a value"},
        {{"drain", "h1", "--by", ""}, "--by=: give a duration"},
        {{"drain", "h1", "--by=infinite-future"},
         "--by=infinite-future: give a duration"},
        {{"cordon", "h1", "--by=2h"}, "--by"}}) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::kUsage));
    EXPECT_THAT(outcome.error, HasSubstr(told));
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1)
        << outcome.error;
  }
  EXPECT_THAT(Run({"workers"}).out, Not(HasSubstr("DRAINED")));
}

TEST(ParseByTest, TakesDurationsTimesOfDayAndTimes) {
  absl::TimeZone zone;
  ASSERT_TRUE(absl::LoadTimeZone("Europe/Berlin", &zone));
  const absl::Time noon =
      absl::FromCivil(absl::CivilHour(2026, 3, 10, 12), zone);
  const auto by = [&](const std::string& text) {
    return ParseBy(text, noon, zone).value_or(absl::InfiniteDuration());
  };
  EXPECT_EQ(by("90m"), absl::Minutes(90));
  EXPECT_EQ(by("18:00"), absl::Hours(6));
  EXPECT_EQ(by("11:59"), absl::Hours(24) - absl::Minutes(1));
  EXPECT_EQ(by("12:00"), absl::Hours(24));
  EXPECT_EQ(by("2026-03-10T18:00:00+01:00"), absl::Hours(6));
  EXPECT_EQ(by("2026-03-10T18:00:00Z"), absl::Hours(7));
  // The clocks are set forward in the night of the 29th.
  const absl::Time evening =
      absl::FromCivil(absl::CivilHour(2026, 3, 28, 20), zone);
  EXPECT_EQ(*ParseBy("08:00", evening, zone), absl::Hours(11));
  // They are set back in the night of October 25: 02:30 is at 00:30 and 01:30 UTC.
  const absl::Time back =
      absl::FromCivil(absl::CivilHour(2026, 10, 25), absl::UTCTimeZone());
  const auto at = [&](absl::Duration since) {
    return ParseBy("02:30", back + since, zone)
        .value_or(absl::InfiniteDuration());
  };
  EXPECT_EQ(at(absl::ZeroDuration()), absl::Minutes(30));
  EXPECT_EQ(at(absl::Minutes(45)), absl::Minutes(45));
  EXPECT_EQ(at(absl::Minutes(90)), absl::Hours(24));
  for (const std::string text :
       {"", "soon", "25:00", "18:60", "0s", "-5m", "2026-03-10T11:00:00+01:00",
        "2026-03-10", "inf", "-inf", "infinite-future", "infinite-past"}) {
    EXPECT_EQ(ParseBy(text, noon, zone).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST_F(CordonTest, WaitsUntilNoneHasAJob) {
  fake_.SetNextStatus(Drained());
  const Outcome drained = Run({"drain", "h1", "--wait=1h"});
  EXPECT_EQ(drained.code, 0) << drained.error;
  EXPECT_EQ(drained.out,
            "worker a (host h1): drained\n"
            "worker b (host h1): drained\n");
}

TEST_F(CordonTest, WaitsNoLongerThanItIsTold) {
  const Outcome busy = Run({"drain", "h1", "--wait=300ms"});
  EXPECT_NE(busy.code, 0);
  EXPECT_THAT(busy.error, HasSubstr("a worker of h1 still had a job after "
                                    "300ms; they stay drained"));
}

TEST_F(CordonTest, SaysThatSomebodyHasLiftedIt) {
  fake_.SetNextStatus(status_);
  const Outcome lifted = Run({"drain", "h1", "--wait=1h"});
  EXPECT_NE(lifted.code, 0);
  EXPECT_THAT(lifted.error, HasSubstr("h1 is drained no more"));
}

TEST_F(CordonTest, JsonIsTheWorkersAndNothingElse) {
  const auto json =
      nlohmann::json::parse(Run({"drain", "b", "-o", "json"}).out);
  ASSERT_EQ(json["workers"].size(), 1);
  EXPECT_EQ(json["workers"][0]["name"], "b");
  EXPECT_EQ(json["workers"][0]["cordon"]["drain"], true);
}

TEST_F(CordonTest, AnErrorIsTheCoordinators) {
  EXPECT_NE(Run({"drain"}).code, 0);
  fake_.FailWith(absl::NotFoundError("no worker and no host is named \"x\""));
  const Outcome outcome = Run({"drain", "x"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.error, HasSubstr("no worker and no host is named"));
}

}  // namespace
}  // namespace ringmaster::ctl
