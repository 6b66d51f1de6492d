#include "tests/bench/scheduler/month_core.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <queue>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/core.h"

namespace ringmaster {
namespace {

using namespace coordinator;  // NOLINT: all of this file is about it

constexpr absl::Duration kBeatInterval = absl::Minutes(10);
// 0 is no time for the core.
const MonotonicTime kBegin = MonotonicTime::FromNanos(1);

enum class Kind { kSubmit, kBeat, kStart, kFirstStep, kFinish, kSaved };

struct Due {
  MonotonicTime time;
  int64_t order = 0;  // among equal times the first comes first
  Kind kind = Kind::kBeat;
  size_t job = 0;
  int64_t generation = 0;

  friend bool operator<(const Due& a, const Due& b) {
    return std::tie(b.time, b.order) < std::tie(a.time, a.order);
  }
};

struct FakeWorker {
  int64_t generation = 0;
  size_t job = 0;
  bool has_job = false;
};

// A step takes a second with as many workers as the job asked for.
struct FakeJob {
  int64_t generation = 0;
  std::vector<SessionId> members;
  int started = 0;
  int world_size = 0;
  bool makes_no_step = false;
  bool is_training = false;
  bool has_begun = false;
  int64_t saved = 0;    // the step of its last checkpoint
  double progress = 0;  // steps
  MonotonicTime since;
};

Config ConfigFor(const CorePolicy& policy) {
  Config config = Config::FromFailureBudget(absl::Hours(1));
  config.overtake_time = policy.overtake_time;
  return config;
}

class Month {
 public:
  Month(const TraceOptions& options, const std::vector<TraceJob>& jobs,
        const CorePolicy& policy)
      : options_(options),
        trace_(jobs),
        policy_(policy),
        core_(ConfigFor(policy), 1),
        jobs_(jobs.size()) {
    result_.completion.resize(jobs.size(), absl::InfiniteDuration());
  }

  MonthResult Run() {
    if (!policy_.queues.queues().empty()) {
      Feed(QueuesRequested{.request = ++last_request_, .file = policy_.queues});
    }
    for (int i = 0; i < options_.workers; ++i) Join(i);
    for (size_t job = 0; job < trace_.size(); ++job) {
      Add(trace_[job].submitted, Kind::kSubmit, job);
    }
    Add(kBeatInterval, Kind::kBeat);
    while (ended_ < trace_.size() && now_ - kBegin < 12 * options_.time) {
      const MonotonicTime deadline = core_.NextDeadline();
      if (deadline < due_.top().time) {
        now_ = std::max(now_, deadline);
        Feed(Tick{});
        continue;
      }
      const Due due = due_.top();
      due_.pop();
      now_ = std::max(now_, due.time);
      Handle(due);
    }
    return result_;
  }

 private:
  void Add(absl::Duration after, Kind kind, size_t job = 0,
           int64_t generation = 0) {
    due_.push({now_ + after, ++last_order_, kind, job, generation});
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
    Feed(hello);
  }

  void Handle(const Due& due) {
    FakeJob& job = jobs_[due.job];
    const bool is_of_job = due.kind != Kind::kSubmit && due.kind != Kind::kBeat;
    if (is_of_job && due.generation != job.generation) return;
    switch (due.kind) {
      case Kind::kSubmit:
        return Submit(due.job);
      case Kind::kBeat:
        Add(kBeatInterval, Kind::kBeat);
        for (const auto& [session, worker] : workers_) Beat(session, worker);
        return Settle();
      case Kind::kStart:
        return Start(due.job);
      case Kind::kFirstStep:
      case Kind::kFinish:
        if (!job.is_training) return;
        return due.kind == Kind::kFinish ? Finish(due.job) : BeatAll(job);
      case Kind::kSaved:
        return FinishSaving(job);
    }
  }

  void Submit(size_t index) {
    const TraceJob& wanted = trace_[index];
    SubmitRequested submit;
    submit.request = ++last_request_;
    submit.name = absl::StrCat("job", index);
    submit.min_workers = std::max(1, wanted.size / policy_.least_share);
    submit.max_workers =
        std::min(options_.workers, wanted.size * policy_.most_share);
    submit.settle = absl::Seconds(1);
    submit.total_steps = StepsOf(index);
    submit.priority = wanted.is_urgent ? 1 : 0;
    submit.keeps_checkpoints = submit.can_go_on_later = true;
    if (!policy_.queues.queues().empty()) {
      submit.queue = policy_.queues.queues(wanted.team).name();
    }
    by_name_[submit.name] = index;
    Feed(submit);
  }

  [[nodiscard]] int64_t StepsOf(size_t index) const {
    return absl::ToInt64Seconds(trace_[index].duration);
  }

  [[nodiscard]] double Speed(size_t index) const {
    return SpeedOf(jobs_[index].world_size, trace_[index].size);
  }

  void TakeProgress(size_t index) {
    FakeJob& job = jobs_[index];
    if (!job.is_training) return;
    const double made = absl::ToDoubleSeconds(now_ - job.since) * Speed(index);
    job.progress = std::min<double>(static_cast<double>(StepsOf(index)),
                                    job.progress + made);
    job.since = now_;
  }

  void Beat(SessionId session, const FakeWorker& worker) {
    BeatReceived beat;
    beat.session = session;
    beat.generation = worker.generation;
    beat.phase = v1::PHASE_IDLE;
    if (worker.has_job) {
      const FakeJob& job = jobs_[worker.job];
      TakeProgress(worker.job);
      beat.phase = job.is_training ? v1::PHASE_STEP : v1::PHASE_PREPARE;
      beat.step = static_cast<int64_t>(job.progress);
    }
    queue_.emplace_back(std::move(beat));
  }

