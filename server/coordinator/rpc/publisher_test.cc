#include "server/coordinator/rpc/publisher.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;

template <typename Message>
class FakeWatcher final : public Watcher<Message> {
 public:
  void Offer(std::shared_ptr<const Message> message) override {
    offered.push_back(*message);
  }
  void End(const absl::Status& status) override { ends.push_back(status); }
  bool has_waiting() const override { return waits; }
  bool is_gone() const override { return gone; }

  std::vector<Message> offered;
  std::vector<absl::Status> ends;
  bool waits = false;
  bool gone = false;
};

class PublisherTest : public ::testing::Test {
 protected:
  PublisherTest() {
    Job job;
    job.id = "digits-1";
    job.name = "digits";
    job.number = 1;
    job.stage = stage::Running{};
    job.revision = 5;
    state_.jobs.emplace(1, job);
    state_.revision = 5;
  }

  std::shared_ptr<FakeWatcher<v1::WatchStatusResponse>> WatchStatus(
      const v1::WatchStatusRequest& request = {}) {
    auto watcher = std::make_shared<FakeWatcher<v1::WatchStatusResponse>>();
    publisher_.AddStatusWatcher(watcher, request, Source());
    return watcher;
  }
  std::shared_ptr<FakeWatcher<v1::WatchJobResponse>> WatchJob() {
    auto watcher = std::make_shared<FakeWatcher<v1::WatchJobResponse>>();
    publisher_.AddJobWatcher(watcher, state_, state_.jobs.at(1));
    return watcher;
  }
  void ChangeJob(const Stage& next) {
    state_.jobs.at(1).stage = next;
    state_.jobs.at(1).revision = ++state_.revision;
  }
  void Publish() { publisher_.Publish(Source()); }
  StatusSource Source() const {
    return {.state = state_,
            .self = self_,
            .now = now_,
            .time = time_,
            .journal_wait = journal_wait_};
  }

