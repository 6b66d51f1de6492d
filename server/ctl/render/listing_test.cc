#include "server/ctl/render/listing.h"

#include <string>
#include <string_view>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Message>
Message Parse(std::string_view text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(std::string(text),
                                                            &message));
  return message;
}

const absl::Time kNow = absl::FromUnixSeconds(10'000);

constexpr std::string_view kStatus = R"pb(
  coordinator {
    version: "ringmaster 0.1"
    host: "alpha"
    pid: 7
    start_time { seconds: 9935 }
    last_generation: 3
  }
  workers {
    name: "w-0"
    state: WORKER_STATE_ASSIGNED
    device { kind: DEVICE_KIND_CPU index: 0 }
    host: "alpha"
    pid: 101
    job_id: "mlp-2"
    rank: 0
    step: 12
    phase: PHASE_STEP
    last_beat_age { nanos: 31000000 }
  }
  workers {
    name: "w-1"
    state: WORKER_STATE_IDLE
    host: "beta"
    pid: 102
    rank: -1
    phase: PHASE_IDLE
  }
  jobs {
    id: "mlp-2"
    state: JOB_STATE_RUNNING
    generation: 3
    members { rank: 0 worker: "w-0" }
    figures {
      step: 12
      total_steps: 50
      loss: 3.5
      samples_per_second: 1000
      remaining_duration { seconds: 30 }
    }
    start_time { seconds: 9990 }
  }
  jobs {
    id: "mlp-1"
    state: JOB_STATE_FAILED
    message: "killed"
    start_time { seconds: 9990 }
    end_time { seconds: 9995 }
  }
)pb";

TEST(StatusLinesTest, ShowsCoordinatorWorkersAndJobs) {
  EXPECT_EQ("\n" + absl::StrJoin(StatusLines(Parse<v1::Status>(kStatus), kNow,
                                             {.width = 200}),
                                 "\n"),
            R"(
coordinator on alpha, pid 7, ringmaster 0.1, up 1m05s since 1970-01-01T02:45:35.000+00:00, last generation 3
workers: 2 (1 IDLE, 1 ASSIGNED)

JOB    STATE    GEN  RANKS   STEP   LOSS  SAMPLES/S  TIME  LEFT  MESSAGE
mlp-2  RUNNING    3      1  12/50  3.500       1000   10s   30s
mlp-1  FAILED     0      0      -      -          -  5.0s     -  ended 1970-01-01T02:46:35.000+00:00: killed)");
}

TEST(StatusLinesTest, TellsOfCheckpointsThatFail) {
  v1::Status status = Parse<v1::Status>(kStatus);
  v1::Member& member = *status.mutable_jobs(0)->mutable_members(0);
  member.set_host("alpha");
  member.set_checkpoint_error("after step 10: No space left on device");
  EXPECT_EQ(StatusLines(status, kNow, {.width = 200}).back(),
            "job mlp-2: checkpoints fail: rank 0 (w-0 on alpha) after step 10: "
            "No space left on device");
}

TEST(StatusLinesTest, SaysWhatToDoWhereThereIsNothing) {
  const auto lines = StatusLines({}, kNow, {});
  EXPECT_EQ(lines[1], "workers: none");
  EXPECT_EQ(lines.back(), "no jobs; submit one with: ringctl submit JOB.yaml");
}

TEST(StatusLinesTest, ShowsAnUnusableJournal) {
  v1::Status status;
  status.mutable_coordinator()->set_journal_error("disk full");
  EXPECT_THAT(absl::StrJoin(StatusLines(status, kNow, {.width = 200}), "\n"),
              HasSubstr("error: disk full; no new"));
}

TEST(StatusLinesTest, ShowsAnotherCoordinator) {
  v1::Status status;
  status.mutable_coordinator()->set_other_coordinator("worker a is in 7");
  EXPECT_THAT(absl::StrJoin(StatusLines(status, kNow, {.width = 200}), "\n"),
              HasSubstr("error: worker a is in 7"));
}

