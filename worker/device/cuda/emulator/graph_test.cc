// Stream capture and graphs of the emulated CUDA runtime.
#include "worker/device/cuda/emulator/graph.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "worker/device/cuda/emulator/emulator.h"
#include "worker/device/cuda/emulator/test_kernels.h"

namespace ringmaster::cuda_emulator {
namespace {

using ::testing::ElementsAre;

class GraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Reset(Settings());
    stream_ = NewStream();
    other_ = NewStream();
    event_ = NewEvent();
    ASSERT_EQ(cudaMalloc(&data_, 4 * sizeof(int)), cudaSuccess);
  }
  void TearDown() override { Reset(Settings()); }

  static cudaStream_t NewStream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    return stream;
  }
  static cudaEvent_t NewEvent() {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
              cudaSuccess);
    return event;
  }

  void Begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  cudaGraphExec_t EndAndInstantiate() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return exec;
  }
  // The capture's end says why there is no graph.
  void ExpectEnd(cudaError_t expected) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), expected);
    EXPECT_EQ(graph, nullptr);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  }

  cudaStream_t stream_ = nullptr;
  cudaStream_t other_ = nullptr;
  cudaEvent_t event_ = nullptr;
  int* data_ = nullptr;
};

TEST(AdverseOrderTest, KeepsDependenciesAndNothingElse) {
  // 0 -> 1 -> 4, 0 -> 2 -> 3 -> 4
  Graph graph;
  graph.nodes.resize(5);
  graph.nodes[1].after = {0};
  graph.nodes[2].after = {0};
  graph.nodes[3].after = {2};
  graph.nodes[4].after = {1, 3};
  EXPECT_THAT(AdverseOrder(graph), ElementsAre(0, 2, 3, 1, 4));
}

TEST_F(GraphTest, CapturedWorkRunsAtEachLaunch) {
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  Begin();
  ASSERT_EQ(Store(data_, 1, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned, data_, sizeof(int), cudaMemcpyDeviceToHost,
                            stream_),
            cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(data_, 0, sizeof(int), stream_), cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ASSERT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  cudaGraphExec_t const exec = EndAndInstantiate();
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(*data_, -1) << "captured work does not run";

  ASSERT_EQ(cudaGraphUpload(exec, stream_), cudaSuccess);
  for (int launch = 0; launch < 2; ++launch) {
    *pinned = 7;
    ASSERT_EQ(cudaGraphLaunch(exec, other_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
    EXPECT_EQ(*pinned, 1);
    EXPECT_EQ(*data_, 0);
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaErrorInvalidValue);
}

TEST_F(GraphTest, AStreamJoinsThroughAnEventAndBack) {
  cudaEvent_t const back = NewEvent();
  Begin();
  ASSERT_EQ(Store(data_, 1, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  ASSERT_EQ(Store(data_, 2, other_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(back, other_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, back, 0), cudaSuccess);
  ASSERT_EQ(Store(data_, 3, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorCapturedEvent);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);

  Begin();
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  ASSERT_EQ(Store(data_, 2, other_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(back, other_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, back, 0), cudaSuccess);
  ASSERT_EQ(Store(data_, 3, stream_), cudaSuccess);
  cudaGraphExec_t const exec = EndAndInstantiate();
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(*data_, 3);
}

TEST_F(GraphTest, AMissingDependencyShows) {
  cudaEvent_t const back = NewEvent();
  Begin();
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  ASSERT_EQ(Store(data_, 1, stream_), cudaSuccess);
  ASSERT_EQ(Store(data_, 2, other_), cudaSuccess) << "not behind the first";
  ASSERT_EQ(cudaEventRecord(back, other_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, back, 0), cudaSuccess);
  cudaGraphExec_t const exec = EndAndInstantiate();
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(*data_, 1);
}

TEST_F(GraphTest, AnExternalEventIsRecordedAtEachLaunch) {
  Begin();
  ASSERT_EQ(Store(data_, 1, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecordWithFlags(event_, stream_, cudaEventRecordExternal),
            cudaSuccess);
  ASSERT_EQ(Store(data_ + 1, 1, stream_), cudaSuccess);
  cudaGraphExec_t const exec = EndAndInstantiate();
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess) << "never recorded";
  for (int launch = 0; launch < 2; ++launch) {
    ASSERT_EQ(cudaMemset(data_, 0, 2 * sizeof(int)), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(data_ + 2, data_, sizeof(int),
                              cudaMemcpyDeviceToDevice, other_),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
    EXPECT_EQ(data_[2], 1);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
}

TEST_F(GraphTest, AnExternalWaitIsForTheRecordBeforeTheLaunch) {
  Begin();
  ASSERT_EQ(cudaStreamWaitEvent(stream_, event_, cudaEventWaitExternal),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(data_ + 1, data_, sizeof(int),
                            cudaMemcpyDeviceToDevice, stream_),
            cudaSuccess);
  cudaGraphExec_t const exec = EndAndInstantiate();
  ASSERT_EQ(Store(data_, 5, other_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, other_), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(data_[1], 5);
}

TEST_F(GraphTest, WorkThatIsNotJoinedIsAnError) {
  Begin();
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  ASSERT_EQ(Store(data_, 2, other_), cudaSuccess);
  ExpectEnd(cudaErrorStreamCaptureUnjoined);
}

TEST_F(GraphTest, WaitsAcrossTheCapturesBorderAreErrors) {
  ASSERT_EQ(cudaEventRecord(event_, other_), cudaSuccess);
  Begin();
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event_, 0),
            cudaErrorStreamCaptureIsolation);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);

  Begin();
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(other_, cudaStreamCaptureModeThreadLocal),
            cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other_, event_, 0),
            cudaErrorStreamCaptureMerge);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamWaitEvent(NewStream(), event_, 0),
            cudaErrorCapturedEvent);
}

TEST_F(GraphTest, CallsThatSynchroniseInvalidateACapture) {
  void* memory = nullptr;
  int pageable = 0;
  Begin();
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(Store(data_, 1, stream_), cudaErrorStreamCaptureInvalidated);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);
  Begin();
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorStreamCaptureUnsupported);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);
  Begin();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);
  Begin();
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorStreamCaptureUnsupported);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);
  Begin();
  EXPECT_EQ(cudaFree(data_), cudaErrorStreamCaptureUnsupported);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);
  Begin();
  EXPECT_EQ(
      cudaMemcpyAsync(data_, &pageable, 4, cudaMemcpyHostToDevice, stream_),
      cudaErrorStreamCaptureUnsupported);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);

  Begin(cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
  EndAndInstantiate();
}

