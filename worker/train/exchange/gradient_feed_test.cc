#include "worker/train/exchange/gradient_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "worker/train/state/accelerator.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Copies that end when a test says so.
class FakeCopies final : public ServerCopies {
 public:
  absl::Status StartGradients(int bucket, absl::Span<float> host) override {
    if (host.empty()) return absl::InternalError("no memory to copy to");
    MutexLock lock(mutex_);
    states_[bucket] = absl::StatusOr<bool>(false);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> HasGradients(int bucket) override {
    MutexLock lock(mutex_);
    return states_.at(bucket);
  }
  void End(int bucket, const absl::Status& status = absl::OkStatus()) {
    MutexLock lock(mutex_);
    states_[bucket] =
        status.ok() ? absl::StatusOr<bool>(true) : absl::StatusOr<bool>(status);
  }
  void StartParameters(int, absl::Span<const float>) override {}
  absl::Status TakeParameters() override { return absl::OkStatus(); }
  void AwaitParameters() override {}

 private:
  Mutex mutex_;
  std::map<int, absl::StatusOr<bool>> states_ GUARDED_BY(mutex_);
};

class GradientFeedTest : public ::testing::Test {
 protected:
  absl::Status Add(GradientFeed& feed, int bucket) {
    return feed.Add(bucket, absl::MakeSpan(host_), [this, bucket] {
      MutexLock lock(mutex_);
      pushed_.push_back(bucket);
    });
  }
  std::vector<int> pushed() {
    MutexLock lock(mutex_);
    return pushed_;
  }
  static MonotonicTime After(absl::Duration duration) {
    return Clock::Real().Now() + duration;
  }

  FakeCopies copies_;
  std::vector<float> host_ = std::vector<float>(4);

 private:
  Mutex mutex_;
  std::vector<int> pushed_ GUARDED_BY(mutex_);
};

TEST_F(GradientFeedTest, PushesWhatIsOnTheHostInTheOrderOfAdd) {
  GradientFeed feed(copies_, Clock::Real());
  for (const int bucket : {2, 0, 1}) ASSERT_TRUE(Add(feed, bucket).ok());
  copies_.End(0);
  copies_.End(1);
  copies_.End(2);
  ASSERT_TRUE(feed.Await(After(absl::Minutes(1))).ok());
  EXPECT_THAT(pushed(), ElementsAre(2, 0, 1));
  // The next step works the same.
  ASSERT_TRUE(Add(feed, 2).ok());
  copies_.End(2);
  ASSERT_TRUE(feed.Await(After(absl::Minutes(1))).ok());
  EXPECT_THAT(pushed(), ElementsAre(2, 0, 1, 2));
}

TEST_F(GradientFeedTest, PushesBeforeAnybodyWaits) {
  GradientFeed feed(copies_, Clock::Real());
  ASSERT_TRUE(Add(feed, 0).ok());
  ASSERT_TRUE(Add(feed, 1).ok());
  copies_.End(0);
  const MonotonicTime deadline = After(absl::Minutes(1));
  while (pushed().empty() && Clock::Real().Now() < deadline) {
  }
  EXPECT_THAT(pushed(), ElementsAre(0));
  copies_.End(1);
  ASSERT_TRUE(feed.Await(After(absl::Minutes(1))).ok());
}

TEST_F(GradientFeedTest, ACopyThatDoesNotEndIsNoPeersFault) {
  GradientFeed feed(copies_, Clock::Real());
  ASSERT_TRUE(Add(feed, 3).ok());
  const absl::Status status = feed.Await(After(absl::Milliseconds(10)));
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("bucket 3 did not come"));
  EXPECT_EQ(feed.Await(After(absl::Minutes(1))), status);
  copies_.End(3);
  EXPECT_EQ(feed.Await(After(absl::Minutes(1))), status);
}

TEST_F(GradientFeedTest, PushesNothingAfterACopyThatFailed) {
  GradientFeed feed(copies_, Clock::Real());
  ASSERT_TRUE(Add(feed, 0).ok());
  ASSERT_TRUE(Add(feed, 1).ok());
  copies_.End(1);
  copies_.End(0, absl::InternalError("the device is gone"));
  EXPECT_EQ(feed.Await(After(absl::Minutes(1))).message(),
            "the device is gone");
  EXPECT_THAT(pushed(), ElementsAre());
}

TEST_F(GradientFeedTest, ACopyThatCannotStartIsToldAtOnce) {
  GradientFeed feed(copies_, Clock::Real());
  host_.clear();
  EXPECT_EQ(Add(feed, 0).message(), "no memory to copy to");
  EXPECT_TRUE(feed.Await(After(absl::Minutes(1))).ok());
}

TEST_F(GradientFeedTest, EndsWithCopiesUnderWay) {
  GradientFeed feed(copies_, Clock::Real());
  ASSERT_TRUE(Add(feed, 0).ok());
}

}  // namespace
}  // namespace ringmaster
