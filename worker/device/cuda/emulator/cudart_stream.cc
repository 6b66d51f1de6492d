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

// In a capture an event is a place in the graph or, if it is external, a node.
cudaError_t RecordInCapture(const std::shared_ptr<Stream>& stream,
                            cudaEvent_t handle, unsigned flags) {
  Runtime& runtime = Runtime::Get();
  if (flags == cudaEventRecordExternal) {
    return runtime.captures().Add(*stream, {.record = handle});
  }
  CapturePoint point;
  const cudaError_t error = runtime.captures().Mark(*stream, &point);
  if (error == cudaSuccess) runtime.SetCaptured(handle, std::move(point));
  return error;
}

cudaError_t Record(cudaEvent_t handle, cudaStream_t stream_handle,
                   unsigned flags) {
  return Call([&] {
    Runtime& runtime = Runtime::Get();
    const auto stream = runtime.FindStream(stream_handle, CurrentDevice());
    Event event;
    if (stream == nullptr || !runtime.FindEvent(handle, &event) ||
        event.device != stream->device()) {
      return cudaErrorInvalidResourceHandle;
    }
    if (runtime.captures().IsCapturing(*stream)) {
      return RecordInCapture(stream, handle, flags);
    }
    if (stream == runtime.device(stream->device()).null_stream) {
      const cudaError_t error =
          runtime.captures().CheckNullStream(stream->device());
      if (error != cudaSuccess) return error;
    }
    auto mark = std::make_shared<Mark>();
    const uint64_t number = runtime.Submit(
        stream, [mark] { mark->Reach(); }, /*always=*/true);
    mark->Bind(stream, number);
    runtime.SetMark(handle, std::move(mark));
    return cudaSuccess;
  });
}

cudaError_t WaitEvent(const std::shared_ptr<Stream>& stream, cudaEvent_t handle,
                      const Event& event, unsigned flags) {
  Runtime& runtime = Runtime::Get();
  const bool is_capturing = runtime.captures().IsCapturing(*stream);
  if (is_capturing && flags == cudaEventWaitExternal) {
    // Waits for the record that is the last one when the graph runs.
    return runtime.captures().Add(*stream, {.work = [handle] {
      Event now;
      if (Runtime::Get().FindEvent(handle, &now) && now.mark != nullptr) {
        now.mark->Await();
      }
    }});
  }
  if (event.mark == nullptr && event.captured.capture == 0) {
    return cudaSuccess;  // never recorded
  }
  if (is_capturing || event.captured.capture != 0) {
    if (stream == runtime.device(stream->device()).null_stream) {
      return cudaErrorStreamCaptureImplicit;
    }
    return runtime.captures().Join(*stream, event.captured);
  }
  return runtime.Queue(
      stream, [mark = event.mark] { mark->Await(); }, /*always=*/true);
}

// Returns the error that refuses a wait for a stream or a look at it, if any.
cudaError_t CheckStreamWait(const std::shared_ptr<Stream>& stream) {
  Runtime& runtime = Runtime::Get();
  if (runtime.captures().IsCapturing(*stream)) {
    return runtime.captures().Fail(*stream, cudaErrorStreamCaptureUnsupported);
  }
  if (stream == runtime.device(stream->device()).null_stream) {
    const cudaError_t error =
        runtime.captures().CheckNullStream(stream->device());
    if (error != cudaSuccess) return error;
  }
  return runtime.captures().CheckUnsafe(stream->device());
}

cudaError_t CheckEventWait(const Event& event) {
  CaptureTable& captures = Runtime::Get().captures();
  const cudaError_t error = captures.CheckEvent(event.captured);
  return error == cudaSuccess ? captures.CheckUnsafe(event.device) : error;
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
using ringmaster::cuda_emulator::CheckEventWait;
using ringmaster::cuda_emulator::CheckStreamWait;
using ringmaster::cuda_emulator::CreateStream;
using ringmaster::cuda_emulator::CurrentDevice;
using ringmaster::cuda_emulator::Event;
using ringmaster::cuda_emulator::IsInHostFunction;
using ringmaster::cuda_emulator::Record;
using ringmaster::cuda_emulator::Runtime;
using ringmaster::cuda_emulator::WaitEvent;

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
    const cudaError_t error = CheckStreamWait(stream);
    if (error == cudaSuccess) {
      stream->Await(Runtime::Get().Submit(stream, [] {}));
    }
    return error;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return CallWithStream(handle, [](const auto& stream) {
    const cudaError_t error = CheckStreamWait(stream);
    if (error != cudaSuccess) return error;
    return Runtime::Get().IsIdle(stream) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle,
                                unsigned flags) {
  return CallWithEvent(handle, [&](const Event& event) {
    const auto stream =
        Runtime::Get().FindStream(stream_handle, CurrentDevice());
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return WaitEvent(stream, handle, event, flags);
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
  return Record(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                     unsigned flags) {
  return Record(event, stream, flags);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return CallWithEvent(handle, [](const Event& event) {
    const cudaError_t error = CheckEventWait(event);
    if (error != cudaSuccess) return error;
    return event.mark == nullptr || event.mark->IsReached() ? cudaSuccess
                                                            : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return CallWithEvent(handle, [](const Event& event) {
    const cudaError_t error = CheckEventWait(event);
    if (error == cudaSuccess && event.mark != nullptr) event.mark->Await();
    return error;
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
