#include "worker/train/state/emulated_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/sync/thread_pool.h"
#include "common/transport/cancel_token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nn/model_registry.h"

namespace ringmaster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Time passes only while somebody waits, and then at once.
class JumpingClock final : public Clock {
 public:
  MonotonicTime Now() const override { return now_; }
  bool WaitOn(std::condition_variable&, std::unique_lock<std::mutex>&,
              MonotonicTime deadline) override {
    now_ = std::max(now_, deadline);
    return false;
  }

 private:
  MonotonicTime now_;
};

class Moments final : public GradientObserver {
 public:
  Moments(const Plan& plan, const Clock& clock)
      : plan_(plan), clock_(clock), begin_(clock.Now()) {}

  void OnForwardDone() override { forward_ms_ = Elapsed(); }
  void OnTensorDone(int tensor) override {
    ++tensors_;
    if (!plan_.BucketsCompletedBy(tensor).empty())
      bucket_ms_.push_back(Elapsed());
  }

  double Elapsed() const {
    return absl::ToDoubleMilliseconds(clock_.Now() - begin_);
  }

  double forward_ms_ = -1;
  int tensors_ = 0;
  std::vector<double> bucket_ms_;

 private:
  const Plan& plan_;
  const Clock& clock_;
  const MonotonicTime begin_;
};

class EmulatedModelTest : public ::testing::Test {
 protected:
  EmulatedModelTest()
      : real_(*CreateModel<float>(config_, {.pool = pool_}, 4)),
        plan_(*Plan::Create(config_.kind, real_->specs(),
                            {.bucket_bytes = 1024})),
        parameters_(static_cast<size_t>(plan_.total_elems())),
        gradients_(parameters_.size(), 7.0F),
        batch_(4, real_->input().shape) {}

  // Four samples, of 10 ms forward and 20 ms backward each.
  Moments Run(std::vector<int> ready_permille, const CancelToken* cancel) {
    const auto model = EmulateCompute(
        std::move(real_),
        {absl::Milliseconds(10), absl::Milliseconds(20), ready_permille},
        clock_);
    EXPECT_TRUE(
        model->Bind(plan_, parameters_, absl::MakeSpan(gradients_)).ok());
    EXPECT_EQ(model->flops_per_sample(), 0);
    Moments moments(plan_, clock_);
    batch_.Resize(4);
    TrainOptions options;
    options.cancel = cancel;
    EXPECT_EQ(model->ForwardBackward(batch_, options, moments), 0);
    return moments;
  }

  const ModelConfig config_ = {
      .settings = {{"window", {2}}, {"hidden_dim", {16}}}};
  ThreadPool pool_{1};
  JumpingClock clock_;
  std::unique_ptr<Model<float>> real_;
  Plan plan_;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
  Batch batch_;
};

TEST_F(EmulatedModelTest, TakesItsTimeAndTellsOfBucketsAtTheirMoments) {
  const size_t count = plan_.buckets().size();
  ASSERT_GE(count, 3u);
  std::vector<int> ready(count, 1000);
  ready[0] = 0;
  ready[1] = 250;
  const size_t tensors = real_->specs().size();
  const Moments moments = Run(ready, nullptr);
  EXPECT_DOUBLE_EQ(moments.forward_ms_, 40);
  EXPECT_DOUBLE_EQ(moments.Elapsed(), 120);
  EXPECT_EQ(static_cast<size_t>(moments.tensors_), tensors);
  EXPECT_GE(moments.bucket_ms_.front(), 40);
  EXPECT_DOUBLE_EQ(moments.bucket_ms_.back(), 120);
  EXPECT_TRUE(
      std::is_sorted(moments.bucket_ms_.begin(), moments.bucket_ms_.end()));
  EXPECT_THAT(gradients_, Each(0.0F));
}

TEST_F(EmulatedModelTest, SpreadsBucketsEvenlyUnlessToldOtherwise) {
  const Moments moments = Run({}, nullptr);
  EXPECT_GT(moments.bucket_ms_.front(), 40);
  EXPECT_LT(moments.bucket_ms_.front(), 120);
  EXPECT_DOUBLE_EQ(moments.bucket_ms_.back(), 120);
}

TEST_F(EmulatedModelTest, ReturnsAtOnceWhenItIsCancelled) {
  CancelToken cancel;
  cancel.Cancel("over");
  const Moments moments = Run({}, &cancel);
  EXPECT_DOUBLE_EQ(moments.Elapsed(), 0);
}

}  // namespace
}  // namespace ringmaster