  State state_;
  CoordinatorIdentity self_;
  MonotonicTime now_ = MonotonicTime::FromNanos(1'000'000'000);
  absl::Time time_ = absl::UnixEpoch();
  absl::Duration journal_wait_;
  Publisher publisher_;
};

TEST_F(PublisherTest, OffersWhatThereIsAtOnce) {
  const auto watcher = WatchStatus();
  ASSERT_EQ(watcher->offered.size(), 1u);
  EXPECT_EQ(watcher->offered[0].status().revision(), 5);
  EXPECT_EQ(watcher->offered[0].status().jobs(0).id(), "digits-1");
}

TEST_F(PublisherTest, EachWatcherSeesWhatItAskedFor) {
  v1::WatchStatusRequest request;
  request.mutable_filter()->add_jobs("letters");
  const auto others = WatchStatus(request);
  request.mutable_filter()->set_jobs(0, "digits");
  request.set_only_changes(true);
  const auto changes = WatchStatus(request);
  const auto all = WatchStatus();
  EXPECT_EQ(others->offered[0].status().jobs_size(), 0);
  EXPECT_EQ(changes->offered[0].status().jobs_size(), 1);
  // Something else has changed.
  ++state_.revision;
  now_ += kPublishInterval;
  Publish();
  EXPECT_EQ(others->offered.size(), 2u);
  EXPECT_EQ(changes->offered.size(), 1u);
  EXPECT_EQ(all->offered.size(), 2u);
  ChangeJob(stage::Stopping{});
  now_ += kPublishInterval;
  Publish();
  ASSERT_EQ(changes->offered.size(), 2u);
  EXPECT_TRUE(changes->offered[1].is_change());
  EXPECT_EQ(changes->offered[1].status().jobs(0).state(),
            v1::JOB_STATE_STOPPING);
}

TEST_F(PublisherTest, TellsOnceOfADiskThatHangsAndOnceThatItWorks) {
  const auto watcher = WatchStatus();
  for (const int seconds : {1, 2, 3, 0, 0}) {
    now_ += absl::Seconds(1);
    journal_wait_ = absl::Seconds(seconds);
    Publish();
  }
  ASSERT_EQ(watcher->offered.size(), 3u);
  EXPECT_NE(watcher->offered[1].status().coordinator().journal_error(), "");
  EXPECT_EQ(watcher->offered[2].status().coordinator().journal_error(), "");
}

TEST_F(PublisherTest, HoldsTheNewsOfADiskBackLikeAnyOther) {
  const auto watcher = WatchStatus();
  journal_wait_ = absl::Seconds(2);
  Publish();
  EXPECT_EQ(watcher->offered.size(), 1u);
  EXPECT_EQ(publisher_.NextDeadline(), now_ + kPublishInterval);
  now_ += kPublishInterval;
  Publish();
  ASSERT_EQ(watcher->offered.size(), 2u);
  EXPECT_NE(watcher->offered[1].status().coordinator().journal_error(), "");
}

TEST_F(PublisherTest, HoldsChangesBackToTenASecondAndGivesTheNewest) {
  const auto watcher = WatchStatus();
  for (int i = 0; i < 50; ++i) {
    ++state_.revision;
    Publish();
  }
  EXPECT_EQ(watcher->offered.size(), 1u);
  EXPECT_EQ(publisher_.NextDeadline(), now_ + kPublishInterval);
  now_ += kPublishInterval;
  Publish();
  ASSERT_EQ(watcher->offered.size(), 2u);
  EXPECT_EQ(watcher->offered[1].status().revision(), 55);
  EXPECT_EQ(publisher_.NextDeadline(), MonotonicTime::InfiniteFuture());
}

TEST_F(PublisherTest, SaysNothingWithoutAChange) {
  const auto watcher = WatchStatus();
  now_ += absl::Seconds(10);
  Publish();
  EXPECT_EQ(watcher->offered.size(), 1u);
  EXPECT_EQ(publisher_.NextDeadline(), MonotonicTime::InfiniteFuture());
}

TEST_F(PublisherTest, JobWatcherHearsOnlyOfItsJobAndEndsWithIt) {
  const auto watcher = WatchJob();
  ASSERT_EQ(watcher->offered.size(), 1u);
  ++state_.revision;  // something else
  now_ += kPublishInterval;
  Publish();
  EXPECT_EQ(watcher->offered.size(), 1u);
  ChangeJob(stage::Ended{v1::JOB_STATE_SUCCEEDED});
  now_ += kPublishInterval;
  Publish();
  ASSERT_EQ(watcher->offered.size(), 2u);
  EXPECT_EQ(watcher->offered[1].job().state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(watcher->offered[1].revision(), 7);
  EXPECT_THAT(watcher->ends, ElementsAre(absl::OkStatus()));
  EXPECT_EQ(publisher_.watcher_count(), 0u);
}

TEST_F(PublisherTest, WatchOfAnEndedJobShowsItAndEnds) {
  ChangeJob(stage::Ended{v1::JOB_STATE_FAILED});
  const auto watcher = WatchJob();
  ASSERT_EQ(watcher->offered.size(), 1u);
  EXPECT_THAT(watcher->ends, ElementsAre(absl::OkStatus()));
}

TEST_F(PublisherTest, WatchOfAForgottenJobEnds) {
  const auto watcher = WatchJob();
  state_.jobs.clear();
  ++state_.revision;
  now_ += kPublishInterval;
  Publish();
  EXPECT_THAT(watcher->ends, ElementsAre(absl::OkStatus()));
}

TEST_F(PublisherTest, ForgetsWhoHasLeft) {
  const auto watcher = WatchStatus();
  watcher->gone = true;
  WatchStatus();
  EXPECT_EQ(publisher_.watcher_count(), 1u);
}

TEST_F(PublisherTest, EndEndsAllWatches) {
  const auto status_watcher = WatchStatus();
  const auto job_watcher = WatchJob();
  publisher_.End(absl::UnavailableError("shutting down"));
  EXPECT_EQ(status_watcher->ends.size(), 1u);
  EXPECT_EQ(job_watcher->ends.size(), 1u);
  EXPECT_EQ(publisher_.watcher_count(), 0u);
}

}  // namespace
}  // namespace ringmaster::coordinator
