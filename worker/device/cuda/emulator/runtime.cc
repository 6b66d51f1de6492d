#include "worker/device/cuda/emulator/runtime.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/status/check.h"
#include "worker/device/cuda/emulator/activity.h"
#include "worker/device/cuda/emulator/launch.h"

namespace ringmaster::cuda_emulator {
namespace {

// The least alignment of cudaMalloc.
constexpr size_t kAlignment = 256;
constexpr int kMaxDevices = 64;
constexpr unsigned kMaxBlockThreads = 1024;
constexpr unsigned kMaxGridYZ = 65535;
constexpr unsigned kMaxBlockZ = 64;
// The limit of compute capability 9.0.
constexpr size_t kMaxSharedBytes = 227 << 10;

[[noreturn]] void RefuseSetting(const char* name, const char* value) {
  std::fprintf(stderr, "CUDA emulator: %s=%s is not a number that it can be\n",
               name, value);
  std::abort();
}

// Leaves `number` as it is where the environment says nothing.
void ReadNumber(const char* name, int64_t& number) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return;
  if (!absl::SimpleAtoi(value, &number) || number < 0) {
    RefuseSetting(name, value);
  }
}

bool IsLaunchable(const Grid& grid) {
  const uint64_t threads = uint64_t{grid.block.x} * grid.block.y * grid.block.z;
  const uint64_t blocks = uint64_t{grid.grid.x} * grid.grid.y * grid.grid.z;
  return threads >= 1 && threads <= kMaxBlockThreads && blocks >= 1 &&
         grid.block.x <= kMaxBlockThreads && grid.block.y <= kMaxBlockThreads &&
         grid.block.z <= kMaxBlockZ && grid.grid.x <= 0x7FFFFFFFu &&
         grid.grid.y <= kMaxGridYZ && grid.grid.z <= kMaxGridYZ;
}

}  // namespace

Settings SettingsFromEnvironment() {
  Settings settings;
  const char* const devices = std::getenv("RINGMASTER_EMULATED_CUDA_DEVICES");
  if (devices != nullptr && std::strcmp(devices, "no_driver") == 0) {
    settings.has_driver = false;
    settings.devices = 0;
  } else if (devices != nullptr &&
             (!absl::SimpleAtoi(devices, &settings.devices) ||
              settings.devices < 0 || settings.devices > kMaxDevices)) {
    RefuseSetting("RINGMASTER_EMULATED_CUDA_DEVICES", devices);
  }
  ReadNumber("RINGMASTER_EMULATED_CUDA_MEMORY", settings.memory_bytes);
  ReadNumber("RINGMASTER_EMULATED_CUDA_FAILING", settings.failing_kernel);
  ReadNumber("RINGMASTER_EMULATED_CUDA_HANGING", settings.hanging_kernel);
  return settings;
}

void Reset(const Settings& settings) { Runtime::Get().Reset(settings); }
void FailKernels(cudaError_t error) { Runtime::Get().FailKernels(error); }
void FailNextAllocation() { Runtime::Get().FailNextAllocation(); }

// Never destroyed: streams may run until the process ends.
Runtime& Runtime::Get() {
  static Runtime& runtime = *new Runtime();
  return runtime;
}

void Runtime::Reset(const Settings& settings) {
  captures_.Clear();
  for (size_t i = 0; i < devices_.size(); ++i) AwaitDevice(static_cast<int>(i));
  std::map<Stream*, std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(mutex_);
    DropFinishedStreams();
    streams.swap(streams_);
    events_.clear();
    for (const auto& [address, block] : memory_) {
      if (block.is_owned) std::free(reinterpret_cast<void*>(address));
    }
    memory_.clear();
    used_bytes_.assign(settings.devices, 0);
  }
  streams.clear();
  settings_ = settings;
  devices_.clear();
  for (int i = 0; i < settings.devices; ++i) {
    devices_.push_back(std::make_unique<Device>(i));
  }
  failing_kernels_ = cudaSuccess;
  kernels_ = 0;
  is_allocation_failing_ = false;
  CurrentDevice() = 0;
  LastError() = cudaSuccess;
}

std::shared_ptr<Stream> Runtime::FindStream(cudaStream_t handle, int device) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    return devices_[device]->null_stream;
  }
  MutexLock lock(mutex_);
  const auto it = streams_.find(reinterpret_cast<Stream*>(handle));
  return it == streams_.end() ? nullptr : it->second;
}

cudaStream_t Runtime::AddStream(int device, bool is_blocking) {
  auto stream = std::make_shared<Stream>(device, is_blocking);
  Stream* const key = stream.get();
  MutexLock lock(mutex_);
  DropFinishedStreams();
  streams_[key] = std::move(stream);
  return reinterpret_cast<cudaStream_t>(key);
}

