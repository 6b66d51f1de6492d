// The CUDA runtime's functions about devices and errors.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "worker/device/cuda/emulator/runtime.h"

namespace ringmaster::cuda_emulator {
namespace {

struct ErrorWords {
  cudaError_t error;
  const char* name;
  const char* words;
};

#define ERROR_WORDS(error, words) \
  { error, #error, words }
constexpr ErrorWords kErrors[] = {
    ERROR_WORDS(cudaSuccess, "no error"),
    ERROR_WORDS(cudaErrorInvalidValue, "invalid argument"),
    ERROR_WORDS(cudaErrorMemoryAllocation, "out of memory"),
    ERROR_WORDS(cudaErrorInitializationError, "initialization error"),
    ERROR_WORDS(cudaErrorInvalidConfiguration,
                "invalid configuration argument"),
    ERROR_WORDS(cudaErrorInvalidMemcpyDirection,
                "invalid copy direction for memcpy"),
    ERROR_WORDS(cudaErrorStubLibrary, "CUDA driver is a stub library"),
    ERROR_WORDS(cudaErrorInsufficientDriver,
                "CUDA driver version is insufficient for CUDA runtime version"),
    ERROR_WORDS(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR_WORDS(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR_WORDS(cudaErrorNoKernelImageForDevice,
                "no kernel image is available for execution on the device"),
    ERROR_WORDS(cudaErrorECCUncorrectable,
                "uncorrectable ECC error encountered"),
    ERROR_WORDS(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR_WORDS(cudaErrorIllegalState,
                "the operation cannot be performed in the present state"),
    ERROR_WORDS(cudaErrorNotReady, "device not ready"),
    ERROR_WORDS(cudaErrorIllegalAddress,
                "an illegal memory access was encountered"),
    ERROR_WORDS(cudaErrorLaunchOutOfResources,
                "too many resources requested for launch"),
    ERROR_WORDS(cudaErrorLaunchTimeout,
                "the launch timed out and was terminated"),
    ERROR_WORDS(cudaErrorAssert, "device-side assert triggered"),
    ERROR_WORDS(cudaErrorHostMemoryAlreadyRegistered,
                "part or all of the requested memory range is already mapped"),
    ERROR_WORDS(cudaErrorHostMemoryNotRegistered,
                "pointer does not correspond to a registered memory region"),
    ERROR_WORDS(cudaErrorMisalignedAddress, "misaligned address"),
    ERROR_WORDS(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR_WORDS(cudaErrorNotPermitted, "operation not permitted"),
    ERROR_WORDS(cudaErrorNotSupported, "operation not supported"),
    ERROR_WORDS(cudaErrorSystemDriverMismatch,
                "system has unsupported display driver / cuda driver "
                "combination"),
    ERROR_WORDS(cudaErrorStreamCaptureUnsupported,
                "operation not permitted when stream is capturing"),
    ERROR_WORDS(cudaErrorStreamCaptureInvalidated,
                "operation failed due to a previous error during capture"),
    ERROR_WORDS(cudaErrorStreamCaptureMerge,
                "operation would result in a merge of separate capture "
                "sequences"),
    ERROR_WORDS(cudaErrorStreamCaptureUnmatched,
                "capture was not ended in the same stream as it began"),
    ERROR_WORDS(cudaErrorStreamCaptureUnjoined,
                "capturing stream has unjoined work"),
    ERROR_WORDS(cudaErrorStreamCaptureIsolation,
                "dependency created on uncaptured work in another stream"),
    ERROR_WORDS(cudaErrorStreamCaptureImplicit,
                "operation would make the legacy stream depend on a capturing "
                "blocking stream"),
    ERROR_WORDS(cudaErrorCapturedEvent,
                "operation not permitted on an event last recorded in a "
                "capturing stream"),
    ERROR_WORDS(cudaErrorStreamCaptureWrongThread,
                "attempt to terminate a thread-local capture sequence from "
                "another thread"),
    ERROR_WORDS(cudaErrorGraphExecUpdateFailure,
                "the graph update was not performed because it included "
                "changes which violated constraints specific to instantiated "
                "graph update"),
    ERROR_WORDS(cudaErrorUnknown, "unknown error"),
};
#undef ERROR_WORDS

const ErrorWords* FindWords(cudaError_t error) {
  for (const ErrorWords& words : kErrors) {
    if (words.error == error) return &words;
  }
  return nullptr;
}

// Like an H100, as far as anybody asks.
constexpr int kComputeMajor = 9;
constexpr int kComputeMinor = 0;
constexpr int kMultiprocessors = 4;
constexpr int kHighestPriority = -5;

bool IsDevice(int ordinal) {
  return ordinal >= 0 && ordinal < Runtime::Get().settings().devices;
}

// -1 for those that nobody asked for so far.
int Attribute(cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 0x7FFFFFFF;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 48 << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return 227 << 10;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return 228 << 10;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMultiProcessorCount:
      return kMultiprocessors;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrMaxRegistersPerBlock:
      return 65536;
    case cudaDevAttrL2CacheSize:
      return 50 << 20;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
      return 1'000'000;  // kHz
    case cudaDevAttrGlobalMemoryBusWidth:
      return 4096;  // bits
    case cudaDevAttrComputeCapabilityMajor:
      return kComputeMajor;
    case cudaDevAttrComputeCapabilityMinor:
      return kComputeMinor;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
      return 1;
    case cudaDevAttrIntegrated:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrMemoryPoolsSupported:
      return 0;
    default:
      return -1;
  }
}

void FillProperties(int ordinal, cudaDeviceProp* properties) {
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Emulated GPU");
  // The same in every process: it is one GPU.
  std::memcpy(properties->uuid.bytes, "RingmasterEmul", 14);
  properties->uuid.bytes[15] = static_cast<char>(ordinal);
  properties->totalGlobalMem =
      static_cast<size_t>(Runtime::Get().settings().memory_bytes);
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->sharedMemPerMultiprocessor = 228 << 10;
  properties->regsPerBlock = 65536;
  properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->major = kComputeMajor;
  properties->minor = kComputeMinor;
  properties->multiProcessorCount = kMultiprocessors;
  properties->l2CacheSize = 50 << 20;
  properties->memoryBusWidth = 4096;
  properties->pciBusID = ordinal + 1;
  properties->concurrentKernels = 1;
  properties->asyncEngineCount = 2;
  properties->unifiedAddressing = 1;
  properties->canMapHostMemory = 1;
  properties->streamPrioritiesSupported = 1;
  properties->hostRegisterSupported = 1;
}

}  // namespace
}  // namespace ringmaster::cuda_emulator

using ringmaster::cuda_emulator::Attribute;
using ringmaster::cuda_emulator::Call;
using ringmaster::cuda_emulator::CurrentDevice;
using ringmaster::cuda_emulator::FillProperties;
using ringmaster::cuda_emulator::FindWords;
using ringmaster::cuda_emulator::IsDevice;
using ringmaster::cuda_emulator::kHighestPriority;
using ringmaster::cuda_emulator::LastError;
using ringmaster::cuda_emulator::Runtime;
using ringmaster::cuda_emulator::StandingError;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = Runtime::Get().settings().devices;
  return Call([] { return cudaSuccess; });
}

// It does not go through Call: a lost device does not matter to the choice of
// another.
cudaError_t cudaSetDevice(int device) {
  const auto& settings = Runtime::Get().settings();
  cudaError_t error = cudaSuccess;
  if (!settings.has_driver) {
    error = cudaErrorInsufficientDriver;
  } else if (settings.devices == 0) {
    error = cudaErrorNoDevice;
  } else if (!IsDevice(device)) {
    error = cudaErrorInvalidDevice;
  } else {
    CurrentDevice() = device;
    error = StandingError();
  }
  if (error != cudaSuccess) LastError() = error;
  return error;
}

cudaError_t cudaGetDevice(int* device) {
  *device = CurrentDevice();
  return Call([] { return cudaSuccess; });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return Call([&] {
    if (!IsDevice(device)) return cudaErrorInvalidDevice;
    FillProperties(device, properties);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                   int device) {
  return Call([&] {
    if (!IsDevice(device)) return cudaErrorInvalidDevice;
    *value = Attribute(attribute);
    return *value < 0 ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return Call([&] {
    if (!IsDevice(device)) return cudaErrorInvalidDevice;
    const int needed = std::snprintf(text, static_cast<size_t>(length),
                                     "0000:%02X:00.0", device + 1);
    return needed < length ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return Call([] {
    Runtime& runtime = Runtime::Get();
    const cudaError_t error =
        runtime.captures().CheckDeviceWait(CurrentDevice());
    if (error == cudaSuccess) runtime.AwaitDevice(CurrentDevice());
    return error;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return Call([&] {
    if (lowest != nullptr) *lowest = 0;
    if (highest != nullptr) *highest = kHighestPriority;
    return cudaSuccess;
  });
}

// 0 where there is no driver, as there.
cudaError_t cudaDriverGetVersion(int* version) {
  *version = Runtime::Get().settings().has_driver ? CUDART_VERSION : 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  LastError() = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  if (LastError() != cudaSuccess) return LastError();
  const auto& settings = Runtime::Get().settings();
  if (!settings.has_driver || settings.devices == 0) return cudaSuccess;
  return Runtime::Get().device(CurrentDevice()).lost;
}

const char* cudaGetErrorName(cudaError_t error) {
  const auto* const words = FindWords(error);
  return words == nullptr ? "unrecognized error code" : words->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* const words = FindWords(error);
  return words == nullptr ? "unrecognized error code" : words->words;
}

}  // extern "C"
