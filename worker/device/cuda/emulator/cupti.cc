// The activity API of CUPTI, as much as cupti_library.h calls of it: kernels,
// copies and fills of the whole process. Records are delivered by
// cuptiActivityFlushAll alone.
#include <cupti.h>

#include <array>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/sync/mutex.h"
#include "common/sync/thread_annotations.h"
#include "worker/device/cuda/emulator/activity.h"
#include "worker/device/cuda/emulator/runtime.h"

namespace ringmaster::cuda_emulator {
namespace {

constexpr std::pair<CUpti_ActivityKind, ActivityKind> kKinds[] = {
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, ActivityKind::kKernel},
    {CUPTI_ACTIVITY_KIND_MEMCPY, ActivityKind::kCopy},
    {CUPTI_ACTIVITY_KIND_MEMSET, ActivityKind::kFill},
};

CUptiResult SetWanted(CUpti_ActivityKind kind, bool is_wanted) {
  if (StandingError() != cudaSuccess) return CUPTI_ERROR_NOT_INITIALIZED;
  for (const auto& [cupti, ours] : kKinds) {
    if (cupti != kind) continue;
    ActivityLog::Get().SetWanted(ours, is_wanted);
    return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_KIND;
}

struct Callbacks {
  Mutex mutex;
  CUpti_BuffersCallbackRequestFunc request GUARDED_BY(mutex) = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete GUARDED_BY(mutex) = nullptr;
  // Records point to them.
  std::set<std::string> names GUARDED_BY(mutex);
};

Callbacks& TheCallbacks() {
  static Callbacks& callbacks = *new Callbacks();
  return callbacks;
}

size_t SizeOf(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    default:
      return sizeof(CUpti_ActivityMemset4);
  }
}

// The bytes of a record.
template <typename Record>
std::vector<uint8_t> Bytes(const Record& record) {
  std::vector<uint8_t> bytes(sizeof(record));
  std::memcpy(bytes.data(), &record, sizeof(record));
  return bytes;
}

std::vector<uint8_t> RecordOf(const Activity& activity, const char* name) {
  switch (activity.kind) {
    case ActivityKind::kKernel: {
      CUpti_ActivityKernel10 record = {};
      record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
      record.start = activity.begin;
      record.end = activity.end;
      record.name = name;
      return Bytes(record);
    }
    case ActivityKind::kCopy: {
      CUpti_ActivityMemcpy6 record = {};
      record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
      record.copyKind = activity.copy_kind;
      record.start = activity.begin;
      record.end = activity.end;
      return Bytes(record);
    }
    case ActivityKind::kFill:
      break;
  }
  CUpti_ActivityMemset4 record = {};
  record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  record.start = activity.begin;
  record.end = activity.end;
  return Bytes(record);
}

// Fills one buffer after another, and gives each back.
void Deliver(const std::vector<Activity>& activities, Callbacks& callbacks)
    REQUIRES(callbacks.mutex) {
  uint8_t* buffer = nullptr;
  size_t size = 0;
  size_t used = 0;
  size_t max_records = 0;
  for (const Activity& activity : activities) {
    const std::vector<uint8_t> record = RecordOf(
        activity, callbacks.names.insert(activity.name).first->c_str());
    if (buffer != nullptr && used + record.size() > size) {
      callbacks.complete(nullptr, 0, buffer, size, used);
      buffer = nullptr;
    }
    if (buffer == nullptr) {
      callbacks.request(&buffer, &size, &max_records);
      used = 0;
    }
    std::memcpy(buffer + used, record.data(), record.size());
    used += record.size();
  }
  if (buffer != nullptr) callbacks.complete(nullptr, 0, buffer, size, used);
}

}  // namespace

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** words) {
  switch (result) {
    case CUPTI_SUCCESS:
      *words = "CUPTI_SUCCESS";
      break;
    case CUPTI_ERROR_INVALID_KIND:
      *words = "CUPTI_ERROR_INVALID_KIND";
      break;
    case CUPTI_ERROR_NOT_INITIALIZED:
      *words = "CUPTI_ERROR_NOT_INITIALIZED";
      break;
    default:
      *words = "a CUPTI error that the emulator has no words for";
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(
    CUpti_BuffersCallbackRequestFunc request,
    CUpti_BuffersCallbackCompleteFunc complete) {
  Callbacks& callbacks = TheCallbacks();
  MutexLock lock(callbacks.mutex);
  callbacks.request = request;
  callbacks.complete = complete;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  return SetWanted(kind, true);
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  return SetWanted(kind, false);
}

CUptiResult cuptiActivityFlushAll(uint32_t /*flag*/) {
  Callbacks& callbacks = TheCallbacks();
  MutexLock lock(callbacks.mutex);
  if (callbacks.request == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  Deliver(ActivityLog::Get().Take(), callbacks);
  return CUPTI_SUCCESS;
}

// `*record` is the one before, or null.
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes,
                                       CUpti_Activity** record) {
  uint8_t* next = buffer;
  if (*record != nullptr) {
    next = reinterpret_cast<uint8_t*>(*record) + SizeOf((*record)->kind);
  }
  if (next >= buffer + valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext /*context*/,
                                              uint32_t /*stream*/,
                                              size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}

}  // extern "C"
}  // namespace ringmaster::cuda_emulator
