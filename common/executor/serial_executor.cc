#include "common/executor/serial_executor.h"

#include <pthread.h>

#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"
#include "common/status/reason.h"

namespace ringmaster {
namespace {

constexpr int kUrgentInARow = 64;
constexpr size_t kMaxThreadName = 15;  // pthread_setname_np(3)

// The executor whose thread this is. A thread-local rather than a comparison of
// thread ids: it needs no lock, also while the thread starts.
thread_local const SerialExecutor* current_executor = nullptr;

}  // namespace

SerialExecutor::SerialExecutor(Clock& clock, SerialExecutorOptions options)
    : clock_(clock), options_(std::move(options)) {
  MutexLock lock(join_mutex_);
  thread_ = std::thread([this] { Run(); });
}

SerialExecutor::~SerialExecutor() { Stop(); }

absl::Status SerialExecutor::Post(Task task) {
  {
    MutexLock lock(mutex_);
    if (is_stopping_) {
      return WithReason(
          absl::UnavailableError(absl::StrCat(options_.name, " is stopping")),
          reason::kShuttingDown);
    }
    if (ordinary_.size() >= options_.max_queued) {
      return absl::ResourceExhaustedError(
          absl::StrCat(options_.name, " is overloaded: ", options_.max_queued,
                       " requests wait; retry later"));
    }
    ordinary_.push_back(std::move(task));
  }
  changed_.NotifyAll();
  return absl::OkStatus();
}

bool SerialExecutor::PostUrgent(Task task) {
  {
    MutexLock lock(mutex_);
    if (is_stopping_) return false;
    urgent_.push_back(std::move(task));
  }
  changed_.NotifyAll();
  return true;
}

void SerialExecutor::SetWakeup(MonotonicTime when, Task task) {
  std::optional<Wakeup> wakeup = Wakeup{when, std::move(task)};
  {
    MutexLock lock(mutex_);
    if (!is_stopping_) std::swap(wakeup_, wakeup);
  }
  changed_.NotifyAll();
}

void SerialExecutor::ClearWakeup() {
  std::optional<Wakeup> wakeup;
  MutexLock lock(mutex_);
  std::swap(wakeup_, wakeup);
}

bool SerialExecutor::Answers(absl::Duration patience, Task task) {
  // The task may run when nobody waits any more.
  auto ran = std::make_shared<std::promise<void>>();
  std::future<void> answer = ran->get_future();
  return PostUrgent([ran, task = std::move(task)]() mutable {
           task();
           ran->set_value();
         }) &&
         answer.wait_for(absl::ToChronoMilliseconds(patience)) ==
             std::future_status::ready;
}

bool SerialExecutor::RunsTasksInThisThread() const {
  return current_executor == this;
}

size_t SerialExecutor::queued_count() const {
  MutexLock lock(mutex_);
  return urgent_.size() + ordinary_.size();
}

void SerialExecutor::Stop() {
  RM_CHECK(!RunsTasksInThisThread(), "a task cannot stop its own executor");
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  changed_.NotifyAll();
  MutexLock lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void SerialExecutor::Run() {
  pthread_setname_np(pthread_self(),
                     options_.name.substr(0, kMaxThreadName).c_str());
  current_executor = this;
  while (std::optional<Task> task = TakeNext()) (*task)();
  ClearWakeup();
}

std::optional<SerialExecutor::Task> SerialExecutor::TakeNext() {
  MutexLock lock(mutex_);
  while (true) {
    if (std::optional<Task> task = TakeReady()) return task;
    if (is_stopping_) return std::nullopt;
    if (wakeup_.has_value()) {
      changed_.WaitUntil(mutex_, clock_, wakeup_->when);
    } else {
      changed_.Wait(mutex_);
    }
  }
}

std::optional<SerialExecutor::Task> SerialExecutor::TakeReady() {
  if (!urgent_.empty() && urgent_in_a_row_ < kUrgentInARow) {
    ++urgent_in_a_row_;
    return TakeFront(urgent_);
  }
  urgent_in_a_row_ = 0;
  // A wake-up that sets itself again in the past must not starve the others.
  const bool has_turn = ordinary_.empty() || !wakeup_ran_last_;
  wakeup_ran_last_ = false;
  if (has_turn && !is_stopping_ && wakeup_.has_value() &&
      wakeup_->when <= clock_.Now()) {
    wakeup_ran_last_ = true;
    Task task = std::move(wakeup_->task);
    wakeup_.reset();
    return task;
  }
  if (!ordinary_.empty()) return TakeFront(ordinary_);
  if (!urgent_.empty()) return TakeFront(urgent_);
  return std::nullopt;
}

SerialExecutor::Task SerialExecutor::TakeFront(std::deque<Task>& queue) {
  Task task = std::move(queue.front());
  queue.pop_front();
  return task;
}

}  // namespace ringmaster
