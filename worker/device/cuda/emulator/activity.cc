#include "worker/device/cuda/emulator/activity.h"

#include <filesystem>

namespace ringmaster::cuda_emulator {

ActivityLog& ActivityLog::Get() {
  static ActivityLog& log = *new ActivityLog();
  return log;
}

void ActivityLog::Add(Activity activity) {
  MutexLock lock(mutex_);
  activities_.push_back(std::move(activity));
}

std::vector<Activity> ActivityLog::Take() {
  MutexLock lock(mutex_);
  return std::exchange(activities_, {});
}

std::string LaunchName(const std::source_location& where) {
  return std::filesystem::path(where.file_name()).stem().string() + ": " +
         where.function_name();
}

}  // namespace ringmaster::cuda_emulator
