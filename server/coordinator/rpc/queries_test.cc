#include "server/coordinator/rpc/queries.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

class QueriesTest : public ::testing::Test {
 protected:
  QueriesTest() {
    for (int number = 1; number <= 5; ++number) {
      Job job;
      job.number = number;
      job.name = "digits";
      job.id = absl::StrCat("digits-", number);
      job.stage = stage::Ended{v1::JOB_STATE_SUCCEEDED};
      state_.jobs.emplace(number, job);
    }
    Job& newest = state_.jobs.at(5);
    newest.generation = 9;
    for (int rank = 0; rank < 5; ++rank) {
      Member member;
      member.identity.rank = rank;
      member.identity.worker = absl::StrCat("w", rank);
      newest.members.push_back(member);
    }
  }

  State state_;
  EventLog events_;
  const CoordinatorIdentity self_ = {.incarnation = 7};
};

TEST_F(QueriesTest, FindsJobsByIdAndByName) {
  v1::GetJobRequest request;
  request.set_job("digits-2");
  EXPECT_EQ(GetJob(state_, request)->job().id(), "digits-2");
  request.set_job("digits");
  EXPECT_EQ(GetJob(state_, request)->job().id(), "digits-5");
  request.set_job("letters");
  const absl::Status status = GetJob(state_, request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), reason::kJobNotFound);
}

