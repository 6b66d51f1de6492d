// FakeSessionStream stands for a worker's stream in tests: it keeps what the
// coordinator sends.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_TESTING_FAKE_SESSION_STREAM_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_TESTING_FAKE_SESSION_STREAM_H_

#include <deque>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/status/reason.h"
#include "common/sync/mutex.h"
#include "server/coordinator/rpc/session_stream.h"

namespace ringmaster::coordinator {

// Thread-safe.
class FakeSessionStream final : public SessionStream {
 public:
  void Send(v1::SessionResponse message) override {
    MutexLock lock(mutex_);
    sent_.push_back(std::move(message));
    changed_.NotifyAll();
  }

  void Close(const absl::Status& status) override {
    MutexLock lock(mutex_);
    if (!end_.has_value()) end_ = DeepCopy(status);
    changed_.NotifyAll();
  }

  void ReadNext() override {
    MutexLock lock(mutex_);
    ++read_count_;
    changed_.NotifyAll();
  }

  // The next message that was sent; an empty one if none comes within 20 s.
  v1::SessionResponse Take() {
    MutexLock lock(mutex_);
    while (sent_.empty()) {
      if (!Wait()) return {};
    }
    v1::SessionResponse message = std::move(sent_.front());
    sent_.pop_front();
    return message;
  }

  // Returns the status that closed the stream; DEADLINE_EXCEEDED if none did in
  // 20 s.
  absl::Status AwaitEnd() {
    MutexLock lock(mutex_);
    while (!end_.has_value()) {
      if (!Wait()) return absl::DeadlineExceededError("the stream is open");
    }
    return DeepCopy(*end_);
  }

  // Waits for `count` calls of ReadNext since the beginning.
  bool AwaitReads(int count) {
    MutexLock lock(mutex_);
    while (read_count_ < count) {
      if (!Wait()) return false;
    }
    return true;
  }

  bool is_open() const {
    MutexLock lock(mutex_);
    return !end_.has_value();
  }

 private:
  // Copies of a Status share its reason, and Abseil's library, which counts
  // them, is not instrumented: ThreadSanitizer would take the last thread's
  // delete for a race.
  static absl::Status DeepCopy(const absl::Status& status) {
    return WithReason(absl::Status(status.code(), status.message()),
                      ReasonOf(status));
  }

  bool Wait() REQUIRES(mutex_) {
    return changed_.WaitUntil(mutex_, Clock::Real(), deadline_);
  }

  const MonotonicTime deadline_ = Clock::Real().Now() + absl::Seconds(20);
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<v1::SessionResponse> sent_ GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ GUARDED_BY(mutex_);
  int read_count_ GUARDED_BY(mutex_) = 0;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_TESTING_FAKE_SESSION_STREAM_H_
