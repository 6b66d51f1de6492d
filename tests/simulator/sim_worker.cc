#include "tests/simulator/sim_worker.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"

namespace ringmaster::simulator {
namespace {

// The data port of slot 0.
constexpr int kFirstPort = 8000;

int SlotOfAddress(const std::string& address) {
  return std::stoi(address.substr(address.rfind(':') + 1)) - kFirstPort;
}

// Returns an event as the story tells it.
std::string Describe(const agent::Event& event) {
  std::string text(agent::EventName(event));
  std::visit(
      [&](const auto& e) {
        if constexpr (requires { e.generation; }) {
          absl::StrAppend(&text, " generation ", e.generation);
        }
        if constexpr (requires { e.position; }) {
          absl::StrAppend(&text, " at ", e.position.applied_step, "/",
                          e.position.complete_step);
        }
        if constexpr (requires { e.reason; }) {
          absl::StrAppend(&text, " ", e.reason);
        }
        if constexpr (requires { e.message; }) {
          absl::StrAppend(&text, " ", e.message);
        }
      },
      event);
  return text;
}

}  // namespace

SimWorker::SimWorker(Context& context, SessionLinks& sessions, PeerLinks& peers,
                     int slot, OnLeft on_left, Reaches reaches)
    : context_(context),
      sessions_(sessions),
      trainer_(context, peers, slot,
               [this](agent::Event event) { Post(std::move(event)); }),
      slot_(slot),
      name_(WorkerName(slot)),
      on_left_(std::move(on_left)),
      reaches_(std::move(reaches)),
      timer_(context, EventKind::kWorkerTimer, slot) {}

// ---- The process.

void SimWorker::Start() {
  if (is_alive()) return;
  ++life_;
  incarnation_ = context_.random.Next() | 1;
  frozen_until_ = 0;
  leaves_since_ = 0;
  started_ = context_.now;
  posts_.clear();
  session_ = 0;
  timer_.Reset();
  trainer_.Restart(life_);
  agent::AgentConfig config;
  config.coordinator = "head:7000";
  config.name = name_;
  config.drain_timeout = absl::Seconds(8);
  if (life_ > 1) config.name_wait = absl::Seconds(30);
  core_.emplace(std::move(config), context_.Now());
  if (context_.traced) context_.Tell(absl::StrCat(name_, " starts"));
  Handle(agent::Tick{});
}

void SimWorker::StartLater(int64_t delay) {
  if (delay < 0) return;
  SimEvent event;
  event.kind = EventKind::kWorkerStart;
  event.slot = static_cast<int8_t>(slot_);
  context_.After(delay, event);
}

void SimWorker::Kill(bool is_silent) {
  if (!is_alive()) return;
  if (context_.traced) context_.Tell(absl::StrCat(name_, " is killed"));
  NoteEnd(/*exit_code=*/0, SIGKILL);
  core_.reset();
  trainer_.Die(is_silent);
  sessions_.LoseWorker(slot_, is_silent);
  session_ = 0;
}

void SimWorker::Freeze(int64_t until) {
  frozen_until_ = std::max(frozen_until_, until);
}

void SimWorker::Terminate() {
  if (is_alive()) Post(agent::TerminateSignal{"SIGTERM"});
}

void SimWorker::NoteEnd(int exit_code, int signal) {
  v1::ProcessEnd& end = last_end_.emplace();
  end.set_pid(pid());
  end.set_exit_code(exit_code);
  end.set_signal(signal);
}

// The process ends by itself.
void SimWorker::End(int code) {
  NoteEnd(code, /*signal=*/0);
  if (session_ != 0) sessions_.CloseByWorker(session_);
  session_ = 0;
  core_.reset();
  trainer_.Die(/*is_silent=*/false);
  // A worker that was drained may stay away until the end.
  const bool stays_away = code == 0 && context_.random.Chance(50);
  StartLater(stays_away && !context_.is_calm
                 ? -1
                 : context_.random.Between(500, 3'000) * kMillisecond);
}

// ---- Events for the core.

void SimWorker::Post(agent::Event event) {
  posts_.push_back(std::move(event));
  SimEvent wakeup;
  wakeup.kind = EventKind::kPost;
  wakeup.slot = static_cast<int8_t>(slot_);
  context_.After(context_.random.Between(1, 50) * kMicrosecond, wakeup);
}

void SimWorker::OnPost() {
  if (!is_alive() || posts_.empty()) return;
  const agent::Event event = std::move(posts_.front());
  posts_.pop_front();
  Handle(event);
}

void SimWorker::OnMessage(coordinator::SessionId session) {
  std::optional<agent::Event> message = sessions_.TakeDown(session);
  if (!message.has_value() || !is_alive() || session != session_) return;
  if (auto* down = std::get_if<agent::SessionDown>(&*message)) {
    down->jitter = context_.random.Unit();
    session_ = 0;
  }
  if (const auto* halt = std::get_if<agent::HaltReceived>(&*message)) {
    if (context_.bug == Bug::kHaltsDropped) return;
    if (context_.bug == Bug::kHaltedAtOnce) {
      const Position& position = trainer_.position();
      Do(agent::SendHalted{halt->generation,
                           {position.applied, position.complete}});
      return;
    }
  }
  Handle(*message);
}

void SimWorker::OnTimer(uint32_t version) {
  if (is_alive() && timer_.IsDue(version, core_->NextDeadline()))
    Handle(agent::Tick{});
}

void SimWorker::Handle(const agent::Event& event) {
  if (context_.traced && !std::holds_alternative<agent::Tick>(event)) {
    context_.Tell(absl::StrCat(name_, " ", Describe(event)));
  }
  const std::vector<agent::Action> actions =
      core_->Handle(event, context_.Now());
  if (core_->is_leaving() && leaves_since_ == 0) leaves_since_ = context_.now;
  for (const agent::Action& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
    if (!is_alive()) return;
  }
  timer_.Set(core_->NextDeadline());
}

// ---- Actions.

void SimWorker::Send(coordinator::EventBody message) {
  if (session_ == 0) return;
  std::visit(
      [this](auto& m) {
        if constexpr (requires { m.session; }) m.session = session_;
      },
      message);
  sessions_.SendUp(session_, std::move(message));
}

void SimWorker::Do(const agent::OpenSession& action) {
  coordinator::HelloReceived hello;
  hello.name = name_;
  hello.incarnation = incarnation_;
  hello.role = context_.shape.RoleOf(slot_);
  hello.protocol_max = ProtocolOfLife(incarnation_);
  hello.host = absl::StrCat("h", context_.shape.host_of[slot_]);
  hello.host_key = hello.host;
  hello.pid = pid();
  hello.data_address = absl::StrCat(hello.host, ":", kFirstPort + slot_);
  hello.version = "1";
  // Some are of a release that does not.
  hello.can_rehearse = incarnation_ % 4 != 0;
  hello.can_probe = hello.protocol_max == coordinator::kNewestProtocol;
  hello.generation = action.generation;
  hello.formed_by = action.formed_by;
  hello.attempt = action.attempt;
  hello.predecessor = last_end_;
  if (action.generation != 0) {
    hello.applied_step = StepToTell(trainer_.position().applied);
    if (action.payload != nullptr) {
      const agent::AssignmentPayload& payload = *action.payload;
      coordinator::HeldJob held;
      held.job_id = payload.job_id;
      held.spec = "spec";
      const int index = JobOfId(payload.job_id);
      const JobShape& job = context_.shape.jobs[static_cast<size_t>(index)];
      held.name = JobName(index);
      held.min_workers = job.min_workers;
      held.max_workers = job.max_workers;
      held.settle = absl::Nanoseconds(job.settle);
      held.total_steps = job.total_steps;
      held.sharding = context_.shape.ShardingOf(job);
      held.rank = payload.rank;
      held.world_size = payload.world_size;
      held.servers =
          static_cast<int>(payload.slots.size()) - payload.world_size;
      held.resume_step = payload.resume_step;
      if (payload.placements != nullptr) held.placements = *payload.placements;
      hello.held_job = std::move(held);
    }
    context_.Reached(Moment::kReattach, slot_);
  }
  session_ = sessions_.Open(slot_, std::move(hello));
}

void SimWorker::Do(const agent::CloseSession&) {
  if (session_ == 0) return;
  sessions_.CloseByWorker(session_);
  session_ = 0;
  agent::SessionDown down;
  down.code = absl::StatusCode::kCancelled;
  down.jitter = context_.random.Unit();
  Post(std::move(down));
}

v1::Phase SimWorker::PhaseNow() const {
  switch (core_->state()) {
    case agent::AgentState::kConnecting:
    case agent::AgentState::kIdle:
      return v1::PHASE_IDLE;
    case agent::AgentState::kPreparing:
    case agent::AgentState::kPrepared:
      return v1::PHASE_PREPARE;
    case agent::AgentState::kRunning: {
      const SimProgress progress = trainer_.progress();
      return progress.is_connecting ? v1::PHASE_CONNECT
             : progress.is_copying  ? v1::PHASE_TRANSFER
                                    : v1::PHASE_STEP;
    }
    default:
      return v1::PHASE_HALTED;
  }
}

void SimWorker::Do(const agent::SendBeat& action) {
  coordinator::BeatReceived beat;
  beat.generation = action.generation;
  beat.phase = PhaseNow();
  if (action.generation != 0) {
    const SimProgress progress = trainer_.progress();
    if (progress.generation == action.generation) {
      beat.step = progress.applied;
      beat.figures.set_step(progress.applied);
      *beat.figures.mutable_step_duration() =
          ToProto(absl::Nanoseconds(progress.step_time));
      beat.collective_sequence = progress.collective_sequence;
      beat.waiting_for_rank = progress.waiting_for_rank;
    }
  }
  const bool may_lie = is_lying() && beat.phase != v1::PHASE_IDLE;
  if (may_lie) {
    beat.waiting_for_rank = AnyRank();
    beat.step = StepToTell(beat.step);
    beat.figures.set_step(beat.step);
  }
  Send(std::move(beat));
  if (!may_lie) return;
  if (context_.lie_random.Chance(30)) AccuseSomebody(action.generation);
  BlameJob(action.generation);
}

void SimWorker::BlameJob(int64_t generation) {
  if (!LiesAboutSteps() || PhaseNow() != v1::PHASE_STEP ||
      trainer_.assignment().generation != generation ||
      !context_.lie_random.Chance(3)) {
    return;
  }
  ++context_.lies;
  if (context_.traced) {
    context_.Tell(absl::StrCat(name_, "   says that the job is wrong"));
  }
  coordinator::FailedReceived failed;
  failed.generation = generation;
  failed.step = trainer_.position().applied;
  failed.exit_code = static_cast<int>(ExitCode::kUsage);
  failed.message = "a lie";
  failed.was_preparing = context_.lie_random.Chance(20);
  Send(std::move(failed));
}

int64_t SimWorker::FalseStep(int64_t step) {
  const int64_t shift = context_.lie_random.Between(1, 3);
  const int64_t other =
      context_.lie_random.Chance(50) ? step + shift : step - shift;
  return std::clamp<int64_t>(other, 0, job().total_steps);
}

int64_t SimWorker::StepToTell(int64_t step) {
  if (!is_lying() || !LiesAboutSteps() || !context_.lie_random.Chance(30)) {
    return step;
  }
  const int64_t claimed = FalseStep(step);
  TellOfLie(step, claimed);
  return claimed;
}

void SimWorker::TellOfLie(int64_t step, int64_t claimed) {
  ++context_.lies;
  context_.ledgers[static_cast<size_t>(trainer_.job_index())].OnStepLie(slot_);
  if (context_.traced) {
    context_.Tell(absl::StrCat(name_, "   says ", claimed, " of step ", step));
  }
}

// Parsing would refuse more than a step between the two.
void SimWorker::LieAboutSteps(coordinator::HaltedReceived& halted) {
  if (!LiesAboutSteps() || !context_.lie_random.Chance(70)) return;
  const int64_t step = halted.applied_step;
  switch (context_.lie_random.Between(0, 3)) {
    case 0:
      halted.applied_step = halted.complete_step = 0;
      break;
    case 1:  // a checkpoint that it has loaded
      halted.complete_step = FalseStep(step);
      halted.applied_step = 0;
      break;
    case 2:
      halted.complete_step = halted.applied_step;
      break;
    default:
      halted.applied_step = FalseStep(step);
      halted.complete_step = std::min<int64_t>(
          halted.applied_step + context_.lie_random.Between(0, 1),
          job().total_steps);
      break;
  }
  TellOfLie(step, halted.complete_step);
}

int SimWorker::AnyRank() {
  const auto members = static_cast<int64_t>(trainer_.assignment().slots.size());
  return static_cast<int>(context_.lie_random.Between(0, members - 1));
}

void SimWorker::AccuseSomebody(int64_t generation) {
  if (trainer_.assignment().slots.size() < 2 ||
      trainer_.assignment().generation != generation) {
    return;
  }
  static constexpr v1::LinkFailure kFailures[] = {v1::LINK_FAILURE_NO_ANSWER,
                                                  v1::LINK_FAILURE_REFUSED,
                                                  v1::LINK_FAILURE_CLOSED};
  coordinator::SuspicionReceived suspicion;
  suspicion.generation = generation;
  do {
    suspicion.peer_rank = AnyRank();
  } while (suspicion.peer_rank == trainer_.assignment().rank);
  suspicion.detail = "a lie";
  ++context_.lies;
  suspicion.step = StepToTell(trainer_.progress().applied);
  suspicion.is_unreached = context_.lie_random.Chance(50);
  suspicion.failure = kFailures[context_.lie_random.Between(0, 2)];
  if (context_.traced) {
    context_.Tell(
        absl::StrCat(name_, "   lies about rank ", suspicion.peer_rank));
  }
  Send(std::move(suspicion));
}

void SimWorker::Do(const agent::SendPrepared& action) {
  coordinator::PreparedReceived prepared;
  prepared.generation = action.generation;
  prepared.plan_hash = action.plan_hash;
  prepared.data_fingerprint = action.data_fingerprint;
  Send(std::move(prepared));
}

void SimWorker::Do(const agent::SendHalted& action) {
  if (context_.bug == Bug::kLeavesAtOnce && core_->is_leaving()) {
    Do(agent::SendLeaving{"SIGTERM", true, action.position.applied_step});
    Do(agent::Exit{ExitCode::kStopped, "leaves at once"});
    return;
  }
  coordinator::HaltedReceived halted;
  halted.generation = action.generation;
  halted.applied_step = action.position.applied_step;
  halted.complete_step = action.position.complete_step;
  halted.shards = action.shards;
  if (is_lying()) LieAboutSteps(halted);
  if (context_.traced) {
    context_.Tell(absl::StrCat(name_, "   halted ", halted.applied_step, "/",
                               halted.complete_step));
  }
  Send(std::move(halted));
}

void SimWorker::Do(const agent::SendSuspicion& action) {
  coordinator::SuspicionReceived suspicion;
  suspicion.generation = action.generation;
  suspicion.peer_rank = action.peer_rank;
  suspicion.detail = action.detail;
  suspicion.step = StepToTell(action.step);
  suspicion.is_unreached = action.is_unreached;
  suspicion.failure = action.failure;
  Send(std::move(suspicion));
}

void SimWorker::Do(const agent::SendFinished& action) {
  coordinator::FinishedReceived finished;
  finished.generation = action.generation;
  finished.step = action.step;
  finished.parameters_hash = action.parameters_hash;
  finished.is_stopped = action.is_stopped;
  // Where there are others enough to know better.
  if (is_lying() && LiesAboutSteps() &&
      trainer_.assignment().slots.size() > 3 &&
      context_.lie_random.Chance(50)) {
    ++finished.parameters_hash;
    TellOfLie(action.step, action.step);
  }
  Send(std::move(finished));
}

void SimWorker::Do(const agent::SendFailed& action) {
  coordinator::FailedReceived failed;
  failed.generation = action.generation;
  failed.step = StepToTell(action.step);
  failed.exit_code = static_cast<int>(action.exit_code);
  failed.message = action.message;
  failed.was_preparing = action.was_preparing;
  Send(std::move(failed));
}

void SimWorker::Do(const agent::SendLeaving& action) {
  coordinator::LeavingReceived leaving;
  leaving.reason = action.reason;
  leaving.is_done = action.is_done;
  leaving.step =
      StepToTell(action.is_done ? action.step : trainer_.position().applied);
  leaving.patience = action.patience;
  Send(std::move(leaving));
}

void SimWorker::Do(const agent::SendNotice& action) {
  Send(coordinator::NoticeReceived{0, action.notice});
}

void SimWorker::Do(const agent::SendProbed& action) {
  probed_ = {.session = session_};
  probed_.probed.set_generation(action.probe.generation());
  probed_.probed.set_number(action.probe.number());
  bool has_reached_all = true;
  for (const v1::ProbePeer& peer : action.probe.peers()) {
    v1::ProbeResult& result = *probed_.probed.add_results();
    result.set_peer_rank(peer.rank());
    result.set_reached(reaches_(slot_, SlotOfAddress(peer.data_address())));
    result.set_failure(v1::LINK_FAILURE_NO_ANSWER);
    has_reached_all &= result.reached();
  }
  probe_ = action.probe;
  SimEvent event;
  event.kind = EventKind::kProbeEnd;
  event.slot = static_cast<int8_t>(slot_);
  event.version = ++probes_;
  context_.After(has_reached_all ? 2 * context_.Latency()
                                 : absl::ToInt64Nanoseconds(
                                       FromProto(action.probe.timeout())),
                 event);
}

void SimWorker::OnProbeEnd(uint32_t version) {
  if (!is_alive() || version != probes_ || probed_.session != session_) return;
  // Those that were not reached were tried again.
  for (int i = 0; i < probe_.peers_size(); ++i) {
    v1::ProbeResult& result = *probed_.probed.mutable_results(i);
    result.set_reached(
        result.reached() ||
        reaches_(slot_, SlotOfAddress(probe_.peers(i).data_address())));
    if (is_lying()) result.set_reached(context_.lie_random.Chance(50));
  }
  Send(probed_);
}

void SimWorker::Do(const agent::PrepareTrainer& action) {
  trainer_.Prepare(*action.payload);
}

void SimWorker::Do(const agent::RunTrainer& action) {
  trainer_.Run(static_cast<int>(action.generation));
}

void SimWorker::Do(const agent::AbortTrainer& action) {
  if (context_.bug == Bug::kEvictedGoesOn && !is_session_up()) return;
  trainer_.Abort(static_cast<int>(action.generation));
}

void SimWorker::Do(const agent::RequestDrain&) {
  context_.Reached(Moment::kPause, slot_);
  trainer_.RequestDrain();
}

void SimWorker::Do(const agent::RequestLeave&) {
  context_.Reached(Moment::kPause, slot_);
  trainer_.RequestLeave();
}

void SimWorker::Do(const agent::Log& action) {
  if (context_.traced) {
    context_.Tell(absl::StrCat(name_, "   ", action.message));
  }
}

void SimWorker::Do(const agent::Exit& action) {
  if (context_.traced) {
    context_.Tell(absl::StrCat(name_, "   exits with ",
                               static_cast<int>(action.code), ": ",
                               action.message));
  }
  if (leaves_since_ != 0) on_left_(slot_, leaves_since_);
  End(static_cast<int>(action.code));
}

}  // namespace ringmaster::simulator
