// Measures how long the coordinator's core thinks about a large pool: 1,000 workers,
// 250 jobs of four that train, and 1,000 that wait, of which each tenth needs eight; once
// without queues, and once in 20, each with a quota of 40 workers and a limit of 250.
// docs/benchmarks/scheduler.md has the results.
//
// Workers, journal and clock are simulated, and answer at once; the core is the real
// one. One event is one decision; its time is that of this thread on a processor.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iostream>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/core.h"

namespace ringmaster {
namespace {

using namespace coordinator;  // NOLINT: all of this file is about it

constexpr int kWorkers = 1000;
constexpr int kJobs = kWorkers / 4;
constexpr int kQueued = 1000;
constexpr int64_t kSteps = 1000;
constexpr int kQueues = 20;

absl::Duration ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

struct FakeWorker {
  int64_t generation = 0;
  int64_t applied = 0;
  std::string job;
};

class Pool {
 public:
  Pool() : core_(Config::FromFailureBudget(absl::Minutes(5)), 1) {}

  // The times of all decisions since the last call, in milliseconds, ascending.
  std::vector<double> TakeTimes() {
    std::vector<double> times;
    times.swap(times_);
    std::sort(times.begin(), times.end());
    return times;
  }

  void Join(int index) {
    HelloReceived hello;
    hello.session = ++last_session_;
    hello.name = absl::StrCat("w", index);
    hello.incarnation = hello.session;
    hello.protocol_max = kNewestProtocol;
    hello.host = hello.host_key = absl::StrCat("h", index / 8);
    hello.data_address = absl::StrCat(hello.host, ":9000");
    workers_[hello.session] = {};
    Do(hello);
  }

  void Submit(const std::string& name, int workers, int priority) {
    SubmitRequested submit;
    submit.request = ++last_request_;
    submit.name = name;
    submit.min_workers = submit.max_workers = workers;
    submit.priority = priority;
    // A third of the jobs is in one queue, which borrows.
    const int queue = static_cast<int>(submit.request % 30);
    if (has_queues_) submit.queue = QueueName(queue < kQueues ? queue : 0);
    submit.total_steps = kSteps;
    submit.keeps_checkpoints = submit.can_go_on_later = true;
    Do(submit);
  }

  void DefineQueues() {
    QueuesRequested queues{.request = ++last_request_};
    for (int i = 0; i < kQueues; ++i) {
      v1::QueueSpec& queue = *queues.file.add_queues();
      queue.set_name(QueueName(i));
      queue.set_workers(kWorkers / kQueues * 4 / 5);
      queue.set_most_workers(kWorkers / 4);
    }
    has_queues_ = true;
    Do(queues);
  }

  // All members of some job report its end.
  void FinishOne() {
    for (const Job* const job : core_.state().ActiveJobs()) {
      if (job->state() != v1::JOB_STATE_RUNNING || job->priority > 0) continue;
      const std::string id = job->id;
      for (const auto& [session, worker] : SessionsOf(id)) {
        FinishedReceived finished;
        finished.session = session;
        finished.generation = worker.generation;
        finished.step = kSteps;
        finished.parameters_hash = 1;
        queue_.emplace_back(std::move(finished));
      }
      return Settle();
    }
  }

  // The stream of a worker that trains breaks, and it comes back.
  void LoseOne(int index) {
    for (const auto& [session, worker] : workers_) {
      if (worker.job.empty()) continue;
      const SessionId lost = session;
      workers_.erase(lost);
      Do(StreamClosed{lost, "reset"});
      return Join(kWorkers + index);
    }
  }

  [[nodiscard]] size_t Count(v1::JobState state) const {
    const auto& jobs = core_.state().jobs;
    return static_cast<size_t>(std::count_if(
        jobs.begin(), jobs.end(),
        [state](const auto& entry) { return entry.second.state() == state; }));
  }

 private:
  static std::string QueueName(int index) { return absl::StrCat("q", index); }

  std::vector<std::pair<SessionId, FakeWorker>> SessionsOf(
      std::string_view job) const {
    std::vector<std::pair<SessionId, FakeWorker>> sessions;
    for (const auto& [session, worker] : workers_) {
      if (worker.job == job) sessions.emplace_back(session, worker);
    }
    return sessions;
  }

  void Do(EventBody body) {
    queue_.push_back(std::move(body));
    Settle();
  }

  void Settle() {
    while (!queue_.empty()) {
      Event event(std::move(queue_.front()));
      queue_.pop_front();
      now_ += absl::Microseconds(100);
      const absl::Duration begin = ThreadTime();
      const std::vector<Action> actions = core_.Step(event, now_);
      times_.push_back(absl::ToDoubleMilliseconds(ThreadTime() - begin));
      for (const Action& action : actions) {
        std::visit([this](const auto& what) { Perform(what); }, action);
      }
    }
  }

