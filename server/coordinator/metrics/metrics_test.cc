#include <google/protobuf/text_format.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/metrics/metric_page.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/testing/promtool.h"
#include "common/protocol/proto_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/coordinator/core/state/state.h"
#include "server/coordinator/core/state/types.h"
#include "server/coordinator/metrics/incident_tally.h"
#include "server/coordinator/metrics/status_metrics.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A running job of two workers and a server, and one that has ended.
constexpr char kStatus[] = R"pb(
  time { seconds: 1000 }
  workers {
    name: "w0"
    role: ROLE_WORKER
    state: WORKER_STATE_ASSIGNED
    last_beat_age { nanos: 250000000 }
    certificate_expire_time { seconds: 2000 }
  }
  workers { name: "w1" role: ROLE_WORKER state: WORKER_STATE_ASSIGNED }
  workers {
    name: "w2"
    role: ROLE_WORKER
    state: WORKER_STATE_IDLE
    cordon { target: "w2" }
  }
  workers {
    name: "s0"
    role: ROLE_PARAMETER_SERVER
    state: WORKER_STATE_ASSIGNED
  }
  quarantines { host: "node-9" }
  quarantines { host: "node-8" job_id: "gpt-2" }
  jobs {
    id: "gpt-2"
    state: JOB_STATE_RUNNING
    generation: 3
    spec {
      name: "gpt"
      workers { min: 1 max: 4 }
      train { parameter_server { servers: 1 } }
    }
    members {
      rank: 0
      worker: "w0"
      role: ROLE_WORKER
      step: 41
      figures { sent_bytes: 10 peak_resident_bytes: 4096 }
    }
    members { rank: 1 worker: "w1" role: ROLE_WORKER step: 42 }
    members {
      rank: 2
      worker: "s0"
      role: ROLE_PARAMETER_SERVER
      figures { staleness: [ 7, 2, 1 ] }
    }
    figures {
      step: 41
      total_steps: 100
      loss: 2.5
      samples_per_second: 512
      step_duration { nanos: 62500000 }
      checkpoint_step: 40
      evaluation_loss: 2.75
      evaluation_top5_accuracy: 0.75
      evaluation_macro_f1: 0.5
    }
    goodput {
      waiting { seconds: 2 }
      training { seconds: 90 }
      ratio: 0.9
      incidents: 3
    }
    straggler {
      member { rank: 1 worker: "w1" }
      wait_ratio: 0.25
    }
  }
  jobs {
    id: "mlp-1"
    state: JOB_STATE_FAILED
    spec {
      name: "mlp"
      bench {}
    }
    end_time { seconds: 900 }
  })pb";

v1::Status Parse(const std::string& text) {
  v1::Status status;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &status));
  return status;
}

std::string TextOf(const v1::Status& status) {
  MetricPage page;
  AddStatusMetrics(status, page);
  return page.Text();
}

