#include "server/ctl/render/describe_view.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1000);

class DescribeTest : public ::testing::Test {
 protected:
  // words-1 runs on w0 and w1; w1 was blamed once, and host beta is quarantined.
  DescribeTest() {
    for (const char* name : {"w0", "w1"}) AddWorker(name);
    v1::Job& job = *status_.add_jobs();
    job.set_id("words-1");
    job.set_state(v1::JOB_STATE_RUNNING);
    job.set_generation(7);
    job.mutable_figures()->set_checkpoint_step(100);
    for (int rank = 0; rank < 2; ++rank) {
      v1::Member& member = *job.add_members();
      member.set_rank(rank);
      member.set_worker(absl::StrCat("w", rank));
      member.set_step(120);
      member.set_phase(v1::PHASE_STEP);
    }
    v1::RankFigures& figures = *job.mutable_members(1)->mutable_figures();
    figures.set_steps(20);
    figures.set_sent_bytes(2048);
    v1::Incident& incident = *job.add_incidents();
    incident.set_number(3);
    incident.mutable_verdict()->set_worker("w1");
    incident.mutable_verdict()->set_summary("worker w1 was lost");
    incident.mutable_verdict()->mutable_time()->set_seconds(600);
    v1::Quarantine& quarantine = *status_.add_quarantines();
    quarantine.set_host("beta");
    quarantine.mutable_end_time()->set_seconds(1300);
    quarantine.set_reason("its workers failed three times");
    for (int i = 1; i <= 30; ++i) AddEvent(i, i % 2 == 0 ? "w0" : "w1");
  }

  void AddWorker(const std::string& name) {
    v1::Worker& worker = *status_.add_workers();
    worker.set_name(name);
    worker.set_role(v1::ROLE_WORKER);
    worker.set_state(v1::WORKER_STATE_ASSIGNED);
    worker.set_host("beta");
    worker.set_pid(4711);
    worker.set_data_address("10.0.0.7:29500");
    worker.set_version("1.2.3");
    worker.set_job_id("words-1");
    worker.set_log_file("/var/log/" + name);
    (*worker.mutable_labels())["zone"] = "a";
    worker.set_runs_commands(name == "w1");
    worker.mutable_join_time()->set_seconds(700);
  }

  void AddEvent(int number, const std::string& worker) {
    v1::Event& event = *events_.Add();
    event.set_sequence(number);
    event.set_worker(worker);
    event.set_message(absl::StrCat("number ", number, "."));
  }

  std::string WorkerPage(const std::string& name) const {
    return absl::StrJoin(
        DescriptionLines(DescribeWorker(name, status_, events_), kNow,
                         Style{.width = 200}),
        "\n");
  }
  std::string JobPage() const {
    v1::ExplainJobResponse explanation;
    explanation.set_summary("2 ranks train");
    return absl::StrJoin(
        DescriptionLines(
            DescribeJob(status_.jobs(0), explanation, status_, events_), kNow,
            Style{.width = 200}),
        "\n");
  }

  v1::Status status_;
  google::protobuf::RepeatedPtrField<v1::Event> events_;
};

TEST_F(DescribeTest, AWorkersPageHasAllThatIsKnownOfIt) {
  const std::string page = WorkerPage("w1");
  EXPECT_THAT(
      page,
      AllOf(HasSubstr("w1  worker  ASSIGNED"),
            HasSubstr("host:       beta, pid 4711"),
            HasSubstr("address:    10.0.0.7:29500"),
            HasSubstr("version:    1.2.3"),
            HasSubstr("labels:     zone=a; runs commands"),
            HasSubstr("log file:   /var/log/w1"),
            HasSubstr("joined:     1970-01-01T00:11:40.000+00:00 (5m00s ago)"),
            HasSubstr("job:        words-1 RUNNING, generation 7, rank 1 of 2"),
            HasSubstr("holds:      step 120; the job's last checkpoint is of "
                      "step 100")));
  EXPECT_THAT(
      page, AllOf(HasSubstr("does:       STEP"),
                  HasSubstr("figures:    20 steps"), HasSubstr("2.00KiB sent"),
                  HasSubstr("Interruptions that it was blamed for"),
                  HasSubstr("words-1 incident: worker w1 was lost"),
                  HasSubstr("Its host is quarantined"),
                  HasSubstr("host beta for 5m00s more, by all jobs: its "
                            "workers failed three times")));
}

TEST_F(DescribeTest, OfItsEventsTheNewestAreShown) {
  AddEvent(31, "w1");
  for (int i = 32; i < 60; ++i) AddEvent(i, "w1");
  const std::string page = WorkerPage("w1");
  EXPECT_THAT(page, AllOf(HasSubstr("number 59."), HasSubstr("number 40."),
                          Not(HasSubstr("number 39."))));
  EXPECT_THAT(WorkerPage("w0"),
              AllOf(HasSubstr("number 30."), Not(HasSubstr("number 59."))));
}

TEST_F(DescribeTest, AnotherWorkersIncidentsAreNotItsOwn) {
  EXPECT_THAT(WorkerPage("w0"), Not(HasSubstr("blamed")));
}

TEST_F(DescribeTest, OfOneThatIsGoneItsTracesAreLeft) {
  status_.mutable_workers()->DeleteSubrange(1, 1);
  EXPECT_THAT(WorkerPage("w1"),
              AllOf(HasSubstr("w1  gone: no process of that name"),
                    HasSubstr("words-1 incident: worker w1 was lost"),
                    HasSubstr("number 29."), Not(HasSubstr("host:"))));
}

TEST_F(DescribeTest, AJobsPageHasItsMembersAndInterruptions) {
  status_.mutable_workers()->DeleteSubrange(1, 1);
  const std::string page = JobPage();
  EXPECT_THAT(page, AllOf(HasSubstr("Why it is where it is"),
                          HasSubstr("why:      2 ranks train"),
                          HasSubstr("Members"), HasSubstr("10.0.0.7:29500"),
                          HasSubstr("/var/log/w0"), HasSubstr("w1      gone")));
  EXPECT_THAT(page,
              AllOf(HasSubstr("Interruptions"),
                    HasSubstr("incident: worker w1 was lost"),
                    HasSubstr("interruption 3"), HasSubstr("Quarantined hosts"),
                    HasSubstr("Last events"), HasSubstr("number 30."),
                    Not(HasSubstr("number 10."))));
}

TEST_F(DescribeTest, AQuarantineOfAnotherJobIsNotItsOwn) {
  status_.mutable_quarantines(0)->set_job_id("other-1");
  EXPECT_THAT(JobPage(), Not(HasSubstr("Quarantined hosts")));
}

TEST_F(DescribeTest, TextOfOthersCannotSteerTheTerminal) {
  status_.mutable_workers(1)->set_log_file("/var/\x1b[2J");
  status_.mutable_workers(1)->set_version("\x1b]0;x");
  EXPECT_EQ(WorkerPage("w1").find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace ringmaster::ctl
