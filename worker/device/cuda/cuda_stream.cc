#include "worker/device/cuda/cuda_stream.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "worker/device/cuda/cuda_status.h"

namespace ringmaster {
namespace {

std::atomic<int64_t> total_launches{0};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaEvent>> CudaEvent::Create(Timing timing) {
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(
      CudaStatus(cudaEventCreateWithFlags(&event, timing == Timing::kOn
                                                      ? cudaEventDefault
                                                      : cudaEventDisableTiming),
                 "cudaEventCreate"));
  return std::unique_ptr<CudaEvent>(new CudaEvent(event));
}

// An error that these return can only be that of other work, and shows where
// that work is waited for.
CudaEvent::~CudaEvent() { static_cast<void>(cudaEventDestroy(event_)); }

absl::StatusOr<bool> CudaEvent::IsDone() const {
  const cudaError_t error = cudaEventQuery(event_);
  if (error == cudaErrorNotReady) return false;
  RETURN_IF_ERROR(CudaStatus(error, "cudaEventQuery"));
  return true;
}

absl::Status CudaEvent::Wait() const {
  return CudaStatus(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

absl::StatusOr<absl::Duration> CudaEvent::Between(const CudaEvent& begin,
                                                  const CudaEvent& end) {
  float milliseconds = 0;
  RETURN_IF_ERROR(
      CudaStatus(cudaEventElapsedTime(&milliseconds, begin.event_, end.event_),
                 "cudaEventElapsedTime"));
  return absl::Milliseconds(milliseconds);
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(
    std::string name, Priority priority) {
  int lowest = 0;
  int highest = 0;
  RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
                 "cudaDeviceGetStreamPriorityRange"));
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithPriority(
                     &stream, cudaStreamNonBlocking,
                     priority == Priority::kHigh ? highest : lowest),
                 absl::StrCat("cudaStreamCreate (", name, ")")));
  return std::unique_ptr<CudaStream>(new CudaStream(stream, std::move(name)));
}

CudaGraph::~CudaGraph() { static_cast<void>(cudaGraphExecDestroy(exec_)); }

int64_t CudaGraph::TotalLaunches() {
  return total_launches.load(std::memory_order_relaxed);
}

CudaStream::~CudaStream() { static_cast<void>(cudaStreamDestroy(stream_)); }

void CudaStream::Check(cudaError_t error, std::string_view what,
                       std::source_location where) {
  if (error == cudaSuccess || !status_.ok()) return;
  status_ = CudaStatus(error, what, where);
}

void CudaStream::Note(const absl::Status& status) { status_.Update(status); }

void CudaStream::CopyToDevice(void* device, const void* host, int64_t bytes) {
  if (bytes == 0) return;
  Check(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes),
                        cudaMemcpyHostToDevice, stream_),
        "a copy to the device");
}

void CudaStream::CopyToHost(void* host, const void* device, int64_t bytes) {
  if (bytes == 0) return;
  Check(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes),
                        cudaMemcpyDeviceToHost, stream_),
        "a copy to the host");
}

void CudaStream::CopyOnDevice(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  Check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                        cudaMemcpyDeviceToDevice, stream_),
        "a copy on the device");
}

void CudaStream::FillZero(void* device, int64_t bytes) {
  if (bytes == 0) return;
  Check(cudaMemsetAsync(device, 0, static_cast<size_t>(bytes), stream_),
        "cudaMemsetAsync");
}

void CudaStream::Record(CudaEvent& event) {
  Check(is_capturing_ ? cudaEventRecordWithFlags(event.get(), stream_,
                                                 cudaEventRecordExternal)
                      : cudaEventRecord(event.get(), stream_),
        "cudaEventRecord");
}

const CudaEvent& CudaStream::MarkReady(CudaEvent& own) {
  if (ready_ != nullptr) return *ready_;
  Record(own);
  return own;
}

absl::Status CudaStream::BeginCapture() {
  RM_CHECK(status_.ok() && !is_capturing_, "a stream that works is captured");
  RETURN_IF_ERROR(CudaStatus(
      cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
      absl::StrCat("a capture of the ", name_, " stream")));
  is_capturing_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CudaGraph>> CudaStream::EndCapture() {
  RM_CHECK(is_capturing_, "a capture ends that began");
  is_capturing_ = false;
  absl::Status status = std::exchange(status_, absl::OkStatus());
  cudaGraph_t graph = nullptr;
  status.Update(CudaStatus(cudaStreamEndCapture(stream_, &graph),
                           "cudaStreamEndCapture"));
  cudaGraphExec_t exec = nullptr;
  if (status.ok()) {
    status = CudaStatus(cudaGraphInstantiate(&exec, graph, 0),
                        "cudaGraphInstantiate");
  }
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  // Takes the memory that launches need, or fails now.
  if (status.ok()) {
    status = CudaStatus(cudaGraphUpload(exec, stream_), "cudaGraphUpload");
    if (!status.ok()) static_cast<void>(cudaGraphExecDestroy(exec));
  }
  // The errors are returned; the next call must not find them again.
  if (!status.ok()) static_cast<void>(cudaGetLastError());
  RETURN_IF_ERROR(status);
  return std::unique_ptr<CudaGraph>(new CudaGraph(exec, memory_epoch_));
}

void CudaStream::Launch(const CudaGraph& graph) {
  RM_CHECK(!IsExpired(graph), "a graph is launched whose memory is there");
  Check(cudaGraphLaunch(graph.exec_, stream_), "cudaGraphLaunch");
  total_launches.fetch_add(1, std::memory_order_relaxed);
}

void CudaStream::WaitFor(const CudaEvent& event) {
  Check(cudaStreamWaitEvent(stream_, event.get(), 0), "cudaStreamWaitEvent");
}

absl::Status CudaStream::Synchronize() {
  Check(cudaStreamSynchronize(stream_), absl::StrCat("the ", name_, " stream"));
  return status_;
}

}  // namespace ringmaster
