// The CUDA runtime's functions about memory.
#include <cuda_runtime_api.h>
#include <cupti.h>

#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "worker/device/cuda/emulator/activity.h"
#include "worker/device/cuda/emulator/runtime.h"

namespace ringmaster::cuda_emulator {
namespace {

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  cudaMemcpyKind kind;
};

// Returns true if `memory` may be the side of a copy that the caller says is on
// the device (or on the host).
bool Fits(const MemoryRange& memory, bool is_device) {
  return memory.is_whole && (memory.kind == MemoryKind::kDevice) == is_device;
}

bool IsValid(const Copy& copy, const MemoryRange& to, const MemoryRange& from) {
  switch (copy.kind) {
    case cudaMemcpyHostToHost:
      return Fits(to, false) && Fits(from, false);
    case cudaMemcpyHostToDevice:
      return Fits(to, true) && Fits(from, false);
    case cudaMemcpyDeviceToHost:
      return Fits(to, false) && Fits(from, true);
    case cudaMemcpyDeviceToDevice:
      return Fits(to, true) && Fits(from, true);
    case cudaMemcpyDefault:
      return to.is_whole && from.is_whole;
  }
  return false;
}

// As CUPTI names it.
uint8_t KindFor(const MemoryRange& to, const MemoryRange& from) {
  if (to.kind != MemoryKind::kDevice) {
    return from.kind == MemoryKind::kDevice ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                                            : CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
  }
  return from.kind == MemoryKind::kDevice ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOD
                                          : CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
}

// The device knows nothing of pageable host memory: the runtime copies such a
// source before it returns, and waits until such a destination is written. So a
// graph cannot hold such a copy.
cudaError_t QueueCopy(const Copy& copy, cudaStream_t handle) {
  Runtime& runtime = Runtime::Get();
  if (copy.bytes == 0) return cudaSuccess;
  const MemoryRange to = runtime.Find(copy.to, copy.bytes);
  const MemoryRange from = runtime.Find(copy.from, copy.bytes);
  if (!IsValid(copy, to, from)) return cudaErrorInvalidValue;
  const auto stream = runtime.FindStream(handle, CurrentDevice());
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const bool is_pageable =
      to.kind == MemoryKind::kPageable || from.kind == MemoryKind::kPageable;
  if (is_pageable && runtime.captures().IsCapturing(*stream)) {
    return runtime.captures().Fail(*stream, cudaErrorStreamCaptureUnsupported);
  }
  std::function<void()> work = [copy] {
    std::memmove(copy.to, copy.from, copy.bytes);
  };
  if (from.kind == MemoryKind::kPageable) {
    const char* const begin = static_cast<const char*>(copy.from);
    work = [to = copy.to, data = std::make_shared<std::vector<char>>(
                              begin, begin + copy.bytes)] {
      std::memcpy(to, data->data(), data->size());
    };
  }
  const uint8_t kind = KindFor(to, from);
  const cudaError_t error = runtime.Queue(stream, [kind,
                                                   work = std::move(work)] {
    RunNoted(
        ActivityKind::kCopy, [&] { return Activity{.copy_kind = kind}; }, work);
  });
  if (error == cudaSuccess && to.kind == MemoryKind::kPageable) {
    stream->Await(stream->submitted());
  }
  return error;
}

cudaError_t QueueFill(void* data, int value, size_t bytes,
                      cudaStream_t handle) {
  Runtime& runtime = Runtime::Get();
  if (bytes == 0) return cudaSuccess;
  const MemoryRange range = runtime.Find(data, bytes);
  if (!Fits(range, true)) return cudaErrorInvalidValue;
  const auto stream = runtime.FindStream(handle, CurrentDevice());
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  return runtime.Queue(stream, [=] {
    RunNoted(
        ActivityKind::kFill, [] { return Activity{}; },
        [&] { std::memset(data, value, bytes); });
  });
}

cudaError_t Allocate(MemoryKind kind, void** data, size_t bytes) {
  return Call([&] {
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    Runtime& runtime = Runtime::Get();
    const cudaError_t error = runtime.captures().CheckUnsafe(CurrentDevice());
    if (error != cudaSuccess) return error;
    *data = runtime.Allocate(kind, bytes, CurrentDevice());
    return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

cudaError_t Free(MemoryKind kind, void* data) {
  return Call([&] {
    if (data == nullptr) return cudaSuccess;
    Runtime& runtime = Runtime::Get();
    const cudaError_t error = runtime.captures().CheckUnsafe(CurrentDevice());
    if (error != cudaSuccess) return error;
    // Device memory is its device's alone; pinned memory may be used by any.
    const int device = runtime.Find(data, 1).device;
    for (int i = 0; i < runtime.settings().devices; ++i) {
      if (kind == MemoryKind::kDevice && i != device) continue;
      runtime.AwaitDevice(i);
    }
    return runtime.Free(kind, data) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

}  // namespace
}  // namespace ringmaster::cuda_emulator

using ringmaster::cuda_emulator::Allocate;
using ringmaster::cuda_emulator::Call;
using ringmaster::cuda_emulator::CurrentDevice;
using ringmaster::cuda_emulator::Free;
using ringmaster::cuda_emulator::MemoryKind;
using ringmaster::cuda_emulator::MemoryRange;
using ringmaster::cuda_emulator::QueueCopy;
using ringmaster::cuda_emulator::QueueFill;
using ringmaster::cuda_emulator::Runtime;

extern "C" {

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return Call([&] {
    Runtime& runtime = Runtime::Get();
    *free_bytes = static_cast<size_t>(runtime.FreeBytes(CurrentDevice()));
    *total_bytes = static_cast<size_t>(runtime.settings().memory_bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return Allocate(MemoryKind::kDevice, data, bytes);
}

cudaError_t cudaFree(void* data) { return Free(MemoryKind::kDevice, data); }

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned /*flags*/) {
  return Allocate(MemoryKind::kPinned, data, bytes);
}

cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return Allocate(MemoryKind::kPinned, data, bytes);
}

cudaError_t cudaFreeHost(void* data) { return Free(MemoryKind::kPinned, data); }

cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned /*flags*/) {
  return Call([&] {
    if (data == nullptr || bytes == 0) return cudaErrorInvalidValue;
    return Runtime::Get().Register(data, bytes)
               ? cudaSuccess
               : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* data) {
  return Call([&] {
    if (data == nullptr) return cudaErrorInvalidValue;
    return Runtime::Get().Unregister(data) ? cudaSuccess
                                           : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                     const void* data) {
  return Call([&] {
    const MemoryRange range = Runtime::Get().Find(data, 1);
    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;  // no device's
    if (range.base == nullptr) {
      attributes->hostPointer = const_cast<void*>(data);
      return cudaSuccess;
    }
    attributes->device = range.device;
    attributes->devicePointer = const_cast<void*>(data);
    if (range.kind == MemoryKind::kDevice) {
      attributes->type = cudaMemoryTypeDevice;
    } else {
      attributes->type = cudaMemoryTypeHost;
      attributes->hostPointer = const_cast<void*>(data);
    }
    return cudaSuccess;
  });
}

// A copy between device memory alone does not keep the host waiting.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                       cudaMemcpyKind kind) {
  return Call([&] {
    Runtime& runtime = Runtime::Get();
    cudaError_t error = runtime.captures().CheckUnsafe(CurrentDevice());
    if (error == cudaSuccess)
      error = QueueCopy({to, from, bytes, kind}, nullptr);
    if (error == cudaSuccess && kind != cudaMemcpyDeviceToDevice) {
      const auto stream = runtime.FindStream(nullptr, CurrentDevice());
      stream->Await(stream->submitted());
    }
    return error;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return Call([&] { return QueueCopy({to, from, bytes, kind}, stream); });
}

// Does not keep the host waiting either.
cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  return Call([&] {
    const cudaError_t error =
        Runtime::Get().captures().CheckUnsafe(CurrentDevice());
    return error == cudaSuccess ? QueueFill(data, value, bytes, nullptr)
                                : error;
  });
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes,
                            cudaStream_t stream) {
  return Call([&] { return QueueFill(data, value, bytes, stream); });
}

}  // extern "C"
