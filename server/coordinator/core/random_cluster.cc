#include "server/coordinator/core/random_cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/reason.h"
#include "server/coordinator/core/action_text.h"
#include "server/coordinator/core/turn.h"

namespace ringmaster::coordinator {
namespace {

constexpr int kMostProcesses = 6;
constexpr int kMostJobs = 4;
constexpr size_t kLogLines = 60;
constexpr uint64_t kParametersHash = 42;

int64_t Least(const std::vector<int64_t>& steps) {
  return *std::min_element(steps.begin(), steps.end());
}

}  // namespace

RandomCluster::RandomCluster(uint64_t seed)
    : random_(seed),
      config_(Config::FromFailureBudget(absl::Seconds(2))),
      core_(config_),
      now_(MonotonicTime::FromNanos(1)) {
  config_.progress_cap = absl::Seconds(20);
  core_ = CoordinatorCore(config_);
  Feed(Tick{});
}

std::string RandomCluster::Log() const { return absl::StrJoin(log_, "\n"); }

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
  } else if (dice < 756) {
    Complain(*process);
  }
}

void RandomCluster::Spawn() {
  if (processes_.size() >= kMostProcesses) return;
  const std::string name = absl::StrCat("w", Pick(kMostProcesses));
  if (processes_.contains(name)) return;
  Process process;
  process.name = name;
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
  if (dice < 6) {
    const auto it = exchanges_.find(process.generation);
    if (process.mode != Mode::kRunning || it == exchanges_.end()) return;
    const int world_size = static_cast<int>(it->second.recorded.size());
    if (world_size < 2) return;
    Count("suspicion");
    process.up.push_back(SuspicionReceived{
        process.session, process.generation,
        (process.rank + 1 + Pick(world_size - 1)) % world_size, "reset", 0, 0});
  } else if (dice < 9) {
    Count("leave");
    process.is_leaving = true;
    process.up.push_back(LeavingReceived{process.session, "SIGTERM", false, 0});
  } else if (process.generation != 0 && process.mode != Mode::kFailed) {
    Count("fail");
    process.mode = Mode::kFailed;
    process.up.push_back(FailedReceived{process.session, process.generation,
                                        process.applied, 5, "no data"});
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
    submit.settle = absl::Milliseconds(Pick(1000));
    submit.total_steps = 1 + Pick(12);
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
  } else if (Chance(10)) {
    Feed(DrainRequested{request, absl::StrCat("w", Pick(kMostProcesses)), ""});
  }
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
  absl::StatusOr<CoordinatorCore> core =
      CoordinatorCore::Recover(config_, journal_);
  if (!core.ok()) {
    Violate(std::string(core.status().message()));
    return;
  }
  core_ = *std::move(core);
  Feed(Tick{});
}

// ---- The regular course of things.

void RandomCluster::DoWork(Process& process) {
  if (process.is_frozen) return;
  if (process.session == 0) {
    Connect(process);
    return;
  }
  const std::string name = process.name;
  DeliverDown(process);
  Train(process);
  Beat(process);
  DeliverUp(process);
}

void RandomCluster::Connect(Process& process) {
  process.session = ++last_session_;
  HelloReceived hello;
  hello.session = process.session;
  hello.name = process.name;
  hello.incarnation = process.incarnation;
  hello.host = hello.host_key = process.host;
  hello.generation = process.generation;
  hello.applied_step = process.generation == 0 ? 0 : process.applied;
  process.up.push_back(hello);
  SayAgain(process);
}

// What the coordinator may have missed or forgotten.
void RandomCluster::SayAgain(Process& process) {
  if (process.mode == Mode::kPrepared) {
    process.up.push_back(
        PreparedReceived{process.session, process.generation, 1, 1, "same"});
  } else if (process.mode == Mode::kHalted) {
    process.up.push_back(HaltedReceived{process.session, process.generation,
                                        process.applied, process.complete});
  } else if (process.mode == Mode::kFinished) {
    Finish(process, process.wants_stop);
  } else if (process.mode == Mode::kFailed) {
    process.up.push_back(FailedReceived{process.session, process.generation,
                                        process.applied, 5, "no data"});
  }
}

void RandomCluster::Beat(Process& process) {
  // Some read or write a checkpoint meanwhile, which comes to an end.
  if (process.disk_bytes < 4 * process.applied && Chance(10)) {
    ++process.disk_bytes;
  }
  process.up.push_back(BeatReceived{process.session,
                                    process.generation,
                                    process.applied,
                                    Phase::kStep,
                                    process.complete,
                                    -1,
                                    process.disk_bytes,
                                    {}});
}

