#include "server/coordinator/core/testing/random_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/reason.h"
#include "server/coordinator/core/account/explain.h"
#include "server/coordinator/core/state/turn.h"
#include "server/coordinator/core/testing/action_text.h"
#include "server/coordinator/core/testing/retained.h"

namespace ringmaster::coordinator {
namespace {

constexpr int kMostWorkers = 6;
constexpr int kMostServers = 3;
constexpr int kMostProcesses = kMostWorkers + kMostServers;
constexpr int kMostJobs = 4;

}  // namespace

RandomCluster::RandomCluster(uint64_t seed, size_t log_lines)
    : log_lines_(log_lines),
      random_(seed),
      config_(Config::FromFailureBudget(absl::Seconds(2))),
      core_(config_),
      now_(MonotonicTime::FromNanos(1)) {
  config_.progress_cap = absl::Seconds(20);
  config_.quarantine_faults = 1 + Pick(3);
  config_.overtake_time = absl::Milliseconds(100 * (seed % 5));
  has_queues_ = seed % 3 == 0;
  core_ = CoordinatorCore(config_, ++coordinator_incarnation_);
  Feed(Tick{});
}

std::string RandomCluster::Log() const {
  std::string log = absl::StrJoin(log_, "\n");
  for (const auto& [number, job] : core_.state().jobs) {
    if (IsEnded(job.state())) continue;
    const Explanation why =
        Explain(core_.state(), job, config_, now_, std::nullopt);
    absl::StrAppend(&log, "\n", job.id, ": ", why.summary, "; ",
                    absl::StrJoin(why.reasons, "; "), "; ", why.what_unblocks);
  }
  return log;
}

int RandomCluster::Pick(int bound) {
  return static_cast<int>(random_() % static_cast<uint64_t>(bound));
}

RandomCluster::Process* RandomCluster::PickProcess() {
  if (processes_.empty()) return nullptr;
  auto it = processes_.begin();
  std::advance(it, Pick(static_cast<int>(processes_.size())));
  return &it->second;
}

RandomCluster::Process* RandomCluster::ProcessOf(SessionId session) {
  for (auto& [name, process] : processes_) {
    if (process.session == session) return &process;
  }
  return nullptr;
}

// ---- Faults and wishes.

void RandomCluster::RunAtRandom(int count) {
  for (int i = 0; i < count && violations_.empty(); ++i) {
    DoSomething();
    if (Process* const process = PickProcess()) DoWork(*process);
    if (Process* const process = PickProcess()) DoWork(*process);
    if (Chance(30)) Advance(absl::Milliseconds(Pick(200)));
  }
}

void RandomCluster::DoSomething() {
  Process* const process = PickProcess();
  const int dice = Pick(1000);
  if (dice < 60) {
    Spawn();
  } else if (dice < 100) {
    AskForSomething();
  } else if (dice < 700) {
    DoJournal(/*is_fault=*/Pick(40) == 0);
  } else if (dice < 706) {
    RestartCoordinator();
  } else if (process == nullptr) {
    return;
  } else if (dice < 716) {
    Count("kill");
    Kill(std::string(process->name));
  } else if (dice < 722) {
    Count("freeze");
    process->is_frozen = true;
  } else if (dice < 740) {
    process->is_frozen = false;
  } else if (dice < 748) {
    BreakStream(*process);
  } else if (dice < 764) {
    Complain(*process);
  }
}

void RandomCluster::Spawn() {
  if (processes_.size() >= kMostProcesses) return;
  const int slot = Pick(kMostProcesses);
  const bool is_server = slot >= kMostWorkers;
  const std::string name = is_server ? absl::StrCat("s", slot - kMostWorkers)
                                     : absl::StrCat("w", slot);
  if (processes_.contains(name)) return;
  Process process;
  process.name = name;
  process.role = is_server ? v1::ROLE_PARAMETER_SERVER : v1::ROLE_WORKER;
  process.host = absl::StrCat("h", Pick(3));
  process.incarnation = ++last_incarnation_;
  Count("spawn");
  processes_.emplace(name, std::move(process));
}

void RandomCluster::Kill(const std::string& name) {
  const SessionId session = processes_[name].session;
  processes_.erase(name);
  // A host that vanishes breaks no stream: then only the lease tells.
  if (session != 0 && Chance(70)) Feed(StreamClosed{session, "killed"});
}

void RandomCluster::BreakStream(Process& process) {
  if (process.session == 0) return;
  Count("break");
  const SessionId session = std::exchange(process.session, 0);
  process.up.clear();
  process.down.clear();
  if (Chance(50)) Feed(StreamClosed{session, "broken"});
}

void RandomCluster::Complain(Process& process) {
  if (process.session == 0 || process.is_frozen) return;
  const int dice = Pick(10);
  if (dice < 5) {
    const auto it = exchanges_.find(process.generation);
    if (process.mode != Mode::kRunning || it == exchanges_.end()) return;
    const int members = it->second.members;
    if (members < 2) return;
    Count("suspicion");
    process.up.push_back(SuspicionReceived{
        process.session, process.generation,
        (process.rank + 1 + Pick(members - 1)) % members, "reset", 0, 0});
  } else if (dice < 9) {
    Count("leave");
    process.is_leaving = true;
    process.up.push_back(LeavingReceived{process.session, "SIGTERM", false, 0});
  } else if (process.generation != 0 && process.mode != Mode::kFailed) {
    Count("fail");
    process.mode = Mode::kFailed;
    // Half of them by what was submitted, which may end the job.
    process.up.push_back(FailedReceived{process.session, process.generation,
                                        process.applied, Chance(50) ? 2 : 5,
                                        "no data"});
  }
}

void RandomCluster::AskForSomething() {
  const State& state = core_.state();
  const RequestToken request = ++last_request_;
  if (state.jobs.size() < kMostJobs && Chance(70)) {
    SubmitRequested submit;
    submit.request = request;
    submit.name = "j";
    submit.min_workers = 1 + Pick(3);
    submit.max_workers = submit.min_workers + Pick(3);
    submit.scale_limit = 4096;
    submit.settle = absl::Milliseconds(Pick(1000));
    submit.total_steps = 1 + Pick(12);
    submit.sharding = DrawSharding(submit.max_workers);
    submit.keeps_checkpoints = submit.can_go_on_later = Chance(50);
    if (Chance(15)) {
      submit.runs_commands = true;
      submit.keeps_checkpoints = false;
      submit.total_steps = 1;
      submit.sharding = Sharding();
    }
    submit.priority = Pick(3) - 1;
    const auto& queues = state.queues;
    if (!queues.empty()) {
      submit.queue =
          std::next(queues.begin(), Pick(static_cast<int>(queues.size())))
              ->first;
    }
    if (submit.sharding.IsColocated()) submit.scale_limit = submit.max_workers;
    submits_.insert(request);
    Count("submit");
    Feed(submit);
  } else if (Chance(15)) {
    Count("cancel");
    Feed(CancelRequested{
        request,
        absl::StrCat("j-",
                     1 + Pick(static_cast<int>(state.last_job_number) + 1)),
        "enough"});
  } else if (Chance(15)) {
    ChangeSomeJob(request);
  } else if (Chance(30)) {
    Cordon(request);
  } else if (has_queues_ && Chance(20)) {
    SetQueues(request);
  }
}

void RandomCluster::SetQueues(RequestToken request) {
  Count("queues");
  QueuesRequested queues{.request = request};
  for (const char* name : {"default", "a", "b"}) {
    if (Chance(20)) continue;
    v1::QueueSpec& queue = *queues.file.add_queues();
    queue.set_name(name);
    queue.set_workers(Pick(kMostWorkers));
    if (Chance(30)) queue.set_most_workers(queue.workers() + Pick(3));
    if (Chance(30)) queue.set_weight(1 + Pick(3));
  }
  Feed(queues);
}

void RandomCluster::ChangeSomeJob(RequestToken request) {
  const int64_t number =
      1 + Pick(static_cast<int>(core_.state().last_job_number) + 1);
  const auto job = core_.state().jobs.find(number);
  ChangeRequested change;
  change.request = request;
  change.job = absl::StrCat("j-", number);
  if (Chance(30)) {
    Count("scale");
    change.max_workers = 1 + Pick(kMostWorkers);
    change.min_workers = 1 + Pick(*change.max_workers);
  } else if (has_queues_ && Chance(20)) {
    Count("move");
    change.queue = Chance(50) ? "a" : "b";
  } else if (Chance(50)) {
    Count("priority");
    change.priority = Pick(3) - 1;
  } else {
    change.is_suspended =
        job == core_.state().jobs.end() || !job->second.is_suspended;
    Count(*change.is_suspended ? "suspend" : "resume");
  }
  Feed(change);
}

// Mostly of workers and hosts that there are.
void RandomCluster::Cordon(RequestToken request) {
  const std::string target = Chance(50) ? absl::StrCat("h", Pick(3))
                                        : absl::StrCat("w", Pick(kMostWorkers));
  const bool is_lifted = core_.state().cordons.contains(target);
  Count(is_lifted ? "uncordon" : "cordon");
  CordonRequested cordon{request, target, is_lifted, /*drains=*/Chance(70),
                         "upkeep"};
  if (cordon.drains && Chance(50)) cordon.within = absl::Seconds(Pick(20));
  Feed(std::move(cordon));
}

Sharding RandomCluster::DrawSharding(int max_workers) {
  Sharding sharding;
  if (Chance(50)) return sharding;
  sharding.servers = Pick(kMostServers + 1);
  sharding.shards = sharding.servers > 0 ? sharding.servers : max_workers;
  sharding.replicas = Pick(2);
  sharding.is_lockstep = Chance(80);
  Count(sharding.servers == 0 ? "colocated job" : "job with servers");
  return sharding;
}

void RandomCluster::DoJournal(bool is_fault) {
  if (unanswered_.empty()) {
    if (has_failed_journal_ && Chance(20)) {
      has_failed_journal_ = false;
      Feed(JournalWorks{});
    }
    return;
  }
  const Persist persist = unanswered_.front();
  unanswered_.erase(unanswered_.begin());
  if (is_fault) {
    Count("journal failure");
    has_failed_journal_ = true;
    Feed(PersistFailed{persist.token, "disk full"});
    return;
  }
  CheckRecord(persist.record);
  journal_.push_back(persist.record);
  Feed(Persisted{persist.token});
}

void RandomCluster::RestartCoordinator() {
  Count("restart");
  // Some of what was handed over may have become durable all the same.
  while (!unanswered_.empty() && Chance(50)) {
    CheckRecord(unanswered_.front().record);
    journal_.push_back(unanswered_.front().record);
    unanswered_.erase(unanswered_.begin());
  }
  unanswered_.clear();
  has_failed_journal_ = false;
  for (auto& [name, process] : processes_) {
    process.session = 0;
    process.up.clear();
    process.down.clear();
  }
  log_.push_back("restart");
  if (Chance(50)) journal_ = Retained(journal_, config_.max_ended_jobs);
  absl::StatusOr<CoordinatorCore> core =
      CoordinatorCore::Recover(config_, journal_, ++coordinator_incarnation_);
  if (!core.ok()) {
    Violate(std::string(core.status().message()));
    return;
  }
  core_ = *std::move(core);
  // A member that had not heard of its generation may hold nothing any more.
  for (const auto& [number, job] : core_.state().jobs) {
    lossy_jobs_.insert(job.id);
  }
  Feed(Tick{});
}

void RandomCluster::Advance(absl::Duration duration) {
  const MonotonicTime end = now_ + duration;
  while (core_.NextDeadline() <= end) {
    now_ = std::max(now_, core_.NextDeadline());
    Feed(Tick{});
  }
  now_ = end;
}

bool RandomCluster::RunToTheEnd() {
  is_calm_ = true;
  for (auto& [name, process] : processes_) process.is_frozen = false;
  const MonotonicTime end = now_ + absl::Hours(1);
  while (now_ < end && violations_.empty()) {
    // Those who leave and those who failed are replaced.
    Spawn();
    while (!unanswered_.empty()) DoJournal(/*is_fault=*/false);
    if (!core_.state().journal_error.empty()) Feed(JournalWorks{});
    if (!core_.state().cordons.empty()) {
      Feed(CordonRequested{++last_request_,
                           core_.state().cordons.begin()->first,
                           /*is_lifted=*/true});
    }
    // Limits may be too low for jobs that were there before them.
    if (!core_.state().queues.empty()) {
      QueuesRequested queues{.request = ++last_request_};
      for (const char* name : {"a", "b"}) {
        v1::QueueSpec& queue = *queues.file.add_queues();
        queue.set_name(name);
        queue.set_workers(1 + (name[0] == 'a'));
      }
      Feed(queues);
    }
    for (const auto& [number, job] : core_.state().jobs) {
      if (!job.is_suspended || IsEnded(job.state())) continue;
      Feed(ChangeRequested{
          {.is_suspended = false}, ++last_request_, job.id, "", {}});
      break;
    }
    std::vector<std::string> names;
    for (const auto& [name, process] : processes_) names.push_back(name);
    for (const std::string& name : names) {
      const auto it = processes_.find(name);
      if (it == processes_.end()) continue;
      // Nor does a worker train for ever without a coordinator.
      if (it->second.sent_away_since.value_or(now_) + config_.state_wait <
          now_) {
        Kill(name);
      } else {
        DoWork(it->second);
      }
    }
    Advance(absl::Milliseconds(100));
    const auto& jobs = core_.state().jobs;
    if (std::all_of(jobs.begin(), jobs.end(), [](const auto& entry) {
          return IsEnded(entry.second.state());
        })) {
      return true;
    }
  }
  return false;
}

// ---- The core's actions.

void RandomCluster::Feed(const Event& event) {
  const std::vector<Action> actions = core_.Step(event, now_);
  const bool is_quiet = std::holds_alternative<BeatReceived>(event.body) ||
                        std::holds_alternative<Tick>(event.body);
  if (!is_quiet || !actions.empty()) {
    const Process* const process = ProcessOf(SessionOf(event.body));
    log_.push_back(absl::StrCat(absl::FormatDuration(now_ - MonotonicTime()),
                                " ", Sv(TypeOf(event.body)),
                                process == nullptr ? "" : " of ",
                                process == nullptr ? "" : process->name));
  }
  CheckNotRelieved(actions);
  for (const Action& action : actions) Perform(action);
  CheckState();
  while (log_.size() > log_lines_) log_.pop_front();
}

void RandomCluster::Perform(const Action& action) {
  log_.push_back(absl::StrCat("  ", ToText(action, [this](SessionId s) {
                                const Process* const process = ProcessOf(s);
                                return process == nullptr
                                           ? absl::StrCat("session ", s)
                                           : process->name;
                              })));
  SessionId session = 0;
  std::visit(
      [&](const auto& what) {
        if constexpr (requires { what.session; }) session = what.session;
      },
      action);
  if (const auto* const assignment = std::get_if<SendAssignment>(&action)) {
    CheckAssignment(*assignment);
  } else if (const auto* const persist = std::get_if<Persist>(&action)) {
    unanswered_.push_back(*persist);
    const auto* const formed =
        std::get_if<GenerationFormedRecord>(&persist->record);
    if (formed != nullptr) {
      CheckLeavers(*formed);
      CheckCordons(*formed);
      CheckRoom(*formed);
    }
    CheckGifts();
  } else if (const auto* const emit = std::get_if<EmitEvent>(&action)) {
    if (emit->event.type() == "worker.relieved") Count("relieved");
    if (emit->event.type() == "worker.hands_over") Count("failed leaver");
    if (emit->event.type() == "pool.drained") Count("drained");
    if (emit->event.type() == "pool.drain_due") Count("drain due");
    if (emit->event.type() == "job.suspended") Count("suspended");
    if (emit->event.type() == "worker.lost")
      lost_at_[emit->event.worker()] = now_;
    if (emit->event.type() == "job.steps_lost" && emit->event.worker().empty())
      CheckStepsLost(emit->event);
    if (emit->event.type() == "coordinator.indecisive")
      Violate(emit->event.message());
  } else if (const auto* const start = std::get_if<SendStart>(&action)) {
    lossy_jobs_.erase(exchanges_[start->generation].job_id);
  } else if (const auto* const reply = std::get_if<ReplyToUser>(&action)) {
    CheckReply(*reply);
  } else if (const auto* const close = std::get_if<CloseSession>(&action)) {
    if (ReasonOf(close->status) == reason::kSessionProtocolViolation) {
      Violate(std::string(close->status.message()));
    }
  }
  if (session == 0) return;
  if (Process* const process = ProcessOf(session)) {
    process->down.push_back(action);
  }
}

}  // namespace ringmaster::coordinator