  void BeatAll(FakeJob& job) {
    for (const SessionId session : job.members) {
      Beat(session, workers_[session]);
    }
    Settle();
  }

  void Start(size_t index) {
    FakeJob& job = jobs_[index];
    if (job.makes_no_step) {
      Add(policy_.checkpoint, Kind::kSaved, index, job.generation);
      return;
    }
    job.is_training = true;
    job.since = now_;
    const double speed = Speed(index);
    const double left = static_cast<double>(StepsOf(index)) - job.progress;
    Add(absl::Seconds(1.001 / speed), Kind::kFirstStep, index, job.generation);
    Add(absl::Seconds(left / speed), Kind::kFinish, index, job.generation);
  }

  void Finish(size_t index) {
    FakeJob& job = jobs_[index];
    job.is_training = false;
    result_.completion[index] = (now_ - kBegin) - trace_[index].submitted;
    ++ended_;
    for (const SessionId session : job.members) {
      FinishedReceived finished;
      finished.session = session;
      finished.generation = job.generation;
      finished.step = StepsOf(index);
      finished.parameters_hash = 1;
      queue_.emplace_back(std::move(finished));
    }
    Settle();
  }

  void FinishSaving(FakeJob& job) {
    const auto step = static_cast<int64_t>(job.progress);
    job.saved = step;
    for (const SessionId session : job.members) {
      NoticeReceived notice{.session = session, .notice = {}};
      notice.notice.set_generation(job.generation);
      notice.notice.set_kind(v1::NOTICE_KIND_CHECKPOINT_WRITTEN);
      notice.notice.set_step(step);
      queue_.emplace_back(std::move(notice));
    }
    for (const SessionId session : job.members) {
      FinishedReceived finished;
      finished.session = session;
      finished.generation = job.generation;
      finished.step = step;
      finished.is_stopped = true;
      queue_.emplace_back(std::move(finished));
    }
    Settle();
  }

  void Feed(EventBody body) {
    queue_.push_back(std::move(body));
    Settle();
  }

  void Settle() {
    while (!queue_.empty()) {
      Event event(std::move(queue_.front()));
      queue_.pop_front();
      for (const Action& action : core_.Step(event, now_)) {
        std::visit([this](const auto& what) { Perform(what); }, action);
      }
    }
  }

  void Perform(const SendAssignment& assignment) {
    const size_t index =
        by_name_.at(assignment.job_id.substr(0, assignment.job_id.rfind('-')));
    FakeJob& job = jobs_[index];
    if (job.generation != assignment.generation) {
      TakeProgress(index);
      if (job.makes_no_step) {
        ++result_.preemptions;
      } else if (job.generation != 0 && !assignment.makes_no_step) {
        ++result_.resizes;
      }
      job.generation = assignment.generation;
      job.members.clear();
      job.started = 0;
      job.is_training = false;
      job.makes_no_step = assignment.makes_no_step;
      job.world_size = assignment.world_size;
      Resume(index, assignment);
    }
    job.members.push_back(assignment.session);
    workers_[assignment.session] = {assignment.generation, index, true};
    queue_.emplace_back(PreparedReceived{.session = assignment.session,
                                         .generation = assignment.generation,
                                         .summary = {}});
  }
  // The members of a new generation go on from the step that the core says; from the
  // beginning they find their last checkpoint.
  void Resume(size_t index, const SendAssignment& assignment) {
    FakeJob& job = jobs_[index];
    const int64_t from =
        assignment.resume_step > 0 ? assignment.resume_step : job.saved;
    const auto made = static_cast<double>(static_cast<int64_t>(job.progress));
    result_.lost +=
        absl::Seconds((made - static_cast<double>(from)) * trace_[index].size);
    job.progress = static_cast<double>(from);
    if (job.has_begun || job.makes_no_step) {
      const absl::Duration still =
          policy_.pause +
          (job.makes_no_step ? policy_.checkpoint : absl::ZeroDuration());
      result_.lost += still * job.world_size;
    }
    job.has_begun = true;
  }

  void Perform(const SendStart& start) {
    FakeJob& job = jobs_[workers_[start.session].job];
    if (++job.started == 1) {
      Add(policy_.pause, Kind::kStart, workers_[start.session].job,
          start.generation);
    }
  }
  void Perform(const SendPause& pause) { Halt(pause.session); }
  void Perform(const SendHalt& halt) { Halt(halt.session); }
  void Halt(SessionId session) {
    const FakeWorker& worker = workers_[session];
    TakeProgress(worker.job);
    FakeJob& job = jobs_[worker.job];
    job.is_training = false;
    HaltedReceived halted;
    halted.session = session;
    halted.generation = worker.generation;
    halted.applied_step = halted.complete_step =
        static_cast<int64_t>(job.progress);
    queue_.emplace_back(std::move(halted));
  }
  void Perform(const SendRelease& release) { workers_[release.session] = {}; }
  void Perform(const Persist& persist) {
    queue_.emplace_back(Persisted{persist.token});
  }
  template <typename Other>
  void Perform(const Other&) {}

  const TraceOptions& options_;
  const std::vector<TraceJob>& trace_;
  const CorePolicy& policy_;
  CoordinatorCore core_;
  MonotonicTime now_ = kBegin;
  std::priority_queue<Due> due_;
  std::deque<EventBody> queue_;
  std::unordered_map<SessionId, FakeWorker> workers_;
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<FakeJob> jobs_;
  MonthResult result_;
  size_t ended_ = 0;
  int64_t last_order_ = 0;
  SessionId last_session_ = 0;
  RequestToken last_request_ = 0;
};

}  // namespace

MonthResult RunCore(const TraceOptions& options,
                    const std::vector<TraceJob>& jobs,
                    const CorePolicy& policy) {
  return Month(options, jobs, policy).Run();
}

}  // namespace ringmaster