void RandomCluster::Finish(Process& process, bool is_stopped) {
  process.mode = Mode::kFinished;
  process.up.push_back(FinishedReceived{process.session,
                                        process.generation,
                                        process.applied,
                                        kParametersHash,
                                        is_stopped,
                                        {}});
}

// One action of the commit protocol.
void RandomCluster::Train(Process& process) {
  if (process.is_leaving && process.generation == 0) {
    process.up.push_back(LeavingReceived{process.session, "SIGTERM", true, 0});
    return;
  }
  // It does not wait for ever for the others to be replaced.
  if (process.is_leaving && process.mode == Mode::kHalted && Chance(5)) {
    Count("leave halted");
    process.up.push_back(
        LeavingReceived{process.session, "SIGTERM", true, process.applied});
    return;
  }
  if (process.mode == Mode::kPreparing) {
    if (Chance(50)) Load(process);
    process.mode = Mode::kPrepared;
    SayAgain(process);
    return;
  }
  if (process.mode != Mode::kRunning) return;
  Exchange& exchange = exchanges_[process.generation];
  if (process.applied >= exchange.total_steps) {
    Finish(process, false);
    return;
  }
  if (process.is_newcomer) {
    Copy(process);
    return;
  }
  if (EndsHere(process)) return;
  Load(process);
  // A loaded checkpoint is the first step that is applied.
  const int64_t step = process.applied == 0 && exchange.checkpoint_step > 0
                           ? exchange.checkpoint_step
                           : process.applied + 1;
  int64_t& contributed = exchange.contributed[process.rank];
  contributed = std::max(contributed, step);
  exchange.recorded[process.rank] =
      std::max(exchange.recorded[process.rank], process.complete);
  if (process.complete < step && Least(exchange.contributed) >= step) {
    process.complete = step;
    exchange.recorded[process.rank] = step;
  } else if (process.complete == step && Least(exchange.recorded) >= step) {
    Apply(process, step);
  }
}

bool RandomCluster::EndsHere(Process& process) {
  const Exchange& exchange = exchanges_[process.generation];
  const bool is_level =
      process.complete == process.applied &&
      Least(exchange.recorded) == process.applied &&
      *std::max_element(exchange.contributed.begin(),
                        exchange.contributed.end()) == process.applied;
  if (!is_level) return false;
  if (process.wants_stop) {
    Finish(process, true);
  } else if (process.is_leaving) {
    process.up.push_back(
        LeavingReceived{process.session, "SIGTERM", true, process.applied});
  } else if (process.wants_pause) {
    Count("pause");
    process.mode = Mode::kHalted;
    SayAgain(process);
  } else {
    return false;
  }
  return true;
}

void RandomCluster::Copy(Process& process) {
  if (Chance(60)) return;  // It takes its time.
  Count("copy");
  process.is_newcomer = false;
  process.complete = exchanges_[process.generation].resume_step;
  process.applied = process.complete;
}

void RandomCluster::Apply(Process& process, int64_t step) {
  process.applied = step;
  // Those that were lost may still end a step that nobody counts on any more.
  if (process.generation < rollbacks_[process.job_id]) return;
  applied_[process.job_id] = std::max(applied_[process.job_id], step);
}

void RandomCluster::Load(Process& process) {
  const Exchange& exchange = exchanges_[process.generation];
  const int64_t step = exchange.checkpoint_step;
  if (exchange.resume_step > 0 || process.applied > 0 ||
      process.complete >= step) {
    return;
  }
  Count("load");
  process.complete = step;
}

void RandomCluster::DeliverUp(Process& process) {
  const std::string name = process.name;
  for (int count = is_calm_ ? 10 : Pick(4); count > 0; --count) {
    const auto it = processes_.find(name);
    if (it == processes_.end() || it->second.up.empty()) return;
    const Event event = it->second.up.front();
    it->second.up.pop_front();
    const auto* const leaving = std::get_if<LeavingReceived>(&event.body);
    Feed(event);
    if (leaving != nullptr && leaving->is_done) {
      processes_.erase(name);
      return;
    }
  }
}

void RandomCluster::DeliverDown(Process& process) {
  for (int count = is_calm_ ? 10 : Pick(4);
       count > 0 && !process.down.empty() && process.session != 0; --count) {
    const Action action = process.down.front();
    process.down.pop_front();
    Receive(process, action);
  }
}

