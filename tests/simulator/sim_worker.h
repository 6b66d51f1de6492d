// SimWorker: one slot of the cluster: a worker process with the real AgentCore,
// a SimTrainer, its session with the coordinator, and a supervisor that starts
// it again.
//
// The adapter around the core: what worker/agent/agent.cc and its rpc folder do
// with gRPC and threads. Thread-compatible.
#ifndef RINGMASTER_TESTS_SIMULATOR_SIM_WORKER_H_
#define RINGMASTER_TESTS_SIMULATOR_SIM_WORKER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "server/coordinator/core/state/types.h"
#include "tests/simulator/context.h"
#include "tests/simulator/core_timer.h"
#include "tests/simulator/peer_links.h"
#include "tests/simulator/session_links.h"
#include "tests/simulator/sim_trainer.h"
#include "worker/agent/core/agent_action.h"
#include "worker/agent/core/agent_core.h"

namespace ringmaster::simulator {

class SimWorker {
 public:
  // `on_left` is called before the process in `slot`, which was to leave since
  // that time, ends by itself.
  using OnLeft = std::function<void(int slot, int64_t since)>;
  // Returns true if the data port of worker `to` takes a connection of `from`.
  using Reaches = std::function<bool(int from, int to)>;
  SimWorker(Context& context, SessionLinks& sessions, PeerLinks& peers,
            int slot, OnLeft on_left, Reaches reaches);

  // The supervisor starts a process unless one lives.
  void Start();
  // After `delay`; -1: once all faults are over.
  void StartLater(int64_t delay);
  void Kill(bool is_silent);
  void Freeze(int64_t until);
  // SIGTERM.
  void Terminate();
  // It says until then what is not so, whatever process is in the slot.
  void LieUntil(int64_t until) { lies_until_ = until; }

  // Handle the events kToWorker, kPost, kWorkerTimer, kProbeEnd.
  void OnMessage(coordinator::SessionId session);
  void OnPost();
  void OnTimer(uint32_t version);
  void OnProbeEnd(uint32_t version);

  SimTrainer& trainer() { return trainer_; }
  const SimTrainer& trainer() const { return trainer_; }
  bool is_alive() const { return core_.has_value(); }
  bool is_leaving() const { return is_alive() && core_->is_leaving(); }
  bool is_session_up() const { return is_alive() && core_->is_session_up(); }
  // Nothing happens in it before; 0: it runs.
  int64_t frozen_until() const { return frozen_until_; }
  uint64_t incarnation() const { return incarnation_; }
  int64_t started() const { return started_; }
  bool IsLife(uint32_t life) const { return is_alive() && life_ == life; }
  int64_t pid() const { return 1000 * (slot_ + 1) + life_; }
  agent::AgentState state() const {
    return is_alive() ? core_->state() : agent::AgentState::kExited;
  }

 private:
  const JobShape& job() const {
    return context_.shape.jobs[static_cast<size_t>(trainer_.job_index())];
  }
  void Post(agent::Event event);
  void Handle(const agent::Event& event);
  void End(int code);
  void NoteEnd(int exit_code, int signal);

  void Do(const agent::OpenSession& action);
  void Do(const agent::CloseSession& action);
  void Do(const agent::SendBeat& action);
  void Do(const agent::SendPrepared& action);
  void Do(const agent::SendHalted& action);
  void Do(const agent::SendSuspicion& action);
  void Do(const agent::SendFinished& action);
  void Do(const agent::SendFailed& action);
  void Do(const agent::SendLeaving& action);
  void Do(const agent::SendNotice& action);
  void Do(const agent::SendTrace&) {}
  void Do(const agent::SendLog&) {}
  void Do(const agent::SendProbed& action);
  void Do(const agent::PrepareTrainer& action);
  void Do(const agent::RunTrainer& action);
  void Do(const agent::AbortTrainer& action);
  void Do(const agent::RequestStop&) { trainer_.RequestStop(); }
  void Do(const agent::RequestDrain&);
  void Do(const agent::RequestLeave&);
  void Do(const agent::RequestPause&) { Do(agent::RequestDrain{}); }
  void Do(const agent::ReleaseTrainer&) { trainer_.Release(); }
  void Do(const agent::Log& action);
  void Do(const agent::Exit& action);
  void Send(coordinator::EventBody message);
  bool is_lying() const { return context_.now < lies_until_; }
  // Only of jobs whose members hold all of the state.
  bool LiesAboutSteps() const {
    return context_.shape.holders == Holders::kRanks;
  }
  // Another step than `step`, within the bounds of messages.
  int64_t FalseStep(int64_t step);
  // It says `claimed`, and is at `step`.
  void TellOfLie(int64_t step, int64_t claimed);
  // `step`, or another one while it lies.
  int64_t StepToTell(int64_t step);
  void LieAboutSteps(coordinator::HaltedReceived& halted);
  void AccuseSomebody(int64_t generation);
  // Now and then: says that a field of the job must be corrected.
  void BlameJob(int64_t generation);
  int AnyRank();
  v1::Phase PhaseNow() const;

  Context& context_;
  SessionLinks& sessions_;
  SimTrainer trainer_;
  const int slot_;
  const std::string name_;
  const OnLeft on_left_;
  const Reaches reaches_;
  int64_t leaves_since_ = 0;  // 0: it does not leave
  int64_t started_ = 0;

  std::optional<agent::AgentCore> core_;
  uint32_t life_ = 0;
  uint64_t incarnation_ = 0;
  std::optional<v1::ProcessEnd> last_end_;
  coordinator::SessionId session_ = 0;
  std::deque<agent::Event> posts_;
  // The last probe, its answer so far, for the session that asked, and their number.
  v1::Probe probe_;
  coordinator::ProbedReceived probed_;
  uint32_t probes_ = 0;
  int64_t frozen_until_ = 0;
  int64_t lies_until_ = 0;
  CoreTimer timer_;
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_SIM_WORKER_H_
