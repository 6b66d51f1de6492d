// The emulated CUDA runtime: streams, events, memory and errors.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "worker/device/cuda/emulator/emulator.h"
#include "worker/device/cuda/emulator/test_kernels.h"

namespace ringmaster::cuda_emulator {
namespace {

class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override { Reset(Settings()); }
  void TearDown() override { Reset(Settings()); }

  static cudaStream_t NewStream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    return stream;
  }
  static cudaEvent_t NewEvent() {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
    return event;
  }
  static int* NewInt() {
    int* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, sizeof(int)), cudaSuccess);
    return data;
  }
};

// Keeps a stream busy until Open.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    EXPECT_EQ(cudaLaunchHostFunc(
                  stream,
                  [](void* gate) {
                    static_cast<Gate*>(gate)->opened_.get_future().wait();
                  },
                  this),
              cudaSuccess);
  }
  void Open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

TEST_F(RuntimeTest, StreamsRunBesideEachOtherUnlessAnEventOrdersThem) {
  cudaStream_t const first = NewStream();
  cudaStream_t const second = NewStream();
  cudaEvent_t const event = NewEvent();
  int* const data = NewInt();
  int* const other = NewInt();
  Gate gate(first);
  ASSERT_EQ(Store(data, 1, first), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);

  ASSERT_EQ(Store(other, 7, second), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(*other, 7);
  EXPECT_EQ(*data, -1) << "0xFF bytes until it is written";

  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  ASSERT_EQ(Store(data, 2, second), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  gate.Open();
  ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(*data, 2);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(first), cudaSuccess);
}

#if defined(__SANITIZE_THREAD__)
TEST_F(RuntimeTest, ThreadSanitizerSeesThatStreamsAreNotOrdered) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto race = [] {
    int* const data = NewInt();
    cudaStream_t const streams[] = {NewStream(), NewStream()};
    // It does not see every single one.
    for (int i = 0; i < 1000; ++i) {
      static_cast<void>(cudaMemsetAsync(data, 0, sizeof(int), streams[i % 2]));
    }
    static_cast<void>(cudaDeviceSynchronize());
  };
  EXPECT_DEATH(race(), "data race");
}
#endif

TEST_F(RuntimeTest, AWaitIsForTheRecordBeforeIt) {
  cudaStream_t const first = NewStream();
  cudaStream_t const second = NewStream();
  cudaEvent_t const event = NewEvent();
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  Gate gate(first);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  gate.Open();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
}

TEST_F(RuntimeTest, TheNullStreamKeepsOrderWithBlockingStreams) {
  cudaStream_t const blocking = NewStream(cudaStreamDefault);
  cudaStream_t const non_blocking = NewStream();
  int* const data = NewInt();
  Gate gate(blocking);
  ASSERT_EQ(Store(data, 1, blocking), cudaSuccess);
  ASSERT_EQ(Store(data, 2, nullptr), cudaSuccess);
  ASSERT_EQ(Store(data, 3, blocking), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamSynchronize(non_blocking), cudaSuccess);
  gate.Open();
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
  EXPECT_EQ(*data, 3);
}

TEST_F(RuntimeTest, ADestroyedStreamEndsItsWork) {
  cudaStream_t const stream = NewStream();
  int* const data = NewInt();
  Gate gate(stream);
  ASSERT_EQ(Store(data, 5, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(Store(data, 6, stream), cudaErrorInvalidResourceHandle);
  gate.Open();
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(*data, 5);
}

TEST_F(RuntimeTest, EventsMeasureTime) {
  cudaStream_t const stream = NewStream();
  cudaEvent_t const begin = NewEvent();
  cudaEvent_t const end = NewEvent();
  float milliseconds = -1.0f;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end),
            cudaErrorInvalidResourceHandle)
      << "never recorded";
  ASSERT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  Gate gate(stream);
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  gate.Open();
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0.0f);
  cudaEvent_t untimed = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming),
            cudaSuccess);
  ASSERT_EQ(cudaEventRecord(untimed, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, untimed),
            cudaErrorInvalidResourceHandle);
}

