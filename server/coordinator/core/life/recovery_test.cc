#include "server/coordinator/core/life/recovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/status/exit_code.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

JobCreatedRecord Created(int64_t number) {
  JobCreatedRecord record;
  record.number = number;
  record.id = "j-" + std::to_string(number);
  record.name = "j";
  return record;
}

GenerationFormedRecord Formed(int64_t generation, const std::string& job) {
  return {generation, job, {MemberIdentity()}, 0, absl::UnixEpoch()};
}

JobEndedRecord Ended(const std::string& job) {
  JobEndedRecord record;
  record.job_id = job;
  record.state = v1::JOB_STATE_FAILED;
  return record;
}

std::string FoldError(const std::vector<JournalRecord>& records) {
  const absl::Status status = Fold(records, Config()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kCheckpointCorrupt);
  return std::string(status.message());
}

TEST(RecoveryTest, NoRecordsMeanAnEmptyState) {
  const absl::StatusOr<State> state = Fold({}, Config());
  ASSERT_TRUE(state.ok());
  EXPECT_TRUE(state->jobs.empty());
  EXPECT_EQ(state->last_generation, 0);
}

TEST(RecoveryTest, CountersGoOnFromTheHighest) {
  const absl::StatusOr<State> state =
      Fold({Created(3), Formed(7, "j-3"), Ended("j-3"), Created(5)}, Config());
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->last_generation, 7);
  EXPECT_EQ(state->last_job_number, 5);
  EXPECT_EQ((*state->LookUpJob("j"))->id, "j-5");
}

TEST(RecoveryTest, WhatABenchmarkMeasuredStays) {
  JobEndedRecord end = Ended("j-1");
  end.bench.emplace().add_rows()->set_bytes(4096);
  const absl::StatusOr<State> state =
      Fold({Created(1), Formed(1, "j-1"), end}, Config());
  ASSERT_TRUE(state.ok()) << state.status();
  const std::optional<v1::BenchFigures>& bench = state->FindJob("j-1")->bench;
  ASSERT_TRUE(bench.has_value());
  EXPECT_EQ(bench->rows(0).bytes(), 4096);
}

TEST(RecoveryTest, ARollbackThatWasOvertakenCountsOnce) {
  const auto trained = [](int64_t generation, int64_t step) {
    VerdictReachedRecord record{"j-1", v1::Verdict()};
    record.verdict.set_generation(generation);
    record.verdict.set_step(step);
    return record;
  };
  const auto rolled_back = [](int64_t generation) {
    GenerationFormedRecord record = Formed(generation, "j-1");
    record.is_rollback = true;
    return record;
  };
  std::vector<JournalRecord> records = {Created(1), Formed(1, "j-1"),
                                        trained(1, 40), rolled_back(2),
                                        rolled_back(3)};
  absl::StatusOr<State> state = Fold(records, Config());
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->FindJob("j-1")->setbacks.rollbacks, 1);
  records.push_back(trained(3, 20));
  records.push_back(rolled_back(4));
  state = Fold(records, Config());
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->FindJob("j-1")->setbacks.rollbacks, 2);
}

TEST(RecoveryTest, ASuspensionThatWasSetAsideMayFollowTheEnd) {
  const absl::StatusOr<State> state =
      Fold({Created(1), Formed(1, "j-1"), Ended("j-1"),
            JobSuspendedRecord{"j-1", 1, 0, true, absl::UnixEpoch()}},
           Config());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->FindJob("j-1")->state(), v1::JOB_STATE_FAILED);
}

TEST(RecoveryTest, RecordsThatWereSetAsideMayFollowTheEnd) {
  EXPECT_TRUE(Fold({Created(1), Ended("j-1"),
                    VerdictReachedRecord{"j-1", v1::Verdict()},
                    CancelRequestedRecord{"j-1", "", absl::UnixEpoch()}},
                   Config())
                  .ok());
}

TEST(RecoveryTest, ContradictionsAreDataLossAndName) {
  EXPECT_THAT(FoldError({Created(2), Created(2)}),
              HasSubstr("record 2 (job_created) contradicts those before it: "
                        "job j-2 comes after number 2"));
  EXPECT_THAT(FoldError({Formed(1, "j-1")}),
              HasSubstr("job j-1 was never created"));
  EXPECT_THAT(FoldError({Created(1), Formed(4, "j-1"), Formed(4, "j-1")}),
              HasSubstr("generation 4 of 1 members comes after generation 4"));
  EXPECT_THAT(FoldError({Created(1), Ended("j-1"), Ended("j-1")}),
              HasSubstr("or has ended before"));
  JobEndedRecord no_end = Ended("j-1");
  no_end.state = v1::JOB_STATE_RUNNING;
  EXPECT_THAT(FoldError({Created(1), no_end}), HasSubstr("which is no end"));
  EXPECT_THAT(FoldError({VerdictReachedRecord{"j-1", v1::Verdict()}}),
              HasSubstr("never created"));
  EXPECT_THAT(FoldError({CancelRequestedRecord{"j-1", "", absl::UnixEpoch()}}),
              HasSubstr("never created"));
}

TEST(RecoveryTest, AWorkerIsInItsLatestGeneration) {
  const absl::StatusOr<State> state = Fold(
      {Created(1), Created(2), Formed(1, "j-1"), Formed(2, "j-2")}, Config());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->workers.begin()->second.job_id, "j-2");
  EXPECT_EQ(state->jobs.at(1).state(), v1::JOB_STATE_HALTING);
  EXPECT_TRUE(state->jobs.at(1).members[0].is_lost);
  EXPECT_EQ(state->jobs.at(2).state(), v1::JOB_STATE_RUNNING);
}

TEST(RecoveryTest, JobsThatRanSideBySideGoOn) {
  GenerationFormedRecord other = Formed(2, "j-2");
  other.members[0].worker = "other";
  const absl::StatusOr<State> state = Fold(
      {Created(1), Created(2), Created(3), Formed(1, "j-1"), other}, Config());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->active_jobs, (std::set<int64_t>{1, 2}));
  EXPECT_EQ(state->jobs.at(1).state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(state->jobs.at(3).state(), v1::JOB_STATE_QUEUED);
}

}  // namespace
}  // namespace ringmaster::coordinator