TEST(StatusMetrics, TellOfPoolAndRuns) {
  const std::string text = TextOf(Parse(kStatus));
  for (
      const char* line :
      {R"(ringmaster_workers{role="WORKER",state="ASSIGNED"} 2)",
       R"(ringmaster_workers{role="WORKER",state="IDLE"} 1)",
       R"(ringmaster_workers{role="WORKER",state="DETACHED"} 0)",
       R"(ringmaster_workers{role="PARAMETER_SERVER",state="ASSIGNED"} 1)",
       R"(ringmaster_heartbeat_age_seconds{worker="w0"} 0.25)",
       R"(ringmaster_member_certificate_expiry_timestamp_seconds{worker="w0"} 2000)",
       "ringmaster_quarantined_hosts 1",
       "ringmaster_cordoned_workers 1",
       R"(ringmaster_jobs{state="RUNNING"} 1)",
       R"(ringmaster_jobs{state="QUEUED"} 0)",
       "ringmaster_workers_wanted 4",
       R"(ringmaster_run_info{run="gpt-2",name="gpt",mode="parameter_server"} 1)",
       R"(ringmaster_run_state{run="gpt-2",state="RUNNING"} 1)",
       R"(ringmaster_run_state{run="gpt-2",state="HALTING"} 0)",
       R"(ringmaster_world_size{run="gpt-2"} 2)",
       R"(ringmaster_world_size_max{run="gpt-2"} 4)",
       R"(ringmaster_generation{run="gpt-2"} 3)",
       R"(ringmaster_step{run="gpt-2"} 41)",
       R"(ringmaster_loss{run="gpt-2"} 2.5)",
       R"(ringmaster_evaluation_loss{run="gpt-2"} 2.75)",
       R"(ringmaster_evaluation_top5_accuracy_ratio{run="gpt-2"} 0.75)",
       R"(ringmaster_evaluation_macro_f1_ratio{run="gpt-2"} 0.5)",
       R"(ringmaster_step_duration_seconds{run="gpt-2"} 0.0625)",
       R"(ringmaster_run_time_seconds{run="gpt-2",category="training"} 90)",
       R"(ringmaster_goodput_ratio{run="gpt-2"} 0.9)",
       R"(ringmaster_interruptions_total{run="gpt-2"} 3)",
       R"(ringmaster_member_step{run="gpt-2",rank="1",worker="w1"} 42)",
       R"(ringmaster_member_sent_bytes_total{run="gpt-2",rank="0",worker="w0"} 10)",
       R"(ringmaster_straggler_wait_ratio{run="gpt-2",rank="1",worker="w1"} 0.25)",
       R"(ringmaster_staleness_steps_bucket{run="gpt-2",le="1"} 9)",
       R"(ringmaster_staleness_steps_bucket{run="gpt-2",le="+Inf"} 10)",
       R"(ringmaster_staleness_steps_sum{run="gpt-2"} 4)",
       R"(ringmaster_run_state{run="mlp-1",state="FAILED"} 1)",
       R"(ringmaster_run_info{run="mlp-1",name="mlp",mode="bench"} 1)",
       "ringmaster_coordinator_journal_ok 1"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line + "\n"));
  }
  // A job has no figures for what it does not do.
  EXPECT_THAT(text, Not(HasSubstr(R"(ringmaster_step{run="mlp-1"})")));
  EXPECT_THAT(text, Not(HasSubstr("ringmaster_evaluation_accuracy_ratio")));
}

// The value of ringmaster_workers_wanted beside the job of kStatus that runs,
// which wants 4.
std::string WantedBeside(const std::string& job) {
  v1::Status status = Parse(kStatus);
  *status.add_jobs() = Parse("jobs {" + job + "}").jobs(0);
  const std::string text = TextOf(status);
  const std::string name = "\nringmaster_workers_wanted ";
  const size_t value = text.find(name) + name.size();
  return text.substr(value, text.find('\n', value) - value);
}

TEST(StatusMetrics, SumTheWorkersThatJobsWant) {
  const std::string size = "spec { workers { min: 2 max: 8 } }";
  const std::string members =
      "members { role: ROLE_WORKER } members { role: ROLE_WORKER }"
      "members { role: ROLE_WORKER } members { role: ROLE_PARAMETER_SERVER }";
  // As many as it takes at most, however few it has.
  for (const char* const state :
       {"QUEUED", "GATHERING", "PREPARING", "RUNNING", "HALTING"}) {
    EXPECT_EQ(
        WantedBeside(absl::StrCat(size, members, "state: JOB_STATE_", state)),
        "12")
        << state;
  }
  // Those that it still has, and no more.
  EXPECT_EQ(WantedBeside(size + members + "state: JOB_STATE_STOPPING"), "7");
  EXPECT_EQ(
      WantedBeside(size + members + "state: JOB_STATE_RUNNING suspended: true"),
      "7");
  EXPECT_EQ(WantedBeside(size + "state: JOB_STATE_QUEUED suspended: true"),
            "4");
  for (const char* const state : {"SUCCEEDED", "FAILED", "CANCELLED"}) {
    EXPECT_EQ(WantedBeside(absl::StrCat(size, "state: JOB_STATE_", state,
                                        " end_time { seconds: 990 }")),
              "4")
        << state;
  }
}

TEST(StatusMetrics, ForgetRunsThatEndedLongAgo) {
  v1::Status status = Parse(kStatus);
  *status.mutable_time() = ToProto(FromProto(status.jobs(1).end_time()) +
                                   kEndedRunShown + absl::Seconds(1));
  EXPECT_THAT(TextOf(status), Not(HasSubstr("mlp-1")));
  EXPECT_THAT(TextOf(status), HasSubstr("gpt-2"));
}

