#include "server/coordinator/rpc/status_changes.h"

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/protocol/proto_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using Message = std::shared_ptr<const v1::WatchStatusResponse>;

v1::Status StatusOf(const std::map<std::string, int64_t>& steps) {
  v1::Status status;
  for (const auto& [name, step] : steps) {
    v1::Worker& worker = *status.add_workers();
    worker.set_name(name);
    worker.set_step(step);
    v1::Job& job = *status.add_jobs();
    job.set_id(absl::StrCat("job-of-", name));
    job.set_generation(step);
  }
  return status;
}

std::vector<std::string> WorkersOf(const Message& message) {
  std::vector<std::string> names;
  for (const v1::Worker& worker : message->status().workers())
    names.push_back(worker.name());
  return names;
}

TEST(StatusChangesTest, TellsTheWholeAndThenWhatHasChanged) {
  StatusChanges changes;
  const Message whole = changes.Next(StatusOf({{"a", 1}, {"b", 1}}), false);
  EXPECT_FALSE(whole->is_change());
  EXPECT_THAT(WorkersOf(whole), ElementsAre("a", "b"));
  EXPECT_EQ(changes.Next(StatusOf({{"a", 1}, {"b", 1}}), false), nullptr);
  const Message change = changes.Next(StatusOf({{"b", 2}, {"c", 1}}), false);
  EXPECT_TRUE(change->is_change());
  EXPECT_THAT(WorkersOf(change), ElementsAre("b", "c"));
  EXPECT_THAT(change->gone_workers(), ElementsAre("a"));
  EXPECT_THAT(change->gone_jobs(), ElementsAre("job-of-a"));
}

TEST(StatusChangesTest, TellsTheRestIfItHasChanged) {
  StatusChanges changes;
  v1::Status status = StatusOf({{"a", 1}});
  (void)changes.Next(status, false);
  status.set_revision(2);
  EXPECT_EQ(changes.Next(status, false), nullptr);
  status.mutable_coordinator()->set_journal_error("disk full");
  const Message change = changes.Next(status, false);
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->status().coordinator().journal_error(), "disk full");
  EXPECT_EQ(change->status().workers_size(), 0);
}

TEST(StatusChangesTest, ThatAWorkerIsHeardIsNewsOnlyAfterASilence) {
  StatusChanges changes;
  v1::Status status = StatusOf({{"a", 1}});
  const auto next = [&](absl::Duration age) {
    *status.mutable_workers(0)->mutable_last_beat_age() = ToProto(age);
    return changes.Next(status, false);
  };
  EXPECT_NE(next(absl::Milliseconds(10)), nullptr);
  EXPECT_EQ(next(absl::Milliseconds(900)), nullptr);
  EXPECT_NE(next(absl::Milliseconds(1100)), nullptr);
  EXPECT_EQ(next(absl::Seconds(9)), nullptr);
  EXPECT_NE(next(absl::Milliseconds(5)), nullptr);
}

TEST(StatusChangesTest, AForecastIsNewsWhenItIsOfAnotherMoment) {
  StatusChanges changes;
  v1::Status status = StatusOf({{"a", 1}});
  const auto next = [&](int now, int wait) {
    *status.mutable_time() = ToProto(absl::UnixEpoch() + absl::Seconds(now));
    *status.mutable_jobs(0)->mutable_predicted_wait() =
        ToProto(absl::Seconds(wait));
    return changes.Next(status, false);
  };
  EXPECT_NE(next(0, 65), nullptr);
  EXPECT_EQ(next(20, 45), nullptr);
  EXPECT_NE(next(20, 4500), nullptr);
  status.mutable_jobs(0)->clear_predicted_wait();
  EXPECT_NE(changes.Next(status, false), nullptr);
}

// A viewer as ringmaster.v1.WatchStatusResponse describes it.
class Viewer {
 public:
  void Take(const v1::WatchStatusResponse& message) {
    if (!message.is_change()) *this = Viewer();
    for (const std::string& name : message.gone_workers()) steps_.erase(name);
    for (const v1::Worker& worker : message.status().workers())
      steps_[worker.name()] = worker.step();
    for (const std::string& id : message.gone_jobs()) jobs_.erase(id);
    for (const v1::Job& job : message.status().jobs())
      jobs_[job.id()] = job.generation();
  }
  const std::map<std::string, int64_t>& steps() const { return steps_; }
  // By the names of the workers.
  std::map<std::string, int64_t> jobs() const {
    std::map<std::string, int64_t> jobs;
    for (const auto& [id, generation] : jobs_)
      jobs[id.substr(std::string("job-of-").size())] = generation;
    return jobs;
  }

 private:
  std::map<std::string, int64_t> steps_;
  std::map<std::string, int64_t> jobs_;
};

// Messages wait, are replaced, or go out in the very moment in which the next is made.
TEST(StatusChangesTest, WhateverIsDroppedAViewerSeesTheLastState) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    StatusChanges changes;
    Viewer viewer;
    Message waiting;
    std::map<std::string, int64_t> steps;
    const auto send = [&] {
      if (waiting != nullptr) viewer.Take(*waiting);
      waiting = nullptr;
    };
    for (int i = 0; i < 60; ++i) {
      const std::string name = absl::StrCat("w", random() % 4);
      if (random() % 3 == 0) {
        steps.erase(name);
      } else {
        steps[name] = static_cast<int64_t>(random() % 2);
      }
      if (random() % 2 == 0) send();
      Message next = changes.Next(StatusOf(steps), waiting != nullptr);
      if (random() % 4 == 0) send();
      if (next != nullptr) waiting = std::move(next);
    }
    send();
    ASSERT_EQ(viewer.steps(), steps) << "seed " << seed;
    ASSERT_EQ(viewer.jobs(), steps) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