TEST_F(GraphTest, AGlobalCaptureForbidsThemToOtherThreadsToo) {
  ASSERT_EQ(cudaEventRecord(event_, other_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  const auto query = [&](cudaStreamCaptureMode mode) {
    cudaError_t error = cudaErrorUnknown;
    std::thread([&] {
      EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
      EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
      error = cudaEventQuery(event_);
    }).join();
    return error;
  };
  Begin(cudaStreamCaptureModeGlobal);
  EXPECT_EQ(query(cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(query(cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);
  Begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(query(cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaError_t ended = cudaSuccess;
  std::thread([&] {
    cudaGraph_t graph = nullptr;
    ended = cudaStreamEndCapture(stream_, &graph);
  }).join();
  EXPECT_EQ(ended, cudaErrorStreamCaptureWrongThread);
  EndAndInstantiate();
}

TEST_F(GraphTest, TheNullStreamMayNotMeetACapture) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed),
            cudaErrorStreamCaptureUnsupported);
  Begin();
  EXPECT_EQ(Store(data_, 1, nullptr), cudaSuccess) << "not a blocking stream";
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed),
            cudaErrorIllegalState);
  EndAndInstantiate();
  stream_ = NewStream(cudaStreamDefault);
  Begin();
  EXPECT_EQ(Store(data_, 1, nullptr), cudaErrorStreamCaptureImplicit);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);
}

TEST_F(GraphTest, AnotherStreamCannotEndIt) {
  Begin();
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(other_, &graph),
            cudaErrorStreamCaptureUnmatched);
  ExpectEnd(cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorIllegalState);
}

TEST_F(GraphTest, ALostDeviceSkipsTheRest) {
  Begin();
  ASSERT_EQ(Store(data_, 1, stream_), cudaSuccess);
  ASSERT_EQ(Store(data_ + 1, 1, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecordWithFlags(event_, stream_, cudaEventRecordExternal),
            cudaSuccess);
  cudaGraphExec_t const exec = EndAndInstantiate();
  FailKernels(cudaErrorLaunchFailure);
  static_cast<void>(cudaGraphLaunch(exec, stream_));
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaErrorLaunchFailure);
  EXPECT_EQ(data_[1], -1);
}

TEST_F(GraphTest, AnUpdateIsRefused) {
  Begin();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaGraphExecUpdateResultInfo result;
  EXPECT_EQ(cudaGraphExecUpdate(exec, graph, &result),
            cudaErrorGraphExecUpdateFailure);
}

}  // namespace
}  // namespace ringmaster::cuda_emulator