void RandomCluster::Receive(Process& process, const Action& action) {
  if (const auto* const a = std::get_if<SendAssignment>(&action)) {
    ReceiveAssignment(process, *a);
  } else if (const auto* const start = std::get_if<SendStart>(&action)) {
    if (process.mode == Mode::kPrepared &&
        start->generation == process.generation) {
      process.mode = Mode::kRunning;
    }
  } else if (const auto* const halt = std::get_if<SendHalt>(&action)) {
    if (halt->generation != process.generation || process.generation == 0 ||
        process.mode == Mode::kFailed) {
      return;
    }
    process.mode = Mode::kHalted;
    SayAgain(process);
  } else if (const auto* const stop = std::get_if<SendStop>(&action)) {
    if (stop->generation == process.generation) process.wants_stop = true;
  } else if (const auto* const pause = std::get_if<SendPause>(&action)) {
    if (pause->generation == process.generation) process.wants_pause = true;
  } else if (const auto* const release = std::get_if<SendRelease>(&action)) {
    if (release->generation != process.generation) return;
    process.mode = Mode::kIdle;
    process.generation = 0;
    process.job_id.clear();
    process.wants_stop = false;
    process.is_newcomer = false;
  } else if (std::holds_alternative<SendDrain>(action)) {
    process.is_leaving = true;
  } else if (std::holds_alternative<CloseSession>(action)) {
    process.session = 0;
    process.up.clear();
    process.down.clear();
  }
}

void RandomCluster::ReceiveAssignment(Process& process,
                                      const SendAssignment& assignment) {
  if (assignment.generation <= process.generation) return;
  if (assignment.job_id != process.job_id) {
    process.applied = process.complete = 0;
  }
  process.is_newcomer = assignment.is_newcomer;
  if (process.is_newcomer) {
    Count("newcomer");
  } else if (process.complete < assignment.resume_step ||
             process.applied > assignment.resume_step) {
    Violate(absl::StrCat(process.name, " applied ", process.applied,
                         " and holds ", process.complete,
                         ", but is to go on after ", assignment.resume_step));
  }
  process.generation = assignment.generation;
  process.job_id = assignment.job_id;
  process.complete = process.is_newcomer ? 0 : assignment.resume_step;
  Apply(process, process.complete);
  process.rank = assignment.self.rank;
  process.mode = Mode::kPreparing;
  process.wants_stop = false;
  process.wants_pause = false;
  Exchange& exchange = exchanges_[assignment.generation];
  exchange.resume_step = assignment.resume_step;
  exchange.job_id = assignment.job_id;
  exchange.total_steps = core_.state().FindJob(assignment.job_id)->total_steps;
  const auto [checkpoint, is_first] =
      checkpoints_.emplace(assignment.job_id, 0);
  if (is_first && Chance(50)) {
    checkpoint->second = 1 + Pick(static_cast<int>(exchange.total_steps));
  }
  exchange.checkpoint_step = checkpoint->second;
  exchange.contributed.resize(assignment.world_size, assignment.resume_step);
  exchange.recorded.resize(assignment.world_size, assignment.resume_step);
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
    std::vector<std::string> names;
    for (const auto& [name, process] : processes_) names.push_back(name);
    for (const std::string& name : names) {
      const auto it = processes_.find(name);
      if (it != processes_.end()) DoWork(it->second);
    }
    Advance(absl::Milliseconds(100));
    const auto& jobs = core_.state().jobs;
    if (std::all_of(jobs.begin(), jobs.end(), [](const auto& entry) {
          return IsEnded(entry.second.state);
        })) {
      return true;
    }
  }
  return false;
}

// ---- The core's actions, and what must hold.

void RandomCluster::Feed(const Event& event) {
  log_.push_back(absl::StrCat(absl::FormatDuration(now_ - MonotonicTime()), " ",
                              Sv(TypeOf(event.body)), " session ",
                              SessionOf(event.body)));
  const std::vector<Action> actions = core_.Step(event, now_);
  for (const Action& action : actions) Perform(action);
  CheckState();
  while (log_.size() > kLogLines) log_.pop_front();
}

