// The CUDA runtime's functions about streams and events.
#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <utility>

#include "worker/device/cuda/emulator/runtime.h"

namespace ringmaster::cuda_emulator {
namespace {

cudaError_t CreateStream(cudaStream_t* stream, unsigned flags) {
  return Call([&] {
    if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) {
      return cudaErrorInvalidValue;
    }
    *stream = Runtime::Get().AddStream(
        CurrentDevice(), /*is_blocking=*/flags == cudaStreamDefault);
    return cudaSuccess;
  });
}

cudaError_t Record(cudaEvent_t handle, cudaStream_t stream_handle) {
  return Call([&] {
    Runtime& runtime = Runtime::Get();
    const auto stream = runtime.FindStream(stream_handle, CurrentDevice());
    Event event;
    if (stream == nullptr || !runtime.FindEvent(handle, &event) ||
        event.device != stream->device()) {
      return cudaErrorInvalidResourceHandle;
    }
    auto mark = std::make_shared<Mark>();
    const uint64_t number = runtime.Submit(
        stream, [mark] { mark->Reach(); }, /*always=*/true);
    mark->Bind(stream, number);
    runtime.SetMark(handle, std::move(mark));
    return cudaSuccess;
  });
}

// Calls `function` with the event, unless there is none of that handle.
template <typename Function>
cudaError_t CallWithEvent(cudaEvent_t handle, Function function) {
  return Call([&]() -> cudaError_t {
    Event event;
    if (!Runtime::Get().FindEvent(handle, &event)) {
      return cudaErrorInvalidResourceHandle;
    }
    return function(event);
  });
}

template <typename Function>
cudaError_t CallWithStream(cudaStream_t handle, Function function) {
  return Call([&]() -> cudaError_t {
    const auto stream = Runtime::Get().FindStream(handle, CurrentDevice());
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return function(stream);
  });
}

}  // namespace
}  // namespace ringmaster::cuda_emulator

using ringmaster::cuda_emulator::Call;
using ringmaster::cuda_emulator::CallWithEvent;
using ringmaster::cuda_emulator::CallWithStream;
using ringmaster::cuda_emulator::CreateStream;
using ringmaster::cuda_emulator::CurrentDevice;
using ringmaster::cuda_emulator::Event;
using ringmaster::cuda_emulator::IsInHostFunction;
using ringmaster::cuda_emulator::Record;
using ringmaster::cuda_emulator::Runtime;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return CreateStream(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return CreateStream(stream, flags);
}

// A priority out of range is brought into it, so every one is as good.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                         int /*priority*/) {
  return CreateStream(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Call([&] {
    return Runtime::Get().RemoveStream(stream) ? cudaSuccess
                                               : cudaErrorInvalidResourceHandle;
  });
}

// Work of its own, since the null stream waits for the blocking ones too.
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return CallWithStream(handle, [](const auto& stream) {
    stream->Await(Runtime::Get().Submit(stream, [] {}));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return CallWithStream(handle, [](const auto& stream) {
    return Runtime::Get().IsIdle(stream) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle,
                                unsigned /*flags*/) {
  return CallWithEvent(event_handle, [&](const Event& event) {
    const auto stream = Runtime::Get().FindStream(handle, CurrentDevice());
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (event.mark == nullptr) return cudaSuccess;
    Runtime::Get().Submit(
        stream, [mark = event.mark] { mark->Await(); }, /*always=*/true);
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void* argument) {
  return ringmaster::cuda_emulator::Enqueue(stream, [=] {
    IsInHostFunction() = true;
    function(argument);
    IsInHostFunction() = false;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return Call([&] {
    *event = Runtime::Get().AddEvent(
        /*has_timing=*/(flags & cudaEventDisableTiming) == 0, CurrentDevice());
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Call([&] {
    return Runtime::Get().RemoveEvent(event) ? cudaSuccess
                                             : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Record(event, stream);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                     unsigned /*flags*/) {
  return Record(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return CallWithEvent(handle, [](const Event& event) {
    return event.mark == nullptr || event.mark->IsReached() ? cudaSuccess
                                                            : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return CallWithEvent(handle, [](const Event& event) {
    if (event.mark != nullptr) event.mark->Await();
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin_handle,
                                 cudaEvent_t end_handle) {
  return CallWithEvent(begin_handle, [&](const Event& begin) {
    Event end;
    if (!Runtime::Get().FindEvent(end_handle, &end) || !begin.has_timing ||
        !end.has_timing || begin.mark == nullptr || end.mark == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!begin.mark->IsReached() || !end.mark->IsReached()) {
      return cudaErrorNotReady;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(end.mark->time() -
                                                             begin.mark->time())
                        .count();
    return cudaSuccess;
  });
}

}  // extern "C"
