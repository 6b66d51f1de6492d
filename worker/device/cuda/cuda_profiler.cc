#include "worker/device/cuda/cuda_profiler.h"

#include <cuda_runtime_api.h>
#include <cupti.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "common/sync/thread_annotations.h"
#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/cupti_library.h"
#include "worker/device/cuda/kernel_name.h"

namespace ringmaster {
namespace {

constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET};

const char* CopyName(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "Memcpy HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "Memcpy DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "Memcpy DtoD";
    default:
      return "Memcpy";
  }
}

// The receiver of CUPTI's records: its callbacks have no argument of ours.
// Thread-safe.
class Collector {
 public:
  static Collector& Get() {
    static Collector& collector = *new Collector();
    return collector;
  }

  // Loads CUPTI and makes itself known to it, once in a process.
  [[nodiscard]] absl::Status Prepare() {
    if (cupti_.has_value()) return absl::OkStatus();
    ASSIGN_OR_RETURN(CuptiLibrary cupti, CuptiLibrary::Load());
    RETURN_IF_ERROR(cupti.ToStatus(
        cupti.functions().ActivityRegisterCallbacks(&GiveBuffer, &TakeBuffer),
        "cuptiActivityRegisterCallbacks"));
    cupti_ = std::move(cupti);
    return absl::OkStatus();
  }
  // Requires Prepare.
  const CuptiLibrary& cupti() const { return *cupti_; }

  // Takes the collector; returns true if nobody had it.
  bool Occupy() {
    MutexLock lock(mutex_);
    return !std::exchange(is_occupied_, true);
  }
  void Leave() {
    MutexLock lock(mutex_);
    is_occupied_ = false;
    profile_ = {};
    by_name_.clear();
  }
  GpuProfile Take() {
    MutexLock lock(mutex_);
    GpuProfile profile = std::exchange(profile_, {});
    for (auto& [symbol, activity] : by_name_) {
      profile.activities.push_back(std::move(activity));
    }
    by_name_.clear();
    std::stable_sort(profile.activities.begin(), profile.activities.end(),
                     [](const GpuActivity& a, const GpuActivity& b) {
                       return a.time > b.time;
                     });
    return profile;
  }

 private:
  static void GiveBuffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
    *buffer = new uint8_t[kBufferBytes];  // aligned to 16, more than it needs
    *bytes = kBufferBytes;
    *max_records = 0;  // as many as fit
  }
  static void TakeBuffer(CUcontext context, uint32_t stream, uint8_t* buffer,
                         size_t /*bytes*/, size_t valid_bytes) {
    Collector::Get().Read(context, stream, buffer, valid_bytes);
    delete[] buffer;
  }

  void Read(CUcontext context, uint32_t stream, uint8_t* buffer,
            size_t valid_bytes) {
    const CuptiFunctions& cupti = cupti_->functions();
    CUpti_Activity* record = nullptr;
    size_t dropped = 0;
    if (cupti.ActivityGetNumDroppedRecords(context, stream, &dropped) !=
        CUPTI_SUCCESS) {
      dropped = 0;
    }
    MutexLock lock(mutex_);
    profile_.lost += static_cast<int64_t>(dropped);
    while (valid_bytes > 0 &&
           cupti.ActivityGetNextRecord(buffer, valid_bytes, &record) ==
               CUPTI_SUCCESS) {
      Add(*record);
    }
  }

  void Add(const CUpti_Activity& record) REQUIRES(mutex_) {
    switch (record.kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& kernel =
            reinterpret_cast<const CUpti_ActivityKernel10&>(record);
        return Add(kernel.name == nullptr ? "a kernel" : kernel.name,
                   kernel.start, kernel.end);
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy =
            reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
        return Add(CopyName(copy.copyKind), copy.start, copy.end);
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& fill =
            reinterpret_cast<const CUpti_ActivityMemset4&>(record);
        return Add("Memset", fill.start, fill.end);
      }
      default:
        return;  // nobody asked for it
    }
  }
  void Add(const char* symbol, uint64_t start, uint64_t end) REQUIRES(mutex_) {
    if (end == CUPTI_TIMESTAMP_UNKNOWN || end < start) {
      ++profile_.lost;
      return;
    }
    GpuActivity& activity = by_name_[symbol];
    if (activity.count++ == 0) activity.name = KernelName(symbol);
    activity.time += absl::Nanoseconds(static_cast<int64_t>(end - start));
  }

  std::optional<CuptiLibrary> cupti_;  // constant since Prepare
  Mutex mutex_;
  bool is_occupied_ GUARDED_BY(mutex_) = false;
  GpuProfile profile_ GUARDED_BY(mutex_);
  std::map<std::string, GpuActivity> by_name_ GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaProfiler>> CudaProfiler::Start() {
  Collector& collector = Collector::Get();
  if (!collector.Occupy()) {
    return absl::FailedPreconditionError(
        "a CudaProfiler runs in this process already");
  }
  // Its destructor leaves.
  std::unique_ptr<CudaProfiler> profiler(new CudaProfiler());
  RETURN_IF_ERROR(collector.Prepare());
  profiler->is_enabled_ = true;
  for (const CUpti_ActivityKind kind : kKinds) {
    RETURN_IF_ERROR(collector.cupti().ToStatus(
        collector.cupti().functions().ActivityEnable(kind),
        "cuptiActivityEnable"));
  }
  return profiler;
}

// Errors that can occur here were reported by Start or Stop.
CudaProfiler::~CudaProfiler() {
  static_cast<void>(Disable());
  Collector::Get().Leave();
}

absl::Status CudaProfiler::Disable() {
  if (!std::exchange(is_enabled_, false)) return absl::OkStatus();
  const CuptiLibrary& cupti = Collector::Get().cupti();
  absl::Status status;
  for (const CUpti_ActivityKind kind : kKinds) {
    status.Update(cupti.ToStatus(cupti.functions().ActivityDisable(kind),
                                 "cuptiActivityDisable"));
  }
  return status;
}

absl::StatusOr<GpuProfile> CudaProfiler::Stop() {
  if (!is_enabled_) {
    return absl::FailedPreconditionError("the CudaProfiler has ended before");
  }
  RETURN_IF_ERROR(
      CudaStatus(cudaDeviceSynchronize(), "waiting for what is profiled"));
  const CuptiLibrary& cupti = Collector::Get().cupti();
  // All is done, so nothing has to be forced out.
  RETURN_IF_ERROR(cupti.ToStatus(cupti.functions().ActivityFlushAll(0),
                                 "cuptiActivityFlushAll"));
  RETURN_IF_ERROR(Disable());
  return Collector::Get().Take();
}

}  // namespace ringmaster