bool Runtime::RemoveStream(cudaStream_t handle) {
  MutexLock lock(mutex_);
  const auto it = streams_.find(reinterpret_cast<Stream*>(handle));
  if (it == streams_.end()) return false;
  captures_.Forget(*it->second);
  retired_.push_back(std::move(it->second));
  streams_.erase(it);
  DropFinishedStreams();
  return true;
}

// The thread of a finished stream has nothing left to do, so to join it here
// does not wait for anything.
void Runtime::DropFinishedStreams() {
  std::erase_if(retired_, [](const std::shared_ptr<Stream>& stream) {
    return stream->IsDone(stream->submitted());
  });
}

cudaError_t Runtime::Queue(const std::shared_ptr<Stream>& stream,
                           std::function<void()> work, bool always) {
  if (captures_.IsCapturing(*stream)) {
    return captures_.Add(*stream, {.work = std::move(work)});
  }
  if (stream == devices_[stream->device()]->null_stream) {
    const cudaError_t error = captures_.CheckNullStream(stream->device());
    if (error != cudaSuccess) return error;
  }
  Submit(stream, std::move(work), always);
  return cudaSuccess;
}

uint64_t Runtime::Submit(const std::shared_ptr<Stream>& stream,
                         std::function<void()> work, bool always) {
  Device& device = *devices_[stream->device()];
  MutexLock lock(mutex_);
  std::vector<Position> before;
  const auto note = [&before](const std::shared_ptr<Stream>& other) {
    const uint64_t last = other->submitted();
    if (!other->IsDone(last)) before.push_back({other, last});
  };
  if (stream == device.null_stream) {
    for (const auto& [key, other] : streams_) {
      if (other->is_blocking() && other->device() == device.ordinal) {
        note(other);
      }
    }
    for (const auto& other : retired_) {
      if (other->is_blocking() && other->device() == device.ordinal) {
        note(other);
      }
    }
  } else if (stream->is_blocking()) {
    note(device.null_stream);
  }
  return stream->Submit(
      [&device, always, before = std::move(before), work = std::move(work)] {
        for (const Position& position : before) {
          position.stream->Await(position.number);
        }
        if (always || device.lost == cudaSuccess) work();
      });
}

void Runtime::AwaitDevice(int device) {
  std::vector<Position> all;
  {
    MutexLock lock(mutex_);
    const auto note = [&](const std::shared_ptr<Stream>& stream) {
      if (stream->device() == device) {
        all.push_back({stream, stream->submitted()});
      }
    };
    note(devices_[device]->null_stream);
    for (const auto& [key, stream] : streams_) note(stream);
    for (const auto& stream : retired_) note(stream);
  }
  for (const Position& position : all) position.stream->Await(position.number);
}

bool Runtime::IsIdle(const std::shared_ptr<Stream>& stream) {
  const auto is_done = [](const std::shared_ptr<Stream>& s) {
    return s->IsDone(s->submitted());
  };
  if (!is_done(stream)) return false;
  if (stream != devices_[stream->device()]->null_stream) return true;
  MutexLock lock(mutex_);
  for (const auto& [key, other] : streams_) {
    if (other->is_blocking() && other->device() == stream->device() &&
        !is_done(other)) {
      return false;
    }
  }
  return true;
}

cudaEvent_t Runtime::AddEvent(bool has_timing, int device) {
  auto event = std::make_unique<Event>();
  event->has_timing = has_timing;
  event->device = device;
  Event* const key = event.get();
  MutexLock lock(mutex_);
  events_[key] = std::move(event);
  return reinterpret_cast<cudaEvent_t>(key);
}

bool Runtime::RemoveEvent(cudaEvent_t handle) {
  MutexLock lock(mutex_);
  return events_.erase(reinterpret_cast<Event*>(handle)) == 1;
}

bool Runtime::FindEvent(cudaEvent_t handle, Event* event) {
  MutexLock lock(mutex_);
  const auto it = events_.find(reinterpret_cast<Event*>(handle));
  if (it == events_.end()) return false;
  *event = *it->second;
  return true;
}

void Runtime::SetMark(cudaEvent_t handle, std::shared_ptr<Mark> mark) {
  MutexLock lock(mutex_);
  const auto it = events_.find(reinterpret_cast<Event*>(handle));
  if (it == events_.end()) return;
  it->second->mark = std::move(mark);
  it->second->captured = {};
}

void Runtime::SetCaptured(cudaEvent_t handle, CapturePoint point) {
  MutexLock lock(mutex_);
  const auto it = events_.find(reinterpret_cast<Event*>(handle));
  if (it != events_.end()) it->second->captured = std::move(point);
}

void* Runtime::Allocate(MemoryKind kind, size_t bytes, int device) {
  if (is_allocation_failing_.exchange(false)) return nullptr;
  const bool is_device = kind == MemoryKind::kDevice;
  MutexLock lock(mutex_);
  if (is_device && bytes > static_cast<size_t>(settings_.memory_bytes -
                                               used_bytes_[device])) {
    return nullptr;
  }
  void* data = nullptr;
  if (posix_memalign(&data, kAlignment, bytes) != 0) return nullptr;
  std::memset(data, 0xFF, bytes);
  memory_[reinterpret_cast<uintptr_t>(data)] = {
      .bytes = bytes, .kind = kind, .device = device};
  if (is_device) used_bytes_[device] += static_cast<int64_t>(bytes);
  return data;
}

