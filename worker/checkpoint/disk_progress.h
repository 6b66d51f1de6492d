// DiskProgress counts the bytes of checkpoints that go to and come from disks,
// so that a large checkpoint can be told from one that is stuck. Thread-safe.
#ifndef RINGMASTER_WORKER_CHECKPOINT_DISK_PROGRESS_H_
#define RINGMASTER_WORKER_CHECKPOINT_DISK_PROGRESS_H_

#include <atomic>
#include <cstdint>

namespace ringmaster {

class DiskProgress {
 public:
  void Add(int64_t bytes) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] int64_t bytes() const {
    return bytes_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> bytes_{0};
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_DISK_PROGRESS_H_
