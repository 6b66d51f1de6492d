#include "server/coordinator/journal/json_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "nlohmann/json.hpp"

namespace ringmaster::coordinator {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

// The record that release 0.1.0 wrote at the end of a job; tests/golden has
// whole journals.
Json EndOf010() {
  return Json::parse(R"({
    "exit_code": 138, "job_id": "j-1", "message": "it broke",
    "parameters_hash": 9411361179432236200, "state": 8, "time": 1795444753127309178,
    "figures": {
      "checkpoint_step": 30, "communication_wait_ratio": 0.25, "data_wait_ratio": 0.125,
      "evaluation_accuracy": 0.5, "evaluation_loss": 4.5, "evaluation_step": 30,
      "gradient_norm": "inf", "learning_rate": 0.003, "loss": "nan",
      "model_flops_utilization": 0.75, "payload_sent_bytes": 268960,
      "payload_theory_bytes": 267520, "remaining_duration": 7, "samples_per_second": 61726.5,
      "phases": {"backward": 3, "communication_wait": 4, "data_wait": 1, "forward": 2,
                 "optimizer": 5, "snapshot": 6},
      "skipped_samples": 8, "step": 30, "step_duration": 388812, "targets_per_second": 493810.5,
      "total_steps": 31},
    "bench": "CAE=",
    "sample": {"prompt": "the", "step": 29, "text": " sea"},
    "verdict": {
      "collective_sequence": 25, "decision": 2, "exit_code": 138, "generation": 7, "host": "h1",
      "evidence": [{"detail": "connection lost", "kind": 1, "observer": "coordinator"}],
      "pid": 4711, "rank": 1, "step": 11, "summary": "w1 was lost", "time": 1795444753097742890,
      "worker": "w1"}})");
}

JobEndedRecord Read(const Json& json) {
  const absl::StatusOr<JournalRecord> record =
      RecordFromJson("job_ended", json.dump(), "");
  EXPECT_TRUE(record.ok()) << record.status();
  return record.ok() ? std::get<JobEndedRecord>(*record) : JobEndedRecord();
}

TEST(JsonRecordTest, AnEndIsReadInEveryField) {
  const JobEndedRecord end = Read(EndOf010());
  EXPECT_EQ(end.job_id, "j-1");
  EXPECT_EQ(end.state, v1::JOB_STATE_FAILED);
  EXPECT_EQ(end.exit_code, 138);
  EXPECT_EQ(end.parameters_hash, 9411361179432236200u);
  EXPECT_TRUE(std::isnan(end.figures.loss()));
  EXPECT_TRUE(std::isinf(end.figures.gradient_norm()));
  EXPECT_EQ(end.figures.evaluation_loss(), 4.5);
  EXPECT_EQ(end.figures.evaluation_accuracy(), 0.5);
  EXPECT_EQ(end.figures.step_duration().nanos(), 388812);
  EXPECT_EQ(end.figures.phases().snapshot().nanos(), 6);
  EXPECT_EQ(end.figures.awaited_rank(), -1);
  ASSERT_TRUE(end.sample.has_value());
  EXPECT_EQ(end.sample->text(), " sea");
  ASSERT_TRUE(end.bench.has_value());
  EXPECT_EQ(static_cast<int>(end.bench->transport()), 1);
  ASSERT_TRUE(end.verdict.has_value());
  EXPECT_EQ(end.verdict->rank(), 1);
  EXPECT_EQ(end.verdict->decision(), v1::VERDICT_DECISION_FAIL_JOB);
  EXPECT_EQ(end.verdict->evidence(0).kind(), v1::EVIDENCE_KIND_STREAM_BROKEN);
}

TEST(JsonRecordTest, FiguresOfTheFirstReleaseStillRead) {
  Json json = EndOf010();
  for (const char* key : {"targets_per_second", "model_flops_utilization",
                          "learning_rate", "phases", "payload_theory_bytes",
                          "checkpoint_step", "skipped_samples"}) {
    EXPECT_EQ(json.at("figures").erase(key), 1u) << key;
  }
  const JobEndedRecord end = Read(json);
  EXPECT_EQ(end.figures.step(), 30);
  EXPECT_EQ(end.figures.checkpoint_step(), 0);
}

TEST(JsonRecordTest, GenerationsOfTheFirstReleasesAreNoRollbacks) {
  const absl::StatusOr<JournalRecord> record = RecordFromJson(
      "generation_formed",
      R"({"generation": 3, "job_id": "j-1", "members": [], "resume_step": 4, "time": 5})",
      "");
  ASSERT_TRUE(record.ok()) << record.status();
  const auto& formed = std::get<GenerationFormedRecord>(*record);
  EXPECT_EQ(formed.generation, 3);
  EXPECT_FALSE(formed.is_rollback);
}

TEST(JsonRecordTest, JobsWithoutShardsHaveNone) {
  const absl::StatusOr<JournalRecord> record = RecordFromJson(
      "job_created",
      R"({"id": "j-1", "max_workers": 2, "min_workers": 1, "name": "j", "number": 1,
          "request_id": "", "settle": 300000000, "time": 5, "total_steps": 30})",
      "the spec");
  ASSERT_TRUE(record.ok()) << record.status();
  const auto& created = std::get<JobCreatedRecord>(*record);
  EXPECT_EQ(created.spec, "the spec");
  EXPECT_EQ(created.settle, absl::Milliseconds(300));
  EXPECT_EQ(created.sharding, Sharding());
}

std::string ErrorOf(const std::string& type, const std::string& body) {
  const absl::Status status = RecordFromJson(type, body, "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  return std::string(status.message());
}

TEST(JsonRecordTest, WhatDoesNotReadIsDataLossWithTheReason) {
  EXPECT_THAT(ErrorOf("cancel_requested", "{"), HasSubstr("malformed"));
  EXPECT_THAT(ErrorOf("cancel_requested", "{}"),
              HasSubstr("key 'job_id' not found"));
  EXPECT_THAT(ErrorOf("cancel_requested", "{\"job_id\":7}"),
              HasSubstr("type must be string"));
  EXPECT_THAT(ErrorOf("surprise", "{}"),
              HasSubstr("its type \"surprise\" is unknown"));
  EXPECT_THAT(ErrorOf("a\n", "{}"), HasSubstr("its type \"a\\n\" is unknown"));
  EXPECT_THAT(ErrorOf("cancel_requested", "{\x7f"), HasSubstr("'{\\x7f'"));
  EXPECT_LT(ErrorOf("cancel_requested", "{\"" + std::string(9999, 'x')).size(),
            300u);
}

}  // namespace
}  // namespace ringmaster::coordinator