TEST_F(QueriesTest, PagesOfTheStatusHaveWorkersAndThenJobs) {
  for (int i = 0; i < 3; ++i) {
    const std::string name = absl::StrCat("w", i);
    state_.workers[name].name = name;
  }
  const StatusSource source = {.state = state_, .self = self_};
  v1::GetStatusRequest request;
  EXPECT_EQ(GetStatus(source, request)->status().jobs_size(), 5);
  request.set_page_size(2);
  std::string seen;
  do {
    const auto response = GetStatus(source, request);
    ASSERT_TRUE(response.ok()) << response.status();
    const v1::Status& status = response->status();
    EXPECT_EQ(status.coordinator().incarnation(), 7u);
    for (const v1::Worker& worker : status.workers())
      absl::StrAppend(&seen, worker.name(), " ");
    for (const v1::Job& job : status.jobs())
      absl::StrAppend(&seen, job.id(), " ");
    absl::StrAppend(&seen, "| ");
    request.set_page_token(response->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(seen,
            "w0 w1 | w2 digits-5 | digits-4 digits-3 | digits-2 digits-1 | ");
  request.mutable_filter()->add_jobs("digits-4");
  EXPECT_EQ(GetStatus(source, request)->status().jobs(0).id(), "digits-4");
  for (const char* token : {"digits", "job x", "7"}) {
    request.set_page_token(token);
    EXPECT_THAT(GetStatus(source, request).status().message(),
                HasSubstr("page_token must be empty or"));
  }
  request.clear_page_token();
  request.set_page_size(-1);
  EXPECT_THAT(GetStatus(source, request).status().message(),
              HasSubstr("page_size must not be negative, got -1"));
}

TEST_F(QueriesTest, AJobShowsTheWorkersThatItHasHad) {
  state_.jobs.at(5).memberships.push_back({.generation = 8,
                                           .start_time = absl::UnixEpoch(),
                                           .first_step = 3,
                                           .workers = {"w1", "w0"}});
  v1::GetJobRequest request;
  request.set_job("digits-5");
  const v1::Job job = GetJob(state_, request)->job();
  ASSERT_EQ(job.memberships_size(), 1);
  EXPECT_EQ(job.memberships(0).workers(0), "w1");
  EXPECT_FALSE(job.memberships(0).has_end_time());
}

TEST_F(QueriesTest, PagesOfJobsGoFromNewToOld) {
  v1::ListJobsRequest request;
  request.set_page_size(2);
  std::string seen;
  int pages = 0;
  do {
    const auto response = ListJobs(state_, request);
    ASSERT_TRUE(response.ok()) << response.status();
    for (const v1::Job& job : response->jobs()) seen += job.id() + " ";
    request.set_page_token(response->next_page_token());
    // A job that is submitted in between does not shift the pages.
    state_.jobs[100 + pages].id = "new";
  } while (++pages < 10 && !request.page_token().empty());
  EXPECT_EQ(seen, "digits-5 digits-4 digits-3 digits-2 digits-1 ");
  EXPECT_EQ(pages, 3);
}

TEST_F(QueriesTest, LargeJobsEndAPageEarly) {
  for (auto& [number, job] : state_.jobs) {
    job.message = std::string(kMaxPageBytes / 2, 'x');
  }
  const auto response = ListJobs(state_, {});
  ASSERT_TRUE(response.ok());
  EXPECT_LT(response->jobs_size(), 3);
  EXPECT_GE(response->jobs_size(), 1);
  EXPECT_NE(response->next_page_token(), "");
}

TEST_F(QueriesTest, BadPagesAreRefused) {
  v1::ListJobsRequest request;
  request.set_page_size(-1);
  EXPECT_EQ(ReasonOf(ListJobs(state_, request).status()),
            reason::kInvalidRequest);
  request.set_page_size(0);
  request.set_page_token("later");
  EXPECT_EQ(ReasonOf(ListJobs(state_, request).status()),
            reason::kInvalidRequest);
  v1::ListEventsRequest events;
  events.set_page_size(-1);
  EXPECT_EQ(ReasonOf(ListEvents(state_, events_, self_, events).status()),
            reason::kInvalidRequest);
  v1::ListMembersRequest members;
  members.set_page_token("-4");
  EXPECT_EQ(ReasonOf(ListMembers(state_, members).status()),
            reason::kInvalidRequest);
}

TEST_F(QueriesTest, EventsOfAJobAreFoundByItsName) {
  v1::Event event;
  event.set_job_id("digits-5");
  events_.Append(event);
  event.set_job_id("gone-1");
  events_.Append(event);
  v1::ListEventsRequest request;
  request.set_job("digits");
  EXPECT_EQ(ListEvents(state_, events_, self_, request)->events_size(), 1);
  request.set_job("gone-1");
  EXPECT_EQ(ListEvents(state_, events_, self_, request)->events_size(), 1);
  request.clear_job();
  EXPECT_EQ(ListEvents(state_, events_, self_, request)->events_size(), 2);
  EXPECT_EQ(
      ListEvents(state_, events_, self_, request)->coordinator_incarnation(),
      self_.incarnation);
  request.set_after_sequence(1);
  EXPECT_EQ(ListEvents(state_, events_, self_, request)->events_size(), 1);
}

TEST_F(QueriesTest, MembersComePageByPage) {
  v1::ListMembersRequest request;
  request.set_job_id("digits-5");
  request.set_generation(9);
  request.set_page_size(3);
  auto response = ListMembers(state_, request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->generation(), 9);
  ASSERT_EQ(response->members_size(), 3);
  EXPECT_EQ(response->members(2).worker(), "w2");
  EXPECT_EQ(response->members(2).mesh().data_size(), 5);
  request.set_page_token(response->next_page_token());
  response = ListMembers(state_, request);
  ASSERT_EQ(response->members_size(), 2);
  EXPECT_EQ(response->members(0).worker(), "w3");
  EXPECT_EQ(response->next_page_token(), "");
  for (const char* const token : {"99", "9223372036854775807"}) {
    request.set_page_token(token);
    response = ListMembers(state_, request);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->members_size(), 0);
    EXPECT_EQ(response->next_page_token(), "") << token;
  }
}

TEST_F(QueriesTest, MembersOfAnOldGenerationAreRefused) {
  v1::ListMembersRequest request;
  request.set_job_id("digits-5");
  request.set_generation(8);
  const absl::Status status = ListMembers(state_, request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(status), reason::kStaleGeneration);
  request.set_generation(0);
  EXPECT_TRUE(ListMembers(state_, request).ok());
  request.set_job_id("none");
  EXPECT_EQ(ReasonOf(ListMembers(state_, request).status()),
            reason::kJobNotFound);
}

v1::SubmitJobRequest GoodSubmit() {
  v1::SubmitJobRequest request;
  request.mutable_spec()->set_name("digits");
  v1::TrainProgram& train = *request.mutable_spec()->mutable_train();
  train.mutable_model()->mutable_mlp();
  train.mutable_data()->mutable_synthetic();
  train.set_steps(12);
  request.set_request_id("r1");
  return request;
}

TEST_F(QueriesTest, AJobIsExplained) {
  Job& job = state_.jobs.at(5);
  job.stage = stage::Gathering{};
  job.min_workers = 7;
  state_.active_jobs = {5};
  Worker& worker = state_.workers["d"];
  worker.name = "d";
  worker.host = "h4";
  worker.session = 1;
  worker.state = v1::WORKER_STATE_DRAINING;
  worker.phase = v1::PHASE_IDLE;
  job.incidents.emplace_back().set_number(3);
  v1::ExplainJobRequest request;
  request.set_job("digits");
  const auto response =
      ExplainJob(state_, Config(), MonotonicTime() + absl::Seconds(2),
                 absl::ZeroDuration(), request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->job_id(), "digits-5");
  EXPECT_EQ(response->state(), v1::JOB_STATE_GATHERING);
  EXPECT_THAT(response->summary(), HasSubstr("waits for workers: 5 of at "
                                             "least 7"));
  EXPECT_EQ(response->reasons_size(), 1);
  EXPECT_EQ(response->what_unblocks(), "2 more workers in the pool");
  ASSERT_EQ(response->blocking_workers_size(), 1);
  const v1::BlockingWorker& blocking = response->blocking_workers(0);
  EXPECT_EQ(blocking.worker(), "d");
  EXPECT_EQ(blocking.rank(), -1);
  EXPECT_EQ(blocking.host(), "h4");
  EXPECT_EQ(blocking.last_heard_age().seconds(), 2);
  EXPECT_EQ(blocking.phase(), v1::PHASE_IDLE);
  EXPECT_EQ(blocking.reason(), "is draining");
  EXPECT_EQ(response->last_incident().number(), 3);
  EXPECT_EQ(response->goodput().incidents(), 3);
  request.set_job("digit");
  const absl::Status unknown = ExplainJob(state_, Config(), MonotonicTime(),
                                          absl::ZeroDuration(), request)
                                   .status();
  EXPECT_EQ(unknown.message(), "no job has the id or name digit");
  EXPECT_EQ(ReasonOf(unknown), reason::kJobNotFound);
}

TEST_F(QueriesTest, SaysWhyThereIsNoFlightRecord) {
  Job job;
  job.id = "digits-5";
  job.incidents.emplace_back().set_number(2);
  FlightRecords records;
  v1::FlightRecord record;
  record.set_job_id("digits-5");
  record.set_incident(1);
  records.Keep(record);
  EXPECT_EQ(KeptFlight(job, 1, records)->incident(), 1);
  const absl::Status none = KeptFlight(job, 2, records).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(none), reason::kInvalidRequest);
  EXPECT_THAT(std::string(none.message()),
              HasSubstr("digits-5 has no flight record of incident 2"));
  EXPECT_THAT(std::string(KeptFlight(job, 3, records).status().message()),
              HasSubstr("has had 2 incidents only"));
  v1::GetFlightRecordRequest request;
  EXPECT_TRUE(CheckFlight(request).ok());
  request.set_incident(-1);
  EXPECT_EQ(ReasonOf(CheckFlight(request)), reason::kInvalidRequest);
}