bool Runtime::Free(MemoryKind kind, void* data) {
  MutexLock lock(mutex_);
  const auto it = memory_.find(reinterpret_cast<uintptr_t>(data));
  if (it == memory_.end() || it->second.kind != kind || !it->second.is_owned) {
    return false;
  }
  if (kind == MemoryKind::kDevice) {
    used_bytes_[it->second.device] -= static_cast<int64_t>(it->second.bytes);
  }
  std::free(data);
  memory_.erase(it);
  return true;
}

bool Runtime::Register(void* data, size_t bytes) {
  const MemoryRange range = Find(data, bytes);
  if (range.kind != MemoryKind::kPageable) return false;
  MutexLock lock(mutex_);
  memory_[reinterpret_cast<uintptr_t>(data)] = {
      .bytes = bytes, .kind = MemoryKind::kPinned, .is_owned = false};
  return true;
}

bool Runtime::Unregister(void* data) {
  MutexLock lock(mutex_);
  const auto it = memory_.find(reinterpret_cast<uintptr_t>(data));
  if (it == memory_.end() || it->second.is_owned) return false;
  memory_.erase(it);
  return true;
}

MemoryRange Runtime::Find(const void* data, size_t bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(data);
  MutexLock lock(mutex_);
  auto it = memory_.upper_bound(address);
  if (it == memory_.begin()) return {};
  --it;
  const size_t offset = address - it->first;
  const Block& block = it->second;
  // One past the end is still the allocation's, for a copy of no bytes.
  if (offset > block.bytes || (offset == block.bytes && bytes > 0)) return {};
  return {.kind = block.kind,
          .device = block.device,
          .base = reinterpret_cast<void*>(it->first),
          .is_whole = bytes <= block.bytes - offset};
}

int64_t Runtime::FreeBytes(int device) {
  MutexLock lock(mutex_);
  return settings_.memory_bytes - used_bytes_[device];
}

bool Runtime::MayRunKernel(int device) {
  if (settings_.failing_kernel > 0 || settings_.hanging_kernel > 0) {
    const int64_t number = kernels_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (number == settings_.hanging_kernel) {
      while (true) pause();
    }
    if (number == settings_.failing_kernel) {
      failing_kernels_ = cudaErrorIllegalAddress;
    }
  }
  // Relaxed, since an order between kernels of two streams would hide from
  // ThreadSanitizer that the program has none.
  if (failing_kernels_.load(std::memory_order_relaxed) == cudaSuccess) {
    return true;
  }
  const cudaError_t failure = failing_kernels_.exchange(cudaSuccess);
  if (failure != cudaSuccess) devices_[device]->lost = failure;
  return failure == cudaSuccess;
}

int& CurrentDevice() {
  static thread_local int device = 0;
  return device;
}

cudaError_t& LastError() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

bool& IsInHostFunction() {
  static thread_local bool is_in_host_function = false;
  return is_in_host_function;
}

cudaError_t StandingError() {
  if (IsInHostFunction()) return cudaErrorNotPermitted;
  Runtime& runtime = Runtime::Get();
  if (!runtime.settings().has_driver) return cudaErrorInsufficientDriver;
  if (runtime.settings().devices == 0) return cudaErrorNoDevice;
  return runtime.device(CurrentDevice()).lost;
}

cudaError_t Enqueue(cudaStream_t handle, std::function<void()> work) {
  return Call([&] {
    Runtime& runtime = Runtime::Get();
    const auto stream = runtime.FindStream(handle, CurrentDevice());
    if (stream == nullptr || stream->device() != CurrentDevice()) {
      return cudaErrorInvalidResourceHandle;
    }
    return runtime.Queue(stream, std::move(work));
  });
}

cudaError_t EnqueueKernel(cudaStream_t stream, std::function<void()> work) {
  return Enqueue(stream, [work = std::move(work), device = CurrentDevice()] {
    if (Runtime::Get().MayRunKernel(device)) work();
  });
}

cudaError_t QueueGrid(Grid grid, cudaStream_t stream) {
  if (!IsLaunchable(grid)) {
    return Call([] { return cudaErrorInvalidConfiguration; });
  }
  if (grid.shared_bytes > kMaxSharedBytes) {
    return Call([] { return cudaErrorInvalidValue; });
  }
  return EnqueueKernel(stream, [grid = std::move(grid)] {
    RunNoted(
        ActivityKind::kKernel,
        [&] { return Activity{.name = LaunchName(grid.launched_at)}; },
        [&] { RunGrid(grid); });
  });
}

}  // namespace ringmaster::cuda_emulator
