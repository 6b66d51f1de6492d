#include "server/coordinator/core/state/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

// Returns the message with which the default config is refused after `change`.
template <typename Change>
std::string Refusal(const Change& change) {
  Config config = Config::FromFailureBudget(absl::Seconds(2));
  change(config);
  const absl::Status status = config.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ConfigTest, EverythingFollowsFromTheFailureBudget) {
  const Config config = Config::FromFailureBudget(absl::Seconds(4));
  EXPECT_EQ(config.beat_interval, absl::Milliseconds(800));
  EXPECT_EQ(config.lease, absl::Seconds(3));
  EXPECT_EQ(config.halt_budget, config.lease);
  EXPECT_EQ(config.suspicion_grace, config.lease);
  EXPECT_EQ(config.reattach_budget, 2 * config.lease);
  EXPECT_EQ(config.connect_timeout, absl::Seconds(7));
  EXPECT_EQ(config.progress_cap, absl::Seconds(60));
  EXPECT_EQ(config.collective_timeout, absl::Seconds(66));
  EXPECT_TRUE(config.Validate().ok());
}

TEST(ConfigTest, WhatPeopleSeeIsFreshUnderAnyBudget) {
  const Config config = Config::FromFailureBudget(absl::Seconds(20));
  EXPECT_EQ(config.beat_interval, absl::Seconds(1));
  EXPECT_EQ(config.lease, absl::Seconds(15));
  EXPECT_TRUE(config.Validate().ok());
}

TEST(ConfigTest, DefaultsAreThoseOfTheDefaultBudget) {
  const Config derived = Config::FromFailureBudget(absl::Seconds(2));
  const Config config;
  EXPECT_EQ(config.failure_budget, derived.failure_budget);
  EXPECT_EQ(config.beat_interval, derived.beat_interval);
  EXPECT_EQ(config.lease, derived.lease);
  EXPECT_EQ(config.halt_budget, derived.halt_budget);
  EXPECT_EQ(config.suspicion_grace, derived.suspicion_grace);
  EXPECT_EQ(config.reattach_budget, derived.reattach_budget);
  EXPECT_EQ(config.stall_tolerance, derived.stall_tolerance);
  EXPECT_EQ(config.connect_timeout, derived.connect_timeout);
  EXPECT_EQ(config.collective_timeout, derived.collective_timeout);
  EXPECT_EQ(config.progress_cap, derived.progress_cap);
}

TEST(ConfigTest, SmallestAndLargestBudgetAreAccepted) {
  EXPECT_TRUE(Config::FromFailureBudget(kMinFailureBudget).Validate().ok());
  EXPECT_TRUE(Config::FromFailureBudget(kMaxFailureBudget).Validate().ok());
}

TEST(ConfigTest, AShortBudgetStillWaitsForALostSyn) {
  EXPECT_EQ(Config::FromFailureBudget(kMinFailureBudget).connect_timeout,
            absl::Seconds(3));
}

TEST(ConfigTest, AShortBudgetStillWaitsForWorkersToTryAgain) {
  const Config config = Config::FromFailureBudget(kMinFailureBudget);
  EXPECT_EQ(config.reattach_budget, kReturnTime + config.lease);
}

TEST(ConfigTest, TheLastResortFollowsTheProgressCap) {
  const Config config =
      Config::FromFailureBudget(absl::Seconds(2), absl::Minutes(5));
  EXPECT_EQ(config.progress_cap, absl::Minutes(5));
  EXPECT_EQ(config.collective_timeout, absl::Seconds(303));
  EXPECT_TRUE(config.Validate().ok());
}

TEST(ConfigTest, TellsAllTimes) {
  EXPECT_EQ(Config().Times(),
            "failure budget 2s, beats every 400ms, lease 1.5s, answer to a "
            "halt within 1.5s, a peer's report explained within 1.5s, a link "
            "probed within 750ms, attached "
            "again within 3s, own stall from 375ms, connected within 3.5s, no "
            "progress for at most 1m, a collective's last resort 1m3s");
}

TEST(ConfigTest, NoneIsAllowedForFaultsAndRollbacks) {
  Config config;
  config.quarantine_faults = 0;
  config.max_rollbacks = 0;
  EXPECT_TRUE(config.Validate().ok());
}

TEST(ConfigTest, RefusalNamesTheValueAndItsBound) {
  EXPECT_THAT(
      Config::FromFailureBudget(absl::Milliseconds(100)).Validate().ToString(),
      HasSubstr("--failure_budget=100ms is outside 200ms to 10m"));
  EXPECT_THAT(Refusal([](Config& c) { c.beat_interval = absl::Seconds(1); }),
              HasSubstr("lease 1.5s is less than two beat intervals 2s"));
  EXPECT_THAT(
      Refusal([](Config& c) { c.suspicion_grace = absl::Milliseconds(1); }),
      HasSubstr("suspicion grace 1ms is less than lease 1.5s"));
  EXPECT_THAT(
      Refusal([](Config& c) { c.reattach_budget = absl::Seconds(2); }),
      HasSubstr("reattach budget 2s is less than a worker's longest back-off "
                "and a lease 2.5s"));
  EXPECT_THAT(Refusal([](Config& c) { c.stop_budget = -absl::Seconds(1); }),
              HasSubstr("stop budget -1s must be positive"));
  EXPECT_THAT(Refusal([](Config& c) { c.progress_cap = absl::Seconds(1); }),
              HasSubstr("--progress_cap=1s is shorter than a lease, 1.5s"));
  EXPECT_THAT(Refusal([](Config& c) { c.progress_cap = -absl::Seconds(1); }),
              HasSubstr("progress cap -1s must be positive"));
  EXPECT_THAT(
      Refusal([](Config& c) { c.progress_cap = absl::Minutes(2); }),
      HasSubstr("collective timeout 1m3s is less than progress cap 2m"));
  EXPECT_THAT(Refusal([](Config& c) { c.max_ended_jobs = 0; }),
              HasSubstr("0 ended jobs kept"));
  EXPECT_THAT(Refusal([](Config& c) { c.join_settle = absl::ZeroDuration(); }),
              HasSubstr("join settle 0 must be positive"));
  EXPECT_THAT(
      Refusal([](Config& c) { c.quarantine_window = -absl::Seconds(1); }),
      HasSubstr("quarantine window -1s must be positive"));
  EXPECT_THAT(
      Refusal([](Config& c) { c.quarantine_time = absl::InfiniteDuration(); }),
      HasSubstr("quarantine time inf must be positive and finite"));
  EXPECT_THAT(Refusal([](Config& c) { c.quarantine_faults = -1; }),
              HasSubstr("-1 quarantine faults (at least 0)"));
  EXPECT_THAT(Refusal([](Config& c) { c.max_rollbacks = -1; }),
              HasSubstr("-1 rollbacks (at least 0)"));
  EXPECT_THAT(Refusal([](Config& c) { c.protocol_min = 4; }),
              HasSubstr("protocol versions 4 to 3"));
}

}  // namespace
}  // namespace ringmaster::coordinator