TEST_F(QueriesTest, SubmitIsParsedWithDefaults) {
  const auto submit = ParseSubmit(GoodSubmit());
  ASSERT_TRUE(submit.ok()) << submit.status();
  EXPECT_EQ(submit->name, "digits");
  EXPECT_EQ(submit->min_workers, 1);
  EXPECT_EQ(submit->max_workers, 1);
  EXPECT_EQ(submit->settle, absl::Seconds(1));
  EXPECT_EQ(submit->total_steps, 12);
  EXPECT_EQ(submit->request_id, "r1");
  v1::JobSpec spec;
  ASSERT_TRUE(spec.ParseFromString(submit->spec));
  EXPECT_EQ(spec.train().global_batch(), 256);
}

TEST_F(QueriesTest, BadSubmitIsRefused) {
  v1::SubmitJobRequest request = GoodSubmit();
  request.set_request_id(std::string(200, 'r'));
  EXPECT_EQ(ReasonOf(ParseSubmit(request).status()), reason::kInvalidRequest);
  request = GoodSubmit();
  request.mutable_spec()->mutable_train()->set_steps(0);
  EXPECT_EQ(ReasonOf(ParseSubmit(request).status()), reason::kInvalidJobSpec);
}

TEST_F(QueriesTest, TraceOfABackwardsRangeIsRefused) {
  v1::GetTraceRequest request;
  EXPECT_TRUE(CheckTrace(request).ok());
  request.set_first_step(5);
  EXPECT_TRUE(CheckTrace(request).ok());
  request.set_last_step(4);
  EXPECT_THAT(std::string(CheckTrace(request).message()),
              HasSubstr("last_step must be 0 or at least first_step (5)"));
  request.set_first_step(-1);
  EXPECT_EQ(ReasonOf(CheckTrace(request)), reason::kInvalidRequest);
}

}  // namespace
}  // namespace ringmaster::coordinator
