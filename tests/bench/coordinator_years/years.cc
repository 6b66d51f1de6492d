#include "tests/bench/coordinator_years/years.h"

#include <time.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic_time.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "server/coordinator/core/core.h"
#include "server/coordinator/journal/journal.h"
#include "server/coordinator/rpc/event_log.h"
#include "server/coordinator/rpc/state_proto.h"

namespace ringmaster {
namespace {

using namespace coordinator;  // NOLINT: all of this file is about it

constexpr absl::Duration kAnswerTime = absl::Milliseconds(20);
constexpr absl::Duration kStepTime = absl::Seconds(1);

// The line of /proc/self/status that begins with `key`, in bytes.
int64_t ProcessBytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    int64_t kibibytes = 0;
    if (word == key && file >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

// This thread's time on a processor: others may keep the machine busy.
absl::Duration ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

absl::Duration P99Of(std::vector<absl::Duration> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() * 99 / 100];
}

int64_t FileBytes(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

enum class Kind {
  kBeat,
  kPrepared,
  kFinished,
  kHalted,
  kJoin,
  kSubmit,
  kDeath
};

struct Due {
  MonotonicTime time;
  // Among equal times the first comes first.
  int64_t order;
  Kind kind;
  size_t member;
  int64_t generation;

  friend bool operator<(const Due& a, const Due& b) {
    return std::tie(b.time, b.order) < std::tie(a.time, a.order);
  }
};

struct FakeMember {
  std::string name;
  uint64_t incarnation = 0;
  SessionId session = 0;  // 0: it is dead
  int64_t generation = 0;
  bool is_training = false;
};

class Years {
 public:
  Years(const YearsOptions& options, Config config,
        std::unique_ptr<Journal> journal)
      : options_(options),
        journal_(std::move(journal)),
        core_(std::move(config), /*incarnation=*/1),
        members_(static_cast<size_t>(options.members)) {}

  absl::StatusOr<YearsResult> Run() {
    for (size_t i = 0; i < members_.size(); ++i) {
      members_[i].name = absl::StrFormat("worker-%04d", i);
      Add(absl::Milliseconds(1), Kind::kJoin, i);
    }
    Add(absl::Seconds(2), Kind::kSubmit);
    Add(options_.death_interval, Kind::kDeath);
    const MonotonicTime end = now_ + options_.time;
    MonotonicTime status_due = now_;
    while (now_ < end && failure_.ok()) {
      if (now_ >= status_due) {
        BuildStatus();
        status_due = now_ + options_.time / 500;
      }
      const MonotonicTime tick = core_.NextDeadline();
      if (due_.top().time > tick) {
        now_ = std::max(now_, tick);
        Feed(Tick{});
        continue;
      }
      const Due due = due_.top();
      due_.pop();
      now_ = due.time;
      Happen(due);
    }
    RETURN_IF_ERROR(failure_);
    journal_.reset();  // writes what is left
    {
      MutexLock lock(mutex_);
      RETURN_IF_ERROR(journal_failure_);
    }
    NoteJournal();
    result_.status_p99 = P99Of(status_times_);
    result_.status_clock_p99 = P99Of(status_clock_times_);
    result_.resident_bytes = ProcessBytes("VmHWM:");
    return result_;
  }

 private:
  void Add(absl::Duration wait, Kind kind, size_t member = 0,
           int64_t generation = 0) {
    due_.push({now_ + wait, ++order_, kind, member, generation});
  }

  int64_t Step() const {
    const int64_t made = halted_at_.has_value()
                             ? (*halted_at_ - started_) / kStepTime
                             : (now_ - started_) / kStepTime;
    return std::min(options_.steps, resume_step_ + made);
  }

  void Happen(const Due& due) {
    switch (due.kind) {
      case Kind::kSubmit:
        return Submit();
      case Kind::kDeath:
        return Die();
      case Kind::kJoin:
        return Join(due.member);
      case Kind::kFinished:
        return Finish(due.generation);
      default:
        break;
    }
    FakeMember& member = members_[due.member];
    if (member.session == 0) return;
    if (due.kind == Kind::kBeat) return Beat(due.member);
    if (member.generation != due.generation) return;
    if (due.kind == Kind::kPrepared) {
      Feed(PreparedReceived{member.session, due.generation, 1, 1, "same"});
    } else {
      member.is_training = false;
      Feed(HaltedReceived{member.session, due.generation, Step(), Step()});
    }
  }

  void Submit() {
    if (++submitted_ < options_.jobs) {
      Add(options_.time / options_.jobs, Kind::kSubmit);
    }
    SubmitRequested submit;
    submit.name = "job";
    submit.spec = std::string(600, 's');  // as that of a small language model
    submit.min_workers = std::max(1, options_.members / 2);
    submit.max_workers = options_.members;
    submit.settle = absl::Seconds(1);
    submit.total_steps = options_.steps;
    Feed(std::move(submit));
  }

  void Join(size_t index) {
    FakeMember& member = members_[index];
    member.incarnation = ++last_incarnation_;
    member.session = ++last_session_;
    by_session_[member.session] = index;
    HelloReceived hello;
    hello.session = member.session;
    hello.name = member.name;
    hello.incarnation = member.incarnation;
    hello.protocol_max = kNewestProtocol;
    hello.host = hello.host_key = absl::StrCat("host-", index / 8);
    hello.pid = static_cast<int64_t>(1000 + index);
    hello.data_address = absl::StrCat(hello.host, ":9000");
    hello.version = "1.0";
    Feed(std::move(hello));
    Add(options_.beat_interval, Kind::kBeat, index);
  }

  void Die() {
    Add(options_.death_interval, Kind::kDeath);
    FakeMember& member =
        members_[static_cast<size_t>(++draws_ * 17) % members_.size()];
    if (member.session == 0) return;
    ++result_.deaths;
    const SessionId session = member.session;
    Lose(session);
    Feed(StreamClosed{session, "connection lost"});
  }

  // Its session is over; a new process takes its place.
  void Lose(SessionId session) {
    const auto it = by_session_.find(session);
    if (it == by_session_.end()) return;
    FakeMember& member = members_[it->second];
    member.session = 0;
    member.generation = 0;
    member.is_training = false;
    Add(absl::Seconds(3), Kind::kJoin, it->second);
    by_session_.erase(it);
  }

  void Beat(size_t index) {
    FakeMember& member = members_[index];
    Add(options_.beat_interval, Kind::kBeat, index);
    const bool trains = member.is_training;
    BeatReceived beat;
    beat.session = member.session;
    beat.generation = member.generation;
    beat.phase = trains                   ? v1::PHASE_STEP
                 : member.generation != 0 ? v1::PHASE_PREPARE
                                          : v1::PHASE_IDLE;
    if (trains) {
      beat.step = Step();
      beat.collective_sequence = 4 * beat.step;
      beat.figures.set_step(beat.step);
      beat.figures.set_loss(1.0 / static_cast<double>(beat.step + 1));
    }
    Feed(std::move(beat));
  }

  // All members report the end in the same moment.
  void Finish(int64_t generation) {
    if (halted_at_.has_value()) return;
    for (FakeMember& member : members_) {
      if (member.session == 0 || !member.is_training ||
          member.generation != generation) {
        continue;
      }
      FinishedReceived finished;
      finished.session = member.session;
      finished.generation = generation;
      finished.step = options_.steps;
      finished.parameters_hash = 1;
      Feed(std::move(finished));
    }
  }

  void Feed(Event event) {
    event.time =
        absl::FromUnixSeconds(1'700'000'000) + (now_ - MonotonicTime());
    ++result_.events;
    for (Action& action : core_.Step(event, now_)) {
      std::visit([this](auto& what) { Do(what); }, action);
    }
    while (!unanswered_.empty()) {
      const PersistToken token = unanswered_.front();
      unanswered_.pop();
      Feed(Persisted{token});
    }
  }

  FakeMember* Of(SessionId session) {
    const auto it = by_session_.find(session);
    return it == by_session_.end() ? nullptr : &members_[it->second];
  }

  void Do(SendAssignment& assignment) {
    FakeMember* const member = Of(assignment.session);
    if (member == nullptr) return;
    member->generation = assignment.generation;
    resume_step_ = assignment.resume_step;
    Add(kAnswerTime, Kind::kPrepared,
        static_cast<size_t>(member - members_.data()), assignment.generation);
  }
  void Do(SendStart& start) {
    FakeMember* const member = Of(start.session);
    if (member == nullptr) return;
    member->is_training = true;
    if (std::exchange(started_generation_, start.generation) ==
        start.generation) {
      return;
    }
    started_ = now_;
    halted_at_.reset();
    Add((options_.steps - resume_step_) * kStepTime, Kind::kFinished,
        /*member=*/0, start.generation);
  }
  void Do(SendHalt& halt) { Halt(halt.session, halt.generation); }
  void Do(SendPause& pause) { Halt(pause.session, pause.generation); }
  void Halt(SessionId session, int64_t generation) {
    FakeMember* const member = Of(session);
    if (member == nullptr) return;
    if (!halted_at_.has_value()) halted_at_ = now_;
    Add(kAnswerTime, Kind::kHalted,
        static_cast<size_t>(member - members_.data()), generation);
  }
  void Do(SendRelease& release) {
    FakeMember* const member = Of(release.session);
    if (member == nullptr) return;
    member->generation = 0;
    member->is_training = false;
  }
  void Do(CloseSession& close) { Lose(close.session); }
  void Do(Persist& persist) {
    unanswered_.push(persist.token);
    journal_->Append(std::move(persist.record),
                     [this](const absl::Status& end) {
                       MutexLock lock(mutex_);
                       journal_failure_.Update(end);
                     });
    if (++appended_ % 16 == 0) NoteJournal();
  }
  void Do(ReplyToUser& reply) { failure_.Update(reply.status); }
  void Do(EmitEvent& emit) {
    if (emit.event.type() == "job.succeeded") ++result_.succeeded;
    if (emit.event.type() == "job.failed") {
      failure_.Update(absl::InternalError(emit.event.message()));
    }
    events_.Append(std::move(emit.event));
  }
  template <typename Other>
  void Do(Other&) {}

  void NoteJournal() {
    const std::string path =
        absl::StrCat(options_.state_dir, "/", kJournalFile);
    result_.journal_bytes =
        std::max(result_.journal_bytes,
                 FileBytes(path) + FileBytes(absl::StrCat(path, "-wal")));
  }

  void BuildStatus() {
    const MonotonicTime clock_begin = Clock::Real().Now();
    const absl::Duration begin = ThreadTime();
    const std::string bytes =
        StatusProto({.state = core_.state(), .self = self_, .now = now_})
            .SerializeAsString();
    status_times_.push_back(ThreadTime() - begin);
    status_clock_times_.push_back(Clock::Real().Now() - clock_begin);
    result_.status_bytes =
        std::max(result_.status_bytes, static_cast<int64_t>(bytes.size()));
  }

  const YearsOptions options_;
  Mutex mutex_;
  absl::Status journal_failure_ GUARDED_BY(mutex_);  // the first
  std::unique_ptr<Journal> journal_;
  CoordinatorCore core_;
  EventLog events_;
  const CoordinatorIdentity self_ = {.version = "1.0"};
  MonotonicTime now_ = MonotonicTime::FromNanos(1'000'000'000);
  std::priority_queue<Due> due_;
  int64_t order_ = 0;
  std::vector<FakeMember> members_;
  std::unordered_map<SessionId, size_t> by_session_;
  SessionId last_session_ = 0;
  uint64_t last_incarnation_ = 0;
  int64_t submitted_ = 0;
  int64_t draws_ = 0;  // of a member that is to die
  int64_t appended_ = 0;
  // The present generation, whose members are always at the same step.
  int64_t started_generation_ = 0;
  int64_t resume_step_ = 0;
  MonotonicTime started_;
  std::optional<MonotonicTime> halted_at_;
  std::queue<PersistToken> unanswered_;
  std::vector<absl::Duration> status_times_;
  std::vector<absl::Duration> status_clock_times_;
  absl::Status failure_;
  YearsResult result_;
};

std::string Mebibytes(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

absl::StatusOr<YearsResult> RunYears(const YearsOptions& options) {
  Config config = Config::FromFailureBudget(options.failure_budget);
  RETURN_IF_ERROR(config.Validate());
  ASSIGN_OR_RETURN(std::unique_ptr<Journal> journal,
                   Journal::Open({.state_dir = options.state_dir,
                                  .max_ended_jobs = config.max_ended_jobs}));
  return Years(options, std::move(config), std::move(journal)).Run();
}

std::string ToText(const YearsOptions& options, const YearsResult& result) {
  return absl::StrCat(options.members, " members, ", options.jobs,
                      options.jobs == 1 ? " job in " : " jobs in ",
                      absl::FormatDuration(options.time), ": ",
                      Mebibytes(result.resident_bytes), " resident, journal ",
                      Mebibytes(result.journal_bytes), ", GetStatus p99 ",
                      absl::FormatDuration(absl::Trunc(result.status_p99,
                                                       absl::Microseconds(10))),
                      " (by the clock ",
                      absl::FormatDuration(absl::Trunc(result.status_clock_p99,
                                                       absl::Microseconds(10))),
                      ") for ", result.status_bytes >> 10, " KiB; ",
                      result.events, " events, ", result.succeeded,
                      " jobs succeeded, ", result.deaths, " deaths");
}

}  // namespace ringmaster
