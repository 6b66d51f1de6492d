#include "tests/gpu/overlap/simulated_link.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster {
namespace {

using Mode = SimulatedLink::Mode;

constexpr int64_t kBytes = int64_t{1} << 20;

class SimulatedLinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = CudaDevice::Open(0);
    if (!device.ok()) GTEST_SKIP() << device.status();
    device_ = *std::move(device);
    compute_ = *CudaStream::Create("compute");
    ready_ = *CudaEvent::Create();
    auto link =
        SimulatedLink::Create(*device_, {.ranks = 4, .bytes_per_second = 1e9});
    ASSERT_TRUE(link.ok()) << link.status();
    link_ = *std::move(link);
  }

  // Starts a bucket that is ready when `compute_` has come so far.
  absl::Status StartBucket() {
    compute_->Record(*ready_);
    return link_->Start(kBytes, [this](CudaStream& stream) {
      stream.WaitFor(*ready_);
      return stream.status();
    });
  }
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaStream> compute_;
  std::unique_ptr<CudaEvent> ready_;
  std::unique_ptr<SimulatedLink> link_;
};

TEST_F(SimulatedLinkTest, ABucketTakesAsLongAsInARing) {
  // 2 x 3 / 4 of a MiB at 1 GB/s.
  EXPECT_NEAR(absl::ToDoubleMicroseconds(link_->TransferTime(kBytes)), 1572.9,
              0.1);
  EXPECT_EQ(link_->TransferTime(0), absl::ZeroDuration());
}

TEST_F(SimulatedLinkTest, OffItTransfersNothing) {
  ASSERT_TRUE(StartBucket().ok());
  ASSERT_TRUE(link_->Await().ok());
  EXPECT_TRUE(link_->TakeSteps().empty());
}

TEST_F(SimulatedLinkTest, EachStepHasItsOwnFigures) {
  link_->SetMode(Mode::kOverlapped);
  for (const int buckets : {3, 1}) {
    for (int i = 0; i < buckets; ++i) ASSERT_TRUE(StartBucket().ok());
    ASSERT_TRUE(link_->Await().ok());
  }
  ASSERT_TRUE(link_->Await().ok());  // of nothing: no step
  const std::vector<SimulatedLink::Step> steps = link_->TakeSteps();
  ASSERT_EQ(steps.size(), 2u);
  for (const SimulatedLink::Step& step : steps) {
    EXPECT_GT(step.busy, absl::ZeroDuration());
    EXPECT_GE(step.exposed, absl::ZeroDuration());
  }
  EXPECT_TRUE(link_->TakeSteps().empty());
}

// The second bucket is computed when the first one's transfer has ended. If that
// waited for more than its own bucket, this would not end.
TEST_F(SimulatedLinkTest, ATransferWaitsForItsOwnBucketAlone) {
  link_->SetMode(Mode::kOverlapped);
  ASSERT_TRUE(StartBucket().ok());
  std::atomic<bool> may_go = false;
  compute_->Check(cudaLaunchHostFunc(
                      compute_->get(),
                      [](void* gate) {
                        while (!*static_cast<std::atomic<bool>*>(gate)) {
                          std::this_thread::yield();
                        }
                      },
                      &may_go),
                  "a gate");
  compute_->Record(*ready_);
  const std::unique_ptr<CudaEvent> first_ended = *CudaEvent::Create();
  const absl::Status started = link_->Start(kBytes, [&](CudaStream& stream) {
    if (stream.name() == "link") stream.Record(*first_ended);
    stream.WaitFor(*ready_);
    return stream.status();
  });
  EXPECT_TRUE(first_ended->Wait().ok());
  may_go = true;
  ASSERT_TRUE(started.ok()) << started;
  ASSERT_TRUE(link_->Await().ok());
  EXPECT_EQ(link_->TakeSteps().size(), 1u);
}

TEST_F(SimulatedLinkTest, WithoutOverlapAllIsExposed) {
  link_->SetMode(Mode::kAfter);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(StartBucket().ok());
  ASSERT_TRUE(link_->Await().ok());
  const std::vector<SimulatedLink::Step> steps = link_->TakeSteps();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_GE(steps[0].exposed, steps[0].busy);
}

}  // namespace
}  // namespace ringmaster
