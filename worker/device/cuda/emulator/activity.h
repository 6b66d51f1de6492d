// ActivityLog records what ran on the emulated devices, for CUPTI's stand-in
// (cupti.cc); RunNoted runs all work that shows in it.
//
// A kernel's name is the file and the function that launched it: a function
// pointer has none. Times are those of the emulation.
// Thread-safety: thread-safe.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_ACTIVITY_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_ACTIVITY_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "common/sync/mutex.h"
#include "common/sync/thread_annotations.h"

namespace ringmaster::cuda_emulator {

enum class ActivityKind { kKernel, kCopy, kFill };
inline constexpr int kActivityKinds = 3;

struct Activity {
  ActivityKind kind = ActivityKind::kKernel;
  std::string name = {};  // of a kernel
  uint8_t copy_kind = 0;  // a CUpti_ActivityMemcpyKind
  uint64_t begin = 0;     // in nanoseconds of the steady clock
  uint64_t end = 0;
};

class ActivityLog {
 public:
  static ActivityLog& Get();

  // Sets whether activities of this kind are noted from now on; none are at
  // first.
  void SetWanted(ActivityKind kind, bool is_wanted) {
    wanted_[static_cast<size_t>(kind)] = is_wanted;
  }
  bool IsWanted(ActivityKind kind) const {
    return wanted_[static_cast<size_t>(kind)];
  }
  void Add(Activity activity);
  // Returns the activities noted since the last call, in the order of their
  // ends.
  std::vector<Activity> Take();

 private:
  std::array<std::atomic<bool>, kActivityKinds> wanted_ = {};
  Mutex mutex_;
  std::vector<Activity> activities_ GUARDED_BY(mutex_);
};

// "layer_norm: void ringmaster::cuda::LayerNorm(...)".
std::string LaunchName(const std::source_location& where);

// Runs `work`. `make` returns the Activity without its times; it is called if
// somebody wants such activities.
template <typename Make, typename Work>
void RunNoted(ActivityKind kind, Make make, Work work) {
  ActivityLog& log = ActivityLog::Get();
  if (!log.IsWanted(kind)) return work();
  const auto now = [] {
    return static_cast<uint64_t>(
        std::chrono::steady_clock::now().time_since_epoch() /
        std::chrono::nanoseconds(1));
  };
  Activity activity = make();
  activity.kind = kind;
  activity.begin = now();
  work();
  activity.end = now();
  log.Add(std::move(activity));
}

}  // namespace ringmaster::cuda_emulator

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_ACTIVITY_H_
