// Tests how PassGraphs queues passes that are a few copies.
#include "worker/nn/cuda/pass_graphs.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/logging/testing/log_capture.h"
#include "common/plan/plan.h"
#include "common/transport/cancel_token.h"
#include "worker/device/cuda/testing/gate.h"
#include "worker/nn/cuda/testing/device_operands.h"

namespace ringmaster::cuda {
namespace {

// Two tensors of 64 elements, each a bucket.
Plan TwoBuckets() {
  return *Plan::Create(
      "two",
      std::vector<TensorSpec>{{"a", {64}, Initializer::Constant(0)},
                              {"b", {64}, Initializer::Constant(0)}},
      {.bucket_bytes = 256});
}

// Copies the first element of each bucket as soon as it is ready.
class FirstElems final : public GradientObserver {
 public:
  FirstElems(CudaStream& compute, const float* gradients)
      : compute_(compute), gradients_(gradients) {}

  void OnForwardDone() override { ++forwards; }
  void OnTensorDone(int tensor_index) override {
    CudaStream& stream = *streams_[static_cast<size_t>(tensor_index)];
    stream.WaitFor(
        compute_.MarkReady(*events_[static_cast<size_t>(tensor_index)]));
    stream.CopyOnDevice(copied_.get() + tensor_index,
                        gradients_ + 64 * tensor_index, sizeof(float));
  }
  // Waits for one alone; NaN if it was never reported ready.
  float Await(int tensor_index) {
    EXPECT_TRUE(
        streams_[static_cast<size_t>(tensor_index)]->Synchronize().ok());
    float value = 0;
    EXPECT_EQ(
        cudaMemcpyAsync(&value, copied_.get() + tensor_index, sizeof(float),
                        cudaMemcpyDeviceToHost,
                        streams_[static_cast<size_t>(tensor_index)]->get()),
        cudaSuccess);
    EXPECT_TRUE(
        streams_[static_cast<size_t>(tensor_index)]->Synchronize().ok());
    return value;
  }

  int forwards = 0;

 private:
  CudaStream& compute_;
  const float* const gradients_;
  const std::unique_ptr<CudaEvent> events_[2] = {*CudaEvent::Create(),
                                                 *CudaEvent::Create()};
  const std::unique_ptr<CudaStream> streams_[2] = {*CudaStream::Create("a"),
                                                   *CudaStream::Create("b")};
  const DeviceArray<float> copied_{2};
};

class PassGraphsTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    source_.emplace(std::vector<float>(128, 0));
    gradients_.emplace(128);
    graphs_ = std::make_unique<PassGraphs>(stream(), /*is_on=*/true);
    graphs_->Bind(plan_);
    observer_ = std::make_unique<FirstElems>(stream(), gradients_->get());
  }
  // Queues a pass whose gradients are the contents of source_.
  void Queue(GradientObserver& observer) {
    ++queued_;
    observer.OnForwardDone();
    for (int i = 0; i < 2; ++i) {
      gates_[i].Hold(stream());
      stream().CopyOnDevice(gradients_->get() + 64 * i, source_->get() + 64 * i,
                            64 * sizeof(float));
      observer.OnTensorDone(i);
    }
    last_gate_.Hold(stream());
  }
  // Runs a pass whose gradients are `value`; returns true if it was replayed.
  bool Run(float value, PassGraphs::Kind kind = {.samples = 1}) {
    const std::vector<float> values(128, value);
    // Waits for the pass before and the copies of its gradients.
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(source_->get(), values.data(), 128 * sizeof(float),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const int64_t before = CudaGraph::TotalLaunches();
    graphs_->Run(kind, nullptr, *observer_,
                 [this](const CancelToken*, GradientObserver& observer) {
                   Queue(observer);
                 });
    return CudaGraph::TotalLaunches() > before;
  }

  const Plan plan_ = TwoBuckets();
  std::optional<DeviceArray<float>> source_;
  std::optional<DeviceArray<float>> gradients_;
  Gate gates_[2] = {Gate(true), Gate(true)};
  Gate last_gate_{true};
  int queued_ = 0;
  std::unique_ptr<PassGraphs> graphs_;
  std::unique_ptr<FirstElems> observer_;
};

// Each bucket is ready when its gradient is: not before, and not only when the
// pass ends.
TEST_F(PassGraphsTest, EachBucketIsReadyInItsTime) {
  EXPECT_FALSE(Run(1));
  EXPECT_TRUE(Run(2));
  ASSERT_TRUE(Finish());
  for (const float value : {3.0f, 4.0f}) {
    gates_[0].Set(false);
    gates_[1].Set(false);
    last_gate_.Set(false);
    const std::vector<float> values(128, value);
    ASSERT_EQ(
        cudaMemcpyAsync(source_->get(), values.data(), 128 * sizeof(float),
                        cudaMemcpyHostToDevice, stream().get()),
        cudaSuccess);
    ASSERT_TRUE(Finish());
    const int64_t before = CudaGraph::TotalLaunches();
    graphs_->Run({.samples = 1}, nullptr, *observer_,
                 [this](const CancelToken*, GradientObserver& observer) {
                   Queue(observer);
                 });
    EXPECT_EQ(CudaGraph::TotalLaunches(), before + 2);
    gates_[0].Set(true);
    EXPECT_EQ(observer_->Await(0), value);
    gates_[1].Set(true);
    EXPECT_EQ(observer_->Await(1), value) << "while the pass has not ended";
    last_gate_.Set(true);
    ASSERT_TRUE(Finish());
  }
  EXPECT_EQ(queued_, 2) << "once as it is, once to be captured";
  EXPECT_EQ(observer_->forwards, 4);
}

TEST_F(PassGraphsTest, WhatIsOffIsNeverReplayed) {
  graphs_ = std::make_unique<PassGraphs>(stream(), /*is_on=*/false);
  graphs_->Bind(plan_);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Run(1));
  EXPECT_EQ(queued_, 3);
}