TEST(StatusLinesTest, ShowsThatDataIsEncrypted) {
  v1::Status status;
  EXPECT_THAT(absl::StrJoin(StatusLines(status, kNow, {.width = 200}), "\n"),
              Not(HasSubstr("encryption")));
  status.mutable_coordinator()->set_requires_encryption(true);
  EXPECT_THAT(absl::StrJoin(StatusLines(status, kNow, {.width = 200}), "\n"),
              HasSubstr("\ndata encryption: required\n"));
}

TEST(StatusLinesTest, ShowsQuarantinedHosts) {
  const auto status = Parse<v1::Status>(R"pb(
    quarantines {
      host_key: "machine-1"
      host: "beta"
      end_time { seconds: 10065 }
      reason: "3 of 4 incidents within 10m"
    }
  )pb");
  EXPECT_THAT(absl::StrJoin(StatusLines(status, kNow, {.width = 200}), "\n"),
              HasSubstr("quarantined: host beta for 1m05s more: 3 of 4 "
                        "incidents within 10m\n"));
}

TEST(JobLinesTest, ShowsTheCostOfTheLastInterruptionAndGoodput) {
  const auto job = Parse<v1::Job>(R"pb(
    id: "mlp-1"
    state: JOB_STATE_RUNNING
    incidents {
      number: 1
      cost { total { seconds: 9 } }
      is_over: true
    }
    incidents {
      number: 2
      cost { total { seconds: 4 } }
      is_over: true
    }
    goodput {
      training { seconds: 8 }
      total { seconds: 10 }
      ratio: 0.8
      incidents: 2
    }
  )pb");
  const std::string text = absl::StrJoin(JobLines(job, kNow, {}), "\n");
  EXPECT_THAT(text, HasSubstr("recovery: 4.0s; interruption 2\n"));
  EXPECT_THAT(text, HasSubstr("goodput:  80% of the time"));
  EXPECT_THAT(
      absl::StrJoin(JobLines(Parse<v1::Job>("id: 'a'"), kNow, {}), "\n"),
      ::testing::Not(HasSubstr("goodput")));
}

TEST(WorkerLinesTest, ShowsARowForEachWorker) {
  EXPECT_EQ(
      "\n" + absl::StrJoin(WorkerLines(Parse<v1::Status>(kStatus), {}), "\n"),
      R"(
WORKER  STATE     HOST   PID  DEVICE  JOB    RANK  STEP  PHASE  LAST BEAT
w-0     ASSIGNED  alpha  101  cpu:0   mlp-2     0    12  STEP      31.0ms
w-1     IDLE      beta   102  -       -         -     -  IDLE          0s)");
  EXPECT_THAT(WorkerLines({}, {}), ElementsAre(HasSubstr("no workers")));
}

TEST(JobLinesTest, ShowsProgramEndAndVerdict) {
  const auto job = Parse<v1::Job>(R"pb(
    id: "mlp-1"
    state: JOB_STATE_FAILED
    spec {
      workers { min: 1 max: 2 }
      train {
        steps: 50
        global_batch: 256
        data { text { path: "/data" } }
      }
    }
    figures { step: 12 total_steps: 50 loss: 3.5 }
    exit_code: 138
    create_time { seconds: 9940 }
    start_time { seconds: 9950 }
    end_time { seconds: 9995 }
    message: "killed"
    verdict {
      worker: "w-1"
      rank: 1
      summary: "killed"
      decision: VERDICT_DECISION_FAIL_JOB
      exit_code: 138
    }
  )pb");
  const std::string text = absl::StrJoin(JobLines(job, kNow, {}), "\n");
  EXPECT_THAT(text, HasSubstr("mlp-1  FAILED\n"));
  EXPECT_THAT(
      text,
      HasSubstr("program:  train 50 steps of 256 samples, text of /data\n"));
  EXPECT_THAT(text, HasSubstr("workers:  at least 1, at most 2\n"));
  EXPECT_THAT(
      text, HasSubstr("created:  1970-01-01T02:45:40.000+00:00 (1m00s ago)\n"
                      "began:    1970-01-01T02:45:50.000+00:00 (50s ago)\n"
                      "ended:    1970-01-01T02:46:35.000+00:00 (5.0s ago)\n"));
  EXPECT_THAT(text, HasSubstr("exit:     138\n"));
  EXPECT_THAT(text, HasSubstr("culprit:  worker w-1, rank 1\n"));
}

