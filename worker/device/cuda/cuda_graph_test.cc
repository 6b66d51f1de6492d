// Tests capturing a stream, launching the capture, and marking its parts as
// ready.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/testing/gate.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBytes = sizeof(int);

class CudaGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = CudaDevice::Open(0);
    if (absl::IsFailedPrecondition(device.status()))
      GTEST_SKIP() << device.status();
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    stream_ = *CudaStream::Create("test");
    other_ = *CudaStream::Create("other");
    memory_ = *device_->allocator().Allocate(4 * kBytes);
    pinned_ = *device_->pinned_allocator().Allocate(4 * kBytes);
    stream_->FillZero(memory_.data(), 4 * kBytes);
    ASSERT_TRUE(stream_->Synchronize().ok());
  }

  int* at(int i) const { return static_cast<int*>(memory_.data()) + i; }
  // Copies of device memory are read here.
  int* host(int i) const { return static_cast<int*>(pinned_.data()) + i; }
  // *at(to) = value, which must stay where it is until it was run.
  void Store(int to, const int* value) {
    stream_->CopyToDevice(at(to), value, kBytes);
  }
  std::unique_ptr<CudaGraph> Captured(absl::FunctionRef<void()> queue) {
    EXPECT_TRUE(stream_->BeginCapture().ok());
    queue();
    auto graph = stream_->EndCapture();
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *std::move(graph);
  }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<CudaStream> other_;
  Allocation memory_;
  Allocation pinned_;
};

TEST_F(CudaGraphTest, RunsAtEachLaunchWithWhatLiesThereThen) {
  const auto graph =
      Captured([&] { stream_->CopyOnDevice(at(1), at(0), kBytes); });
  const int64_t launches = CudaGraph::TotalLaunches();
  for (const int value : {5, 6}) {
    *host(0) = value;
    Store(0, host(0));
    stream_->Launch(*graph);
    stream_->CopyToHost(host(1), at(1), kBytes);
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_EQ(*host(1), value);
  }
  EXPECT_EQ(CudaGraph::TotalLaunches(), launches + 2);
}

TEST_F(CudaGraphTest, AnEventOfAGraphIsMarkedByEachLaunchAndNotBefore) {
  Gate first, second;
  const auto event = *CudaEvent::Create();
  const auto own = *CudaEvent::Create();
  const auto graph = Captured([&] {
    first.Hold(*stream_);
    stream_->CopyOnDevice(at(1), at(0), kBytes);
    stream_->Record(*event);
    second.Hold(*stream_);
  });
  *host(0) = 7;
  Store(0, host(0));
  stream_->Launch(*graph);
  // Another stream waits for exactly the part that is ready.
  stream_->SetReady(event.get());
  const CudaEvent& ready = stream_->MarkReady(*own);
  stream_->SetReady(nullptr);
  EXPECT_EQ(&ready, event.get());
  other_->WaitFor(ready);
  other_->CopyToHost(host(1), at(1), kBytes);
  EXPECT_FALSE(*event->IsDone());
  first.Set(true);
  ASSERT_TRUE(other_->Synchronize().ok());
  EXPECT_EQ(*host(1), 7);
  EXPECT_EQ(&stream_->MarkReady(*own), own.get());
  EXPECT_FALSE(*own->IsDone()) << "the graph has not ended";
  second.Set(true);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(*own->IsDone());
}

TEST_F(CudaGraphTest, WhatCannotBeCapturedIsToldOnceAndForgotten) {
  ASSERT_TRUE(stream_->BeginCapture().ok());
  stream_->CopyOnDevice(at(1), at(0), kBytes);
  EXPECT_FALSE(stream_->Synchronize().ok());
  stream_->CopyOnDevice(at(2), at(0), kBytes);
  const auto graph = stream_->EndCapture();
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(graph.status().message()),
              HasSubstr("cudaErrorStreamCaptureUnsupported"));
  // The stream works as before.
  *host(0) = 3;
  Store(0, host(0));
  stream_->CopyToHost(host(1), at(0), kBytes);
  EXPECT_TRUE(stream_->Synchronize().ok()) << stream_->status();
  EXPECT_EQ(*host(1), 3);
  EXPECT_TRUE(Captured([] {}) != nullptr);
}

TEST_F(CudaGraphTest, ExpiresWithTheMemoryThatItUses) {
  const auto graph =
      Captured([&] { stream_->CopyOnDevice(at(1), at(0), kBytes); });
  EXPECT_FALSE(stream_->IsExpired(*graph));
  stream_->ExpireGraphs();
  EXPECT_TRUE(stream_->IsExpired(*graph));
  EXPECT_DEATH(stream_->Launch(*graph), "memory is there");
  EXPECT_FALSE(stream_->IsExpired(*Captured([] {})));
}

}  // namespace
}  // namespace ringmaster