TEST(StatusMetrics, TellOfAJournalThatFails) {
  v1::Status status = Parse(kStatus);
  status.mutable_coordinator()->set_journal_error("disk full");
  EXPECT_THAT(TextOf(status),
              HasSubstr("\nringmaster_coordinator_journal_ok 0\n"));
}

TEST(StatusMetrics, OfNothingAreValid) {
  const std::string text = TextOf(v1::Status());
  EXPECT_THAT(text, HasSubstr(R"(ringmaster_jobs{state="RUNNING"} 0)"));
  EXPECT_THAT(text, HasSubstr("\nringmaster_workers_wanted 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("run=")));
}

std::string TextOf(const IncidentTally& tally) {
  MetricPage page;
  tally.AddMetrics(page);
  return page.Text();
}

// A job with one incident that is over, and one that is not.
State StateWithIncidents() {
  State state;
  Job& job = state.jobs[2];
  job.number = 2;
  v1::Incident& over = job.incidents.emplace_back();
  over.set_number(2);
  over.set_is_over(true);
  over.set_lost_steps(4);
  over.mutable_verdict()->add_evidence()->set_kind(
      v1::EVIDENCE_KIND_STREAM_BROKEN);
  *over.mutable_cost()->mutable_detect() = ToProto(absl::Milliseconds(20));
  *over.mutable_cost()->mutable_first_step() = ToProto(absl::Milliseconds(280));
  *over.mutable_cost()->mutable_total() = ToProto(absl::Milliseconds(300));
  v1::Incident& open = job.incidents.emplace_back();
  open.set_number(3);
  open.mutable_verdict()->add_evidence()->set_kind(
      v1::EVIDENCE_KIND_NO_PROGRESS);
  return state;
}

TEST(IncidentTally, CountsEachIncidentOnceItIsOver) {
  IncidentTally tally;
  State state = StateWithIncidents();
  tally.Update(state);
  tally.Update(state);
  std::string text = TextOf(tally);
  EXPECT_THAT(text,
              HasSubstr("ringmaster_faults_total{reason=\"STREAM_BROKEN\"} 1"));
  EXPECT_THAT(text, HasSubstr("ringmaster_lost_steps_total 4"));
  EXPECT_THAT(text,
              HasSubstr("ringmaster_recovery_duration_seconds_bucket{phase="
                        "\"total\",le=\"0.25\"} 0"));
  EXPECT_THAT(text, HasSubstr("ringmaster_recovery_duration_seconds_bucket{"
                              "phase=\"total\",le=\"0.5\"} 1"));
  EXPECT_THAT(text, HasSubstr("ringmaster_recovery_duration_seconds_sum{phase="
                              "\"detect\"} 0.02"));
  EXPECT_THAT(text, Not(HasSubstr("phase=\"halt\"")));

  state.jobs[2].incidents.back().set_is_over(true);
  tally.Update(state);
  text = TextOf(tally);
  EXPECT_THAT(text,
              HasSubstr("ringmaster_faults_total{reason=\"NO_PROGRESS\"} 1"));
  EXPECT_THAT(text,
              HasSubstr("ringmaster_faults_total{reason=\"STREAM_BROKEN\"} 1"));
}

TEST(IncidentTally, CountsLostStepsOfWhatWasWantedAndNoFault) {
  IncidentTally tally;
  State state = StateWithIncidents();
  state.jobs[2].incidents.front().set_is_wanted(true);
  tally.Update(state);
  EXPECT_THAT(TextOf(tally), Not(HasSubstr("ringmaster_faults_total")));
  EXPECT_THAT(TextOf(tally), HasSubstr("ringmaster_lost_steps_total 4"));
}

TEST(IncidentTally, ForgetsAJobThatTheStateForgot) {
  IncidentTally tally;
  State state = StateWithIncidents();
  tally.Update(state);
  tally.Update(State());
  // The number is another job's now.
  tally.Update(state);
  EXPECT_THAT(TextOf(tally),
              HasSubstr("ringmaster_faults_total{reason=\"STREAM_BROKEN\"} 2"));
}

TEST(Metrics, PassPromtool) {
  MetricPage page;
  AddStatusMetrics(Parse(kStatus), page);
  IncidentTally tally;
  tally.Update(StateWithIncidents());
  tally.AddMetrics(page);
  AddProcessMetrics("coordinator", page);
  ExpectPassesPromtool(page);
}

}  // namespace
}  // namespace ringmaster::coordinator