constexpr std::string_view kBenchJob = R"pb(
  id: "bench-3"
  state: JOB_STATE_SUCCEEDED
  spec {
    workers { min: 2 max: 2 }
    bench { sizes: 4096 sizes: 8192 type: BENCH_TYPE_FLOAT32 }
  }
  bench {
    limit_bytes_per_second: 1e9
    rows { bytes: 4096 count: 1024 p50_seconds: 1e-5 p99_seconds: 1e-5 }
  }
  goodput {
    starting { seconds: 3 }
    total { seconds: 3 }
  }
)pb";

TEST(JobLinesTest, ShowsABenchmarksRowsInPlaceOfTraining) {
  const std::string text =
      absl::StrJoin(JobLines(Parse<v1::Job>(kBenchJob), kNow, {}), "\n");
  EXPECT_THAT(text, HasSubstr("\n        4096         1024"));
  EXPECT_THAT(text, HasSubstr("program:  bench, all-reduce of 2 sizes, 4096 to "
                              "8192 bytes"));
  EXPECT_THAT(text, HasSubstr("job bench-3 succeeded: 1 of 2 sizes"));
  for (const char* word : {"loss", "nan", "samples", "goodput"})
    EXPECT_THAT(text, Not(HasSubstr(word)));
}

TEST(JobLinesTest, ACommandHasNoStepsAndNoLoss) {
  const v1::Job job = Parse<v1::Job>(R"pb(
    id: "run-1"
    state: JOB_STATE_SUCCEEDED
    spec {
      workers { min: 1 max: 1 }
      external { command: "python3" command: "train.py" }
    }
    generation: 1
    members { rank: 0 worker: "w-0" step: 1 }
    goodput { total { seconds: 9 } }
    start_time { seconds: 10 }
    end_time { seconds: 13 }
  )pb");
  const std::string text = absl::StrJoin(JobLines(job, kNow, Style()), "\n");
  EXPECT_THAT(text, HasSubstr("program:  external, python3 train.py"));
  EXPECT_THAT(text, HasSubstr("job run-1 succeeded: commands in 3"));
  for (const char* absent : {"loss", "0/0", "of 0", " steps", "goodput"})
    EXPECT_THAT(text, Not(HasSubstr(absent)));
}

TEST(StatusLinesTest, ABenchmarksStepsAreItsSizes) {
  v1::Status status;
  *status.add_jobs() = Parse<v1::Job>(kBenchJob);
  EXPECT_THAT(absl::StrJoin(StatusLines(status, kNow, {}), "\n"),
              HasSubstr(" 1/2 "));
}

TEST(EventLineTest, TellsWhenWhatAndHowBad) {
  const auto event = Parse<v1::Event>(R"pb(
    time { seconds: 3661 nanos: 5000000 }
    severity: EVENT_SEVERITY_WARNING
    type: "worker.lost"
    job_id: "mlp-1"
    message: "w-1 is gone"
  )pb");
  EXPECT_EQ(
      EventLine(event, {}),
      "1970-01-01T01:01:01.005+00:00 WARNING worker.lost mlp-1: w-1 is gone");
  EXPECT_THAT(EventLine(event, {.color = true}),
              HasSubstr("\x1b[33mWARNING\x1b[0m"));
}

}  // namespace
}  // namespace ringmaster::ctl
