#include "server/coordinator/rpc/status_filter.h"

#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

class StatusFilterTest : public ::testing::Test {
 protected:
  StatusFilterTest() {
    Job& job = state_.jobs[1];
    job.number = 1;
    job.id = "digits-1";
    job.name = "digits";
    job.stage = stage::Running{};
    job.queue = "vision";
    job.owner = "alice";
    state_.active_jobs.insert(1);
    Worker& worker = state_.workers["w0"];
    worker.name = "w0";
    worker.host = "h0";
    worker.state = v1::WORKER_STATE_ASSIGNED;
    worker.job_id = job.id;
    Worker& idle = state_.workers["w1"];
    idle.name = "w1";
    idle.host = "h0";
    idle.state = v1::WORKER_STATE_IDLE;
  }

  bool HasJob() const {
    return StatusFilter(filter_).Matches(state_.jobs.at(1));
  }
  bool HasWorker(const char* name) const {
    return StatusFilter(filter_).Matches(state_, state_.workers.at(name));
  }

  State state_;
  v1::StatusFilter filter_;
};

TEST_F(StatusFilterTest, AnEmptyOneMatchesAll) {
  EXPECT_TRUE(StatusFilter(filter_).MatchesAll());
  EXPECT_TRUE(HasJob());
  EXPECT_TRUE(HasWorker("w0"));
  EXPECT_TRUE(HasWorker("w1"));
}

TEST_F(StatusFilterTest, JobsAreFoundByIdAndByNameWithTheirWorkers) {
  for (const char* job : {"digits", "digits-1"}) {
    filter_.clear_jobs();
    filter_.add_jobs("letters");
    filter_.add_jobs(job);
    EXPECT_TRUE(HasJob());
    EXPECT_TRUE(HasWorker("w0"));
    EXPECT_FALSE(HasWorker("w1"));
  }
  filter_.clear_jobs();
  filter_.add_jobs("letters");
  EXPECT_FALSE(HasJob());
  EXPECT_FALSE(HasWorker("w0"));
}

TEST_F(StatusFilterTest, EachFieldIsACondition) {
  filter_.add_job_states(v1::JOB_STATE_RUNNING);
  filter_.add_queues("vision");
  filter_.add_owners("alice");
  EXPECT_TRUE(HasJob());
  EXPECT_TRUE(HasWorker("w0"));
  filter_.set_owners(0, "bob");
  EXPECT_FALSE(HasJob());
  filter_.set_owners(0, "alice");
  filter_.set_queues(0, "speech");
  EXPECT_FALSE(HasJob());
  filter_.set_queues(0, "vision");
  filter_.set_job_states(0, v1::JOB_STATE_QUEUED);
  EXPECT_FALSE(HasJob());
  EXPECT_FALSE(HasWorker("w0"));
}

TEST_F(StatusFilterTest, WorkersAreFoundByHostAndState) {
  filter_.add_hosts("h0");
  EXPECT_TRUE(HasWorker("w0"));
  filter_.add_worker_states(v1::WORKER_STATE_IDLE);
  EXPECT_FALSE(HasWorker("w0"));
  EXPECT_TRUE(HasWorker("w1"));
  EXPECT_TRUE(HasJob());
  filter_.set_hosts(0, "h1");
  EXPECT_FALSE(HasWorker("w1"));
}

}  // namespace
}  // namespace ringmaster::coordinator
