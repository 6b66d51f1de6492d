#ifndef RINGMASTER_WORKER_TORCH_TESTING_MEMORY_STORE_H_
#define RINGMASTER_WORKER_TORCH_TESTING_MEMORY_STORE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "worker/torch/group_store.h"

namespace ringmaster {

// A GroupStore of ranks that are threads of one process. Thread-safe.
class MemoryStore final : public GroupStore {
 public:
  absl::Status Set(const std::string& key, const std::string& value) override {
    MutexLock lock(mutex_);
    values_[key] = value;
    changed_.NotifyAll();
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Has(const std::string& key) override {
    MutexLock lock(mutex_);
    return values_.contains(key);
  }

  absl::StatusOr<std::string> Get(const std::string& key,
                                  absl::Duration limit) override {
    const MonotonicTime deadline = Clock::Real().Now() + limit;
    MutexLock lock(mutex_);
    while (!values_.contains(key)) {
      if (!changed_.WaitUntil(mutex_, Clock::Real(), deadline))
        return absl::DeadlineExceededError("not there");
    }
    return values_[key];
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string> values_ GUARDED_BY(mutex_);
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_TESTING_MEMORY_STORE_H_