TEST_F(PassGraphsTest, KindsAreReplayedApart) {
  const PassGraphs::Kind kinds[] = {
      {.samples = 1}, {.samples = 2}, {.samples = 1, .write = Write::kAdd}};
  for (const PassGraphs::Kind& kind : kinds) EXPECT_FALSE(Run(1, kind));
  for (const PassGraphs::Kind& kind : kinds) EXPECT_TRUE(Run(2, kind));
  EXPECT_FALSE(Run(2, {.samples = 0}));
  EXPECT_FALSE(Run(2, {.samples = 0})) << "there is nothing to save";
}

TEST_F(PassGraphsTest, KeepsFewKinds) {
  for (int64_t samples = 1; samples <= 9; ++samples)
    EXPECT_FALSE(Run(1, {.samples = samples}));
  EXPECT_FALSE(Run(1, {.samples = 1})) << "the ninth drove the others out";
  EXPECT_TRUE(Run(1, {.samples = 9}));
}

TEST_F(PassGraphsTest, WhatCannotBeCapturedRunsAsItIsAndIsLoggedOnce) {
  const LogCapture log;
  bool is_sound = true;
  for (int i = 0; i < 4; ++i) {
    graphs_->Run({.samples = 1}, nullptr, *observer_,
                 [&](const CancelToken*, GradientObserver& observer) {
                   Queue(observer);
                   // A library that allocates would do this.
                   is_sound = stream().Synchronize().ok();
                 });
    EXPECT_TRUE(is_sound) << "pass " << i;
    EXPECT_EQ(observer_->Await(0), 0);
    EXPECT_EQ(observer_->Await(1), 0);
  }
  EXPECT_EQ(observer_->forwards, 4) << "the capture tells nobody";
  const std::vector<std::string> lines = log.lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) {
                            return line.find("model.no_graphs") !=
                                   std::string::npos;
                          }),
            1);
  EXPECT_TRUE(log.Contains("cudaErrorStreamCaptureUnsupported"));
}

TEST_F(PassGraphsTest, APassThatWasCutShortDoesNotCount) {
  CancelToken cancel;
  const auto run = [&] {
    const int64_t before = CudaGraph::TotalLaunches();
    graphs_->Run({.samples = 1}, &cancel, *observer_,
                 [&](const CancelToken* token, GradientObserver& observer) {
                   if (queued_ == 0) cancel.Cancel("now");
                   if (token != nullptr && token->is_cancelled()) {
                     ++queued_;
                     return;
                   }
                   Queue(observer);
                 });
    return CudaGraph::TotalLaunches() > before;
  };
  EXPECT_FALSE(run());
  EXPECT_EQ(observer_->forwards, 0);
  EXPECT_FALSE(Run(1)) << "the first that is whole";
  EXPECT_TRUE(Run(2));
}

}  // namespace
}  // namespace ringmaster::cuda
