// The regular course of things in a RandomCluster: its workers connect, hear
// what they are told, and train by the commit protocol.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/reason.h"
#include "server/coordinator/core/testing/random_cluster.h"

namespace ringmaster::coordinator {
namespace {

constexpr uint64_t kParametersHash = 42;

int64_t Least(const std::vector<int64_t>& steps) {
  return *std::min_element(steps.begin(), steps.end());
}

}  // namespace

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
  if (process.is_rehearsal) GoIdle(process);
  HelloReceived hello;
  hello.session = process.session;
  hello.name = process.name;
  hello.incarnation = process.incarnation;
  hello.role = process.role;
  hello.protocol_max = ProtocolOf(process.incarnation);
  hello.host = hello.host_key = process.host;
  hello.generation = process.generation;
  hello.formed_by = process.formed_by;
  hello.applied_step = process.generation == 0 ? 0 : process.applied;
  // Those of another release do not.
  hello.can_rehearse = process.incarnation % 4 != 0;
  hello.can_probe = hello.can_rehearse;
  hello.runs_commands = true;
  if (hello.can_probe) {
    hello.resume_key_hash = absl::StrCat("key ", process.incarnation);
  }
  process.up.push_back(hello);
  SayAgain(process);
}

// Repeats what the coordinator may have missed or forgotten.
void RandomCluster::SayAgain(Process& process) {
  if (process.is_leaving) {
    process.up.push_back(LeavingReceived{process.session, "SIGTERM", false, 0});
  }
  if (process.mode == Mode::kPrepared) {
    process.up.push_back(
        PreparedReceived{process.session, process.generation, 1, 1, "same"});
  } else if (process.mode == Mode::kHalted) {
    process.up.push_back(HaltedOf(process));
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
  const bool runs_commands = process.mode == Mode::kRunning &&
                             exchanges_[process.generation].runs_commands;
  if (runs_commands) ++process.meetings;
  process.up.push_back(
      BeatReceived{process.session,
                   process.generation,
                   process.applied,
                   runs_commands ? v1::PHASE_COMMAND : v1::PHASE_STEP,
                   process.complete + process.meetings,
                   -1,
                   process.disk_bytes,
                   {}});
}

bool RandomCluster::IsLastWriter(const Process& process) const {
  const Job* const job = core_.state().FindJob(process.job_id);
  return process.rank == 0 && job != nullptr && job->keeps_checkpoints;
}

void RandomCluster::Finish(Process& process, bool is_stopped) {
  process.mode = Mode::kFinished;
  const bool is_saved =
      exchanges_[process.generation].is_for_checkpoint && Chance(80);
  if ((!is_stopped || is_saved) && IsLastWriter(process)) {
    if (!is_stopped) written_.insert(process.job_id);
    if (is_stopped) Count("checkpoint of leavers");
    v1::Notice notice;
    notice.set_kind(v1::NOTICE_KIND_CHECKPOINT_WRITTEN);
    notice.set_generation(process.generation);
    notice.set_step(process.applied);
    if (ProtocolOf(process.incarnation) > 1)
      notice.set_snapshot_generation(process.generation);
    process.up.push_back(NoticeReceived{process.session, std::move(notice)});
  }
  SetDone(process,
          is_stopped ? Exchange::Done::kStopped : Exchange::Done::kFinished);
  process.up.push_back(FinishedReceived{process.session,
                                        process.generation,
                                        process.applied,
                                        kParametersHash,
                                        is_stopped,
                                        {}});
}

void RandomCluster::SetDone(const Process& process, Exchange::Done done) {
  if (process.role == v1::ROLE_PARAMETER_SERVER) return;
  exchanges_[process.generation].done[process.rank] = done;
}

bool RandomCluster::IsAnswered(const Exchange& exchange, int64_t step) {
  return std::all_of(exchange.answered.begin(), exchange.answered.end(),
                     [step](int64_t answered) { return answered >= step; });
}

// One action of the commit protocol.
void RandomCluster::Train(Process& process) {
  if (process.is_leaving && process.generation == 0) {
    process.up.push_back(LeavingReceived{process.session, "SIGTERM", true, 0});
    return;
  }
  // It does not wait for ever for the others to be replaced, nor to take over
  // what it holds.
  const int impatience = StaysUntilReleased(process) ? 2 : 5;
  if (process.is_leaving && process.mode == Mode::kHalted &&
      Chance(impatience)) {
    Count(process.shards.empty() ? "leave halted" : "leave with shards");
    process.up.push_back(
        LeavingReceived{process.session, "SIGTERM", true, process.applied});
    return;
  }
  if (process.mode == Mode::kPreparing) {
    if (!process.is_rehearsal && Chance(50)) Load(process);
    process.mode = Mode::kPrepared;
    SayAgain(process);
    return;
  }
  if (process.mode != Mode::kRunning) return;
  Exchange& exchange = exchanges_[process.generation];
  Serve(process);
  if (process.role == v1::ROLE_PARAMETER_SERVER) {
    EndServing(process);
    return;
  }
  if (process.applied >= exchange.total_steps) {
    // Rank 0 writes the last checkpoint first, while the others have finished.
    if (IsLastWriter(process) && !Chance(30)) return;
    Finish(process, false);
    return;
  }
  if (process.is_newcomer) {
    Copy(process);
    return;
  }
  if (EndsHere(process)) return;
  if (!exchange.sharding.is_lockstep) {
    TrainByOwnClock(process);
    return;
  }
  Load(process);
  // A loaded checkpoint is the first step that is applied.
  const int64_t step = process.applied == 0 && exchange.checkpoint_step > 0
                           ? exchange.checkpoint_step
                           : process.applied + 1;
  int64_t& contributed = exchange.contributed[process.rank];
  if (exchange.runs_commands && contributed == 0 && !Chance(5)) return;
  contributed = std::max(contributed, step);
  exchange.recorded[process.rank] =
      std::max(exchange.recorded[process.rank], process.complete);
  if (process.complete < step && Least(exchange.contributed) >= step &&
      IsAnswered(exchange, step)) {
    process.complete = step;
    exchange.recorded[process.rank] = step;
  } else if (process.complete == step && Least(exchange.recorded) >= step &&
             IsAnswered(exchange, step)) {
    Apply(process, step);
  }
}

bool RandomCluster::StaysUntilReleased(const Process& process) {
  return !process.shards.empty() ||
         (ProtocolOf(process.incarnation) >= kLeaveProtocol &&
          process.complete > 0);
}

void RandomCluster::AgreeOnEnd(const Process& process, Exchange& exchange) {
  if (!exchange.runs_commands || Least(exchange.contributed) > 0) return;
  if (process.wants_stop) {
    exchange.agreed_end = Exchange::Done::kStopped;
  } else if (exchange.agreed_end == Exchange::Done::kNo &&
             (process.wants_pause || process.is_leaving)) {
    exchange.agreed_end = Exchange::Done::kDrained;
  }
}

bool RandomCluster::EndsHere(Process& process) {
  Exchange& exchange = exchanges_[process.generation];
  AgreeOnEnd(process, exchange);
  const bool is_agreed = exchange.agreed_end != Exchange::Done::kNo;
  const bool is_level =
      process.complete == process.applied &&
      Least(exchange.recorded) == process.applied &&
      *std::max_element(exchange.contributed.begin(),
                        exchange.contributed.end()) == process.applied;
  if (exchange.runs_commands ? !is_agreed : !is_level) return false;
  if (exchange.agreed_end == Exchange::Done::kStopped)
    process.wants_stop = true;
  if (process.wants_stop) {
    Finish(process, true);
  } else if (process.applied == exchange.resume_step && !is_agreed) {
    return false;  // It pauses between two steps.
  } else if (process.is_leaving && !StaysUntilReleased(process)) {
    SetDone(process, Exchange::Done::kDrained);
    process.up.push_back(
        LeavingReceived{process.session, "SIGTERM", true, process.applied});
  } else if (process.is_leaving || process.wants_pause || is_agreed ||
             exchange.has_leaving_server) {
    Count(exchange.runs_commands ? "commands end early" : "pause");
    SetDone(process, Exchange::Done::kDrained);
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
  // If the parameters are in shards, rank 0 reads the checkpoint for all.
  if (process.role == v1::ROLE_PARAMETER_SERVER ||
      (exchange.placements != nullptr && process.rank > 0)) {
    return;
  }
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
  if (std::holds_alternative<SendWelcome>(action)) {
    process.sent_away_since.reset();
  } else if (const auto* const a = std::get_if<SendAssignment>(&action)) {
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
  } else if (const auto* const probe = std::get_if<SendProbe>(&action)) {
    AnswerProbe(process, probe->probe);
  } else if (const auto* const release = std::get_if<SendRelease>(&action)) {
    if (release->generation != process.generation) return;
    GoIdle(process);
  } else if (const auto* const close = std::get_if<CloseSession>(&action)) {
    if (ReasonOf(close->status) == reason::kUnknownGeneration &&
        !process.sent_away_since.has_value()) {
      process.sent_away_since = now_;
    }
    process.session = 0;
    process.up.clear();
    process.down.clear();
  }
}

// Mostly all peers are reached, or all but one.
void RandomCluster::AnswerProbe(Process& process, const v1::Probe& probe) {
  Count("probe");
  ProbedReceived answer{process.session, {}};
  answer.probed.set_generation(probe.generation());
  if (!Chance(10)) answer.probed.set_number(probe.number());  // else: it is old
  for (const v1::ProbePeer& peer : probe.peers()) {
    v1::ProbeResult& result = *answer.probed.add_results();
    result.set_peer_rank(peer.rank());
    result.set_reached(Chance(80));
    result.set_failure(v1::LINK_FAILURE_NO_ANSWER);
  }
  process.up.push_back(std::move(answer));
}

void RandomCluster::GoIdle(Process& process) {
  process.mode = Mode::kIdle;
  process.generation = 0;
  process.formed_by = 0;
  process.job_id.clear();
  process.wants_stop = false;
  process.is_newcomer = false;
  process.is_rehearsal = false;
  process.shards.clear();
}

void RandomCluster::ReceiveAssignment(Process& process,
                                      const SendAssignment& assignment) {
  if (assignment.generation <= process.generation) return;
  process.is_rehearsal = assignment.is_rehearsal;
  if (process.is_rehearsal) {
    Count("rehearsal");
    process.generation = assignment.generation;
    process.job_id = assignment.job_id;
    process.applied = process.complete = 0;
    process.is_newcomer = true;
    process.rank = assignment.self.rank;
    process.mode = Mode::kPreparing;
    return;
  }
  if (assignment.job_id != process.job_id) {
    process.applied = process.complete = 0;
    process.shards.clear();
  }
  const bool has_shards = assignment.placements != nullptr;
  // Workers pull what is in shards.
  process.is_newcomer = assignment.is_newcomer && !has_shards;
  if (assignment.is_newcomer) Count("newcomer");
  if (has_shards) {
    PrepareShards(process, assignment);
    process.complete = assignment.resume_step;
  } else if (process.is_newcomer) {
    process.complete = 0;
  } else if (process.complete < assignment.resume_step ||
             process.applied > assignment.resume_step) {
    Violate(absl::StrCat(process.name, " applied ", process.applied,
                         " and holds ", process.complete,
                         ", but is to go on after ", assignment.resume_step));
  }
  process.generation = assignment.generation;
  process.formed_by = assignment.formed_by;
  process.job_id = assignment.job_id;
  process.complete = process.is_newcomer ? 0 : assignment.resume_step;
  if (process.role == v1::ROLE_WORKER) Apply(process, process.complete);
  process.applied = process.complete;
  process.rank = assignment.self.rank;
  process.mode = Mode::kPreparing;
  // Without a step to make, it ends as soon as it holds the state.
  process.wants_stop = assignment.makes_no_step;
  process.wants_pause = false;
  Exchange& exchange = exchanges_[assignment.generation];
  exchange.is_for_checkpoint =
      assignment.makes_no_step && assignment.state_source_rank < 0;
  exchange.resume_step = assignment.resume_step;
  exchange.job_id = assignment.job_id;
  exchange.total_steps = core_.state().FindJob(assignment.job_id)->total_steps;
  const auto [checkpoint, is_first] =
      checkpoints_.emplace(assignment.job_id, 0);
  exchange.runs_commands =
      core_.state().FindJob(assignment.job_id)->runs_commands;
  if (is_first && !exchange.runs_commands && Chance(50)) {
    checkpoint->second = 1 + Pick(static_cast<int>(exchange.total_steps));
  }
  exchange.checkpoint_step = checkpoint->second;
  exchange.contributed.resize(assignment.world_size, assignment.resume_step);
  exchange.recorded.resize(assignment.world_size, assignment.resume_step);
  exchange.done.resize(assignment.world_size);
  exchange.sharding = core_.state().FindJob(assignment.job_id)->sharding;
  exchange.members = assignment.world_size;
  if (!has_shards || exchange.placements != nullptr) return;
  exchange.placements = assignment.placements;
  exchange.answered.resize(assignment.placements->size(), -1);
}

}  // namespace ringmaster::coordinator