  void Perform(const SendAssignment& assignment) {
    FakeWorker& worker = workers_[assignment.session];
    worker.generation = assignment.generation;
    worker.job = assignment.job_id;
    worker.applied = assignment.resume_step;
    if (assignment.makes_no_step) saving_.insert(assignment.generation);
    queue_.emplace_back(PreparedReceived{.session = assignment.session,
                                         .generation = assignment.generation,
                                         .summary = {}});
  }
  void Perform(const SendStart& start) {
    FakeWorker& worker = workers_[start.session];
    if (saving_.contains(start.generation)) {
      NoticeReceived notice{.session = start.session, .notice = {}};
      notice.notice.set_generation(start.generation);
      notice.notice.set_kind(v1::NOTICE_KIND_CHECKPOINT_WRITTEN);
      notice.notice.set_step(worker.applied);
      queue_.emplace_back(std::move(notice));
      FinishedReceived finished;
      finished.session = start.session;
      finished.generation = start.generation;
      finished.step = worker.applied;
      finished.is_stopped = true;
      queue_.emplace_back(std::move(finished));
      return;
    }
    worker.applied += 10;
    BeatReceived beat;
    beat.session = start.session;
    beat.generation = start.generation;
    beat.step = worker.applied;
    beat.phase = v1::PHASE_STEP;
    queue_.emplace_back(std::move(beat));
  }
  void Perform(const SendPause& pause) {
    Halt(pause.session, pause.generation);
  }
  void Perform(const SendHalt& halt) { Halt(halt.session, halt.generation); }
  void Halt(SessionId session, int64_t generation) {
    HaltedReceived halted;
    halted.session = session;
    halted.generation = generation;
    halted.applied_step = halted.complete_step = workers_[session].applied;
    queue_.emplace_back(std::move(halted));
  }
  void Perform(const SendRelease& release) { workers_[release.session] = {}; }
  void Perform(const CloseSession& close) { workers_.erase(close.session); }
  void Perform(const Persist& persist) {
    queue_.emplace_back(Persisted{persist.token});
  }
  template <typename Other>
  void Perform(const Other&) {}

  CoordinatorCore core_;
  MonotonicTime now_ = MonotonicTime::FromNanos(1);
  std::deque<EventBody> queue_;
  std::unordered_map<SessionId, FakeWorker> workers_;
  std::set<int64_t> saving_;
  bool has_queues_ = false;
  std::vector<double> times_;
  SessionId last_session_ = 0;
  RequestToken last_request_ = 0;
};

void Print(std::string_view what, const std::vector<double>& times) {
  const auto at = [&](double share) {
    return times[static_cast<size_t>(share *
                                     static_cast<double>(times.size() - 1))];
  };
  std::cout << absl::StrFormat("| %s | %d | %.3f | %.3f | %.3f |\n",
                               std::string(what), times.size(), at(0.5),
                               at(0.99), times.back());
}

void Measure(bool has_queues) {
  Pool pool;
  if (has_queues) pool.DefineQueues();
  std::cout << (has_queues ? "\nIn 20 queues:\n\n" : "");
  std::cout << "| events of | decisions | p50, ms | p99, ms | max, ms |\n"
               "|---|---|---|---|---|\n";
  for (int i = 0; i < kWorkers; ++i) pool.Join(i);
  Print("1,000 workers that join", pool.TakeTimes());
  for (int i = 0; i < kJobs; ++i) pool.Submit("train", 4, -10);
  Print("250 jobs that begin", pool.TakeTimes());
  for (int i = 0; i < kQueued; ++i) {
    pool.Submit("wait", i % 10 == 0 ? 8 : 4, -10);
  }
  Print("1,000 jobs that are queued", pool.TakeTimes());
  for (int i = 0; i < 50; ++i) pool.FinishOne();
  Print("50 jobs that end, and others begin", pool.TakeTimes());
  for (int i = 0; i < 50; ++i) pool.LoseOne(i);
  Print("50 workers that are lost and come back", pool.TakeTimes());
  for (int i = 0; i < 20; ++i) pool.Submit("urgent", 6, 5);
  Print("20 jobs that others give way to", pool.TakeTimes());
  std::cout << absl::StrFormat("\ntraining: %d jobs, queued: %d\n",
                               pool.Count(v1::JOB_STATE_RUNNING),
                               pool.Count(v1::JOB_STATE_QUEUED));
}

int Main() {
  Measure(/*has_queues=*/false);
  Measure(/*has_queues=*/true);
  return 0;
}

}  // namespace
}  // namespace ringmaster

int main() { return ringmaster::Main(); }
