#include "worker/device/cuda/cuda_profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/scale.h"

namespace ringmaster {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int64_t kCount = 1000;
constexpr int64_t kBytes = kCount * static_cast<int64_t>(sizeof(float));

class CudaProfilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = CudaDevice::Open(0);
    if (!device.ok()) GTEST_SKIP() << device.status();
    device_ = *std::move(device);
    stream_ = *CudaStream::Create("profiled");
    values_ = *device_->allocator().Allocate(kBytes);
    host_ = *device_->pinned_allocator().Allocate(kBytes);
  }

  void Work() {
    auto* const values = static_cast<float*>(values_.data());
    for (int i = 0; i < 3; ++i) {
      stream_->Check(ScaleOnDevice(values, kCount, 2.0f, stream_->get()),
                     "scale");
    }
    stream_->CopyToHost(host_.data(), values, kBytes);
    stream_->CopyToDevice(values, host_.data(), kBytes);
    stream_->FillZero(values, kBytes);
  }

  static const GpuActivity* Find(const GpuProfile& profile,
                                 const std::string& part) {
    for (const GpuActivity& activity : profile.activities) {
      if (activity.name.find(part) != std::string::npos) return &activity;
    }
    return nullptr;
  }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaStream> stream_;
  Allocation values_;
  Allocation host_;
};

TEST_F(CudaProfilerTest, TellsKernelsCopiesAndFillsByName) {
  auto profiler = CudaProfiler::Start();
  if (absl::IsNotFound(profiler.status())) GTEST_SKIP() << profiler.status();
  ASSERT_TRUE(profiler.ok()) << profiler.status();
  Work();
  const auto profile = (*profiler)->Stop();
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->lost, 0);
  ASSERT_EQ(profile->activities.size(), 4u);
  const GpuActivity* const kernel = Find(*profile, "scale");
  ASSERT_NE(kernel, nullptr) << profile->activities.front().name;
  EXPECT_THAT(kernel->name, ContainsRegex("^scale: .*Scale"));
  EXPECT_EQ(kernel->count, 3);
  for (const char* name : {"Memcpy DtoH", "Memcpy HtoD", "Memset"}) {
    const GpuActivity* const activity = Find(*profile, name);
    ASSERT_NE(activity, nullptr) << name;
    EXPECT_EQ(activity->count, 1) << name;
    EXPECT_GT(activity->time, absl::ZeroDuration()) << name;
  }
  for (size_t i = 1; i < profile->activities.size(); ++i) {
    EXPECT_GE(profile->activities[i - 1].time, profile->activities[i].time);
  }
}

TEST_F(CudaProfilerTest, TellsWhatRanBetweenStartAndStopAlone) {
  for (int round = 0; round < 2; ++round) {
    Work();
    ASSERT_TRUE(stream_->Synchronize().ok());
    auto profiler = CudaProfiler::Start();
    if (absl::IsNotFound(profiler.status())) GTEST_SKIP() << profiler.status();
    ASSERT_TRUE(profiler.ok()) << profiler.status();
    stream_->FillZero(values_.data(), kBytes);
    const auto profile = (*profiler)->Stop();
    ASSERT_TRUE(profile.ok()) << profile.status();
    ASSERT_EQ(profile->activities.size(), 1u);
    EXPECT_EQ(profile->activities[0].name, "Memset");
    EXPECT_EQ(profile->activities[0].count, 1);
    EXPECT_EQ((*profiler)->Stop().status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(CudaProfilerTest, IsOneAtATime) {
  auto first = CudaProfiler::Start();
  if (absl::IsNotFound(first.status())) GTEST_SKIP() << first.status();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = CudaProfiler::Start();
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("runs in this process already"));
  *first = nullptr;
  EXPECT_TRUE(CudaProfiler::Start().ok());
}

// Many more records than fit in a buffer.
TEST_F(CudaProfilerTest, LosesNothingOfALongRun) {
  constexpr int kFills = 60000;
  auto profiler = CudaProfiler::Start();
  if (absl::IsNotFound(profiler.status())) GTEST_SKIP() << profiler.status();
  ASSERT_TRUE(profiler.ok()) << profiler.status();
  for (int i = 0; i < kFills; ++i) {
    stream_->FillZero(values_.data(), sizeof(float));
  }
  const auto profile = (*profiler)->Stop();
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->activities.at(0).count + profile->lost, kFills);
}

}  // namespace
}  // namespace ringmaster
