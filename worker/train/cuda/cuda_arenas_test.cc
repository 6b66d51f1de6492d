#include "worker/train/cuda/cuda_arenas.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/plan/plan.h"

namespace ringmaster {
namespace {

class CudaArenasTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = CudaDevice::Open(0);
    if (absl::IsFailedPrecondition(device.status()))
      GTEST_SKIP() << device.status();
    device_ = *std::move(device);
    stream_ = CudaStream::Create("compute").value();
    plan_ = Plan::Create("m", {{"weight", Shape{kElems}, {}}}, {}).value();
    arenas_ =
        CudaArenas::Create(*device_, *stream_, *plan_, {.moments = 2}).value();
  }

  std::vector<float> Host(float value) const {
    return std::vector<float>(static_cast<size_t>(plan_->total_elems()), value);
  }
  void Update(int64_t step) {
    const UpdateStretch all = {{0, plan_->total_elems()}, true};
    ASSERT_TRUE(arenas_
                    ->Apply({.beta1 = 0.9, .beta2 = 0.95},
                            {.step = step, .learning_rate = 0.1}, {&all, 1})
                    .ok());
  }

  static constexpr int64_t kElems = 1000;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaStream> stream_;
  std::optional<Plan> plan_;
  std::unique_ptr<CudaArenas> arenas_;
};

TEST_F(CudaArenasTest, CopiesWhatTheHostAsksFor) {
  const std::vector<float> sent = Host(3);
  ASSERT_TRUE(
      arenas_
          ->CopyFromHost(
              {.parameters = sent, .first_moment = sent, .second_moment = sent})
          .ok());
  std::vector<float> parameters = Host(0);
  ASSERT_TRUE(arenas_
                  ->CopyToHost({.parameters = absl::MakeSpan(parameters),
                                .first_moment = {},
                                .second_moment = {}})
                  .ok());
  EXPECT_EQ(parameters, sent);
}

TEST_F(CudaArenasTest, TellsHowLongAnUpdateTookOnce) {
  EXPECT_EQ(arenas_->TakeUpdateTime().value(), absl::ZeroDuration());
  arenas_->ClearGradients();
  Update(1);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_GT(arenas_->TakeUpdateTime().value(), absl::ZeroDuration());
  EXPECT_EQ(arenas_->TakeUpdateTime().value(), absl::ZeroDuration());
}

}  // namespace
}  // namespace ringmaster