TEST_F(RuntimeTest, AHostFunctionMayNotCallCuda) {
  cudaStream_t const stream = NewStream();
  cudaError_t error = cudaSuccess;
  ASSERT_EQ(cudaLaunchHostFunc(
                stream,
                [](void* result) {
                  *static_cast<cudaError_t*>(result) = cudaDeviceSynchronize();
                },
                &error),
            cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(error, cudaErrorNotPermitted);
}

TEST_F(RuntimeTest, MemoryIsLimited) {
  Reset({.memory_bytes = 1000});
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(cudaMalloc(&first, 600), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 401), cudaErrorMemoryAllocation);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  EXPECT_EQ(free_bytes, 400u);
  EXPECT_EQ(total_bytes, 1000u);
  ASSERT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(first), cudaErrorInvalidValue) << "freed twice";
  EXPECT_EQ(cudaMalloc(&second, 1000), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(RuntimeTest, CopiesAreChecked) {
  constexpr size_t kBytes = 64;
  std::vector<char> host(kBytes, 3);
  char* device = nullptr;
  char* pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&device, kBytes), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, kBytes), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(device, host.data(), kBytes, cudaMemcpyHostToDevice),
            cudaSuccess);
  EXPECT_EQ(cudaMemcpy(pinned, device, kBytes, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(pinned[kBytes - 1], 3);
  EXPECT_EQ(cudaMemcpy(device, host.data(), kBytes + 1, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue)
      << "past the end";
  EXPECT_EQ(cudaMemcpy(device + 1, pinned, kBytes, cudaMemcpyDefault),
            cudaErrorInvalidValue)
      << "past the end";
  EXPECT_EQ(cudaMemcpy(device, pinned, kBytes, cudaMemcpyDeviceToDevice),
            cudaErrorInvalidValue)
      << "not the device's";
  EXPECT_EQ(cudaMemcpy(host.data(), pinned, kBytes, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue)
      << "not the device's";
  EXPECT_EQ(cudaMemset(host.data(), 0, kBytes), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device + kBytes, host.data(), 0, cudaMemcpyDefault),
            cudaSuccess)
      << "no bytes";
}

TEST_F(RuntimeTest, PinnedMemoryIsReadWhenTheCopyRuns) {
  cudaStream_t const stream = NewStream();
  int* const from_pinned = NewInt();
  int* const from_pageable = NewInt();
  int pageable = 1;
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  *pinned = 1;
  Gate gate(stream);
  for (const auto& [to, from] :
       {std::pair(from_pinned, pinned), std::pair(from_pageable, &pageable)}) {
    ASSERT_EQ(
        cudaMemcpyAsync(to, from, sizeof(int), cudaMemcpyHostToDevice, stream),
        cudaSuccess);
    *from = 2;
  }
  gate.Open();
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(*from_pinned, 2);
  EXPECT_EQ(*from_pageable, 1);
}

TEST_F(RuntimeTest, PointersAreKnown) {
  int pageable = 0;
  int* const device = NewInt();
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, device), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &pageable), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);

  ASSERT_EQ(cudaHostRegister(&pageable, sizeof(int), 0), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(&pageable, sizeof(int), 0),
            cudaErrorHostMemoryAlreadyRegistered);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &pageable), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostUnregister(&pageable), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(&pageable), cudaErrorHostMemoryNotRegistered);
}

TEST_F(RuntimeTest, ALostContextIsReturnedByEveryCall) {
  cudaStream_t const stream = NewStream();
  cudaEvent_t const event = NewEvent();
  int* const data = NewInt();
  FailKernels(cudaErrorIllegalAddress);
  static_cast<void>(Store(data, 1, stream));
  static_cast<void>(cudaEventRecord(event, stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  EXPECT_EQ(*data, -1);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "never cleared";
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorIllegalAddress);
  EXPECT_EQ(Store(data, 1, stream), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorIllegalAddress);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorIllegalAddress),
               "cudaErrorIllegalAddress");

  Reset(Settings());
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
}

TEST_F(RuntimeTest, AnAllocationFailsOnRequest) {
  FailNextAllocation();
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
}

TEST_F(RuntimeTest, ThereMayBeNoDriverOrNoDevice) {
  int count = -1;
  void* memory = nullptr;
  int version = -1;
  Reset({.has_driver = false, .devices = 0});
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorInsufficientDriver);
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 0);
  Reset({.devices = 0});
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorNoDevice);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorNoDevice);
}

TEST_F(RuntimeTest, DevicesAreApart) {
  Reset({.devices = 2, .memory_bytes = 1000});
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  cudaStream_t const of_first = NewStream();
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 1000), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  int* const data = NewInt();
  EXPECT_EQ(Store(data, 1, of_first), cudaErrorInvalidResourceHandle);
  // Each thread begins with device 0.
  int current = -1;
  std::thread([&] { EXPECT_EQ(cudaGetDevice(&current), cudaSuccess); }).join();
  EXPECT_EQ(current, 0);

  FailKernels(cudaErrorLaunchFailure);
  static_cast<void>(Store(data, 1, nullptr));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(RuntimeTest, TheEnvironmentSetsTheDevices) {
  setenv("RINGMASTER_EMULATED_CUDA_DEVICES", "3", 1);
  setenv("RINGMASTER_EMULATED_CUDA_MEMORY", "4096", 1);
  EXPECT_EQ(SettingsFromEnvironment().devices, 3);
  EXPECT_EQ(SettingsFromEnvironment().memory_bytes, 4096);
  setenv("RINGMASTER_EMULATED_CUDA_DEVICES", "no_driver", 1);
  EXPECT_FALSE(SettingsFromEnvironment().has_driver);
  setenv("RINGMASTER_EMULATED_CUDA_DEVICES", "some", 1);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(SettingsFromEnvironment(),
               "RINGMASTER_EMULATED_CUDA_DEVICES=some is not a number");
  unsetenv("RINGMASTER_EMULATED_CUDA_DEVICES");
  unsetenv("RINGMASTER_EMULATED_CUDA_MEMORY");
}

}  // namespace
}  // namespace ringmaster::cuda_emulator