void RandomCluster::Perform(const Action& action) {
  log_.push_back(absl::StrCat("  ", ToText(action, [](SessionId s) {
                                return absl::StrCat("session ", s);
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

void RandomCluster::CheckRecord(const JournalRecord& record) {
  if (const auto* const formed = std::get_if<GenerationFormedRecord>(&record)) {
    Count("generation");
    if (!durable_generations_.empty() &&
        formed->generation <= *durable_generations_.rbegin()) {
      Violate(absl::StrCat("generation ", formed->generation, " after ",
                           *durable_generations_.rbegin()));
    }
    durable_generations_.insert(formed->generation);
    if (formed->is_rollback) {
      Count("rollback");
      rollbacks_[formed->job_id] = formed->generation;
      applied_[formed->job_id] = 0;
      if (formed->resume_step != 0) Violate("a rollback to a step");
    }
    std::set<std::string> names;
    for (size_t rank = 0; rank < formed->members.size(); ++rank) {
      names.insert(formed->members[rank].worker);
      if (formed->members[rank].rank != static_cast<int>(rank)) {
        Violate(absl::StrCat("rank ", formed->members[rank].rank,
                             " in place of ", rank));
      }
    }
    if (names.size() != formed->members.size()) Violate("a member twice");
  } else if (const auto* const job = std::get_if<JobCreatedRecord>(&record)) {
    durable_jobs_.insert(job->id);
  } else if (const auto* const end = std::get_if<JobEndedRecord>(&record)) {
    Count(std::string(NameOf(end->state)));
    if (!durable_ends_.insert(end->job_id).second) {
      Violate(absl::StrCat("job ", end->job_id, " ended twice"));
    }
    const int64_t total = core_.state().FindJob(end->job_id)->total_steps;
    if (end->state == JobState::kSucceeded && applied_[end->job_id] < total) {
      Violate(absl::StrCat("job ", end->job_id, " succeeded at step ",
                           applied_[end->job_id], " of ", total));
    }
    if (end->exit_code == 1) Violate(end->message);
  } else if (const auto* const reached =
                 std::get_if<VerdictReachedRecord>(&record)) {
    if (!reached->verdict.worker.empty() && reached->verdict.evidence.empty()) {
      Violate("a verdict without evidence: " + reached->verdict.summary);
    }
  } else if (std::holds_alternative<HostQuarantinedRecord>(record)) {
    Count("quarantine");
  }
}

void RandomCluster::CheckAssignment(const SendAssignment& assignment) {
  if (!durable_generations_.contains(assignment.generation)) {
    Violate(absl::StrCat("generation ", assignment.generation,
                         " assigned before it was durable"));
  }
  if (assignment.generation < last_assigned_) {
    Violate(absl::StrCat("generation ", assignment.generation,
                         " assigned after ", last_assigned_));
  }
  last_assigned_ = assignment.generation;
  if (assignment.resume_step < applied_[assignment.job_id]) {
    Violate(absl::StrCat("job ", assignment.job_id, " goes on after step ",
                         assignment.resume_step, ", but step ",
                         applied_[assignment.job_id], " was applied"));
  }
  const bool is_source = assignment.self.rank == assignment.state_source_rank;
  if (assignment.is_newcomer &&
      (assignment.state_source_rank < 0 || assignment.resume_step == 0)) {
    Violate(absl::StrCat("newcomer ", assignment.self.worker,
                         " has no state to copy"));
  }
  if (assignment.is_newcomer && is_source) Violate("a newcomer is the source");
  const auto [exchange, is_first] =
      exchanges_.try_emplace(assignment.generation);
  if (is_first) exchange->second.source_rank = assignment.state_source_rank;
  if (exchange->second.source_rank != assignment.state_source_rank) {
    Violate("members differ in their source");
  }
}

void RandomCluster::CheckReply(const ReplyToUser& reply) {
  if (submits_.contains(reply.request) && reply.status.ok() &&
      !durable_jobs_.contains(reply.job_id)) {
    Violate(absl::StrCat("job ", reply.job_id, " told before it was durable"));
  }
}

void RandomCluster::CheckMembers(const Job& job) {
  if (job.generation > 0 && job.state == JobState::kGathering) Count("wait");
  for (const Member& member : job.members) {
    if (IsEnded(job.state) || member.is_lost) continue;
    const Worker* const worker =
        core_.state().FindWorker(member.identity.worker);
    if (worker == nullptr || worker->job_id != job.id ||
        worker->incarnation != member.identity.incarnation) {
      Violate(absl::StrCat("member ", member.identity.worker, " of ", job.id,
                           " is not there"));
    }
    if (job.state == JobState::kGathering && !member.halted.has_value()) {
      Violate(absl::StrCat("job ", job.id, " waits, but ",
                           member.identity.worker, " has not halted"));
    }
  }
}

void RandomCluster::CheckState() {
  int active = 0;
  for (const auto& [number, job] : core_.state().jobs) {
    CheckMembers(job);
    if (IsEnded(job.state)) {
      if (!durable_ends_.contains(job.id)) {
        Violate(absl::StrCat("job ", job.id, " shown as ended before"));
      }
    } else if (job.state != JobState::kQueued) {
      ++active;
    }
  }
  if (active > 1) Violate(absl::StrCat(active, " jobs are active"));
}

}  // namespace ringmaster::coordinator
