// AgentCore decides what a worker does: join, train, halt, resume, leave.
//
// A deterministic function (state, event, now) -> actions, without clock,
// thread, socket or protobuf: the same core runs in the worker and in text
// scenarios (testdata/). The adapters around it (worker/agent/agent.h) make
// events and carry actions out.
//
// Two things run side by side: the session with the coordinator, which is
// opened again with backoff whenever it ends (where it was, and by turns wherever
// the coordinator's name leads to, since that may be another coordinator on a
// copy of the journal, which sends the worker away), and the worker's part in a
// generation, which does not depend on the session: training continues while
// the coordinator is away, and the worker reports what happened meanwhile when
// it attaches again. Messages of any generation but the current one are
// ignored.
// Guarantees: at most one PrepareTrainer or RunTrainer is unanswered; every
// Halt of the current generation is answered by one Halted, or by a repetition
// of it; a pause that all ranks agreed on is reported by an unsolicited Halted;
// a worker whose session ends because it is no longer a member stops training,
// keeps its steps until it is released, and comes back once its trainer has
// returned; a trainer that does not return within abort_timeout of its abort
// ends the process; a worker that is to leave and holds what a job has made
// stays, within drain_timeout, until it is released, so that others can take it
// over or a checkpoint can be written; a worker that gives its coordinator up while it trains
// stops with all ranks first, so that a checkpoint is written; a rehearsal,
// which prepares for a generation that the worker is no member of yet, ends with
// its session, and a hello does not tell of it; nothing follows Exit.
// Thread-compatible.
#ifndef RINGMASTER_WORKER_AGENT_CORE_AGENT_CORE_H_
#define RINGMASTER_WORKER_AGENT_CORE_AGENT_CORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "worker/agent/core/agent_action.h"
#include "worker/agent/core/agent_event.h"

namespace ringmaster::agent {

// From this version of the session's protocol on, the coordinator releases a
// worker that is to leave once nobody needs what it holds. Earlier ones did so
// only for shards of the parameters.
inline constexpr int kLeaveProtocol = 3;

struct AgentConfig {
  std::string coordinator;  // address, for messages
  std::string name;         // the worker's
  // Without a session for this long the worker gives up; one that has a job
  // tries for at least as long as the coordinator said (SessionUp::state_wait).
  absl::Duration coordinator_timeout = absl::Seconds(60);
  // Bound on an orderly departure.
  absl::Duration drain_timeout = absl::Seconds(30);
  // Bound on a trainer's return from an abort. A trainer that takes longer is
  // waiting for a hanging disk or device, which only a new process can get rid
  // of.
  absl::Duration abort_timeout = absl::Seconds(30);
  // Bound on the coordinator's welcome.
  absl::Duration answer_timeout = absl::Seconds(5);
  // A worker that was never welcomed keeps trying for this long after it was
  // first told that its name is taken: the holder may be its predecessor, on a
  // host that is gone, which the coordinator notices a lease later.
  absl::Duration name_wait = absl::ZeroDuration();
  // It leaves when this many jobs that it had a part in are over; 0: never.
  int max_jobs = 0;
  // A second signal within this time counts as the first one, sent twice: by a
  // terminal or a service manager to every process, and by a supervisor.
  absl::Duration signal_window = absl::Milliseconds(500);
  absl::Duration retry_initial = absl::Milliseconds(100);
  absl::Duration retry_max = absl::Seconds(1);
};

enum class AgentState {
  kConnecting,  // never welcomed yet
  kIdle,        // in the pool
  kPreparing,   // the trainer makes ready for the generation
  kPrepared,    // ready; waits for Start
  kRunning,     // the trainer trains
  kPaused,      // the trainer ended by itself; waits for Halt or Release
  kHalting,     // the trainer was aborted and has not returned yet
  kHalted,      // halted, or paused with all ranks at an agreed step, and said
                // so; waits for Assignment or Release
  kExited,
};
// "connecting", "idle", ...
[[nodiscard]] std::string_view StateName(AgentState state);

class AgentCore {
 public:
  // The first session is due at `now`, that is, at the first Tick.
  AgentCore(AgentConfig config, MonotonicTime now);

  [[nodiscard]] std::vector<Action> Handle(const Event& event,
                                           MonotonicTime now);

  // Returns when the next Tick is due; InfiniteFuture if nothing is waited for.
  [[nodiscard]] MonotonicTime NextDeadline() const;

  [[nodiscard]] AgentState state() const { return state_; }
  // The generation it is in; 0 without a job.
  [[nodiscard]] int64_t generation() const { return generation_; }
  // Returns true if it is leaving in an orderly way, at the request of a signal, or
  // as it has had its jobs.
  [[nodiscard]] bool is_leaving() const { return leave_.has_value(); }
  [[nodiscard]] bool is_session_up() const { return link_ == Link::kUp; }

 private:
  enum class Link {
    kDown,     // waits for retry_at_
    kOpening,  // OpenSession or CloseSession is unanswered
    kUp,
  };
  struct Leave {
    std::string reason;
    ExitCode exit_code = ExitCode::kStopped;
    MonotonicTime deadline;
    // It held nothing when it was asked, and has stopped preparing.
    bool held_nothing = false;
    bool is_said = false;  // to a coordinator
  };

  void On(const SessionUp& event);
  void On(const SessionDown& event);
  void On(const AssignmentReceived& event);
  void On(const StartReceived& event);
  void On(const HaltReceived& event);
  void On(const StopReceived& event);
  void On(const PauseReceived& event);
  void On(const LeaveAdviceReceived& event);
  void On(const ReleaseReceived& event);
  void On(const TraceRequested& event);
  void On(const LogRequested& event);
  void On(const ProbeRequested& event);
  void On(const TrainerPrepared& event);
  void On(const TrainerPrepareFailed& event);
  void On(const TrainerEnded& event);
  void On(const TrainerNoticed& event);
  void On(const TrainerAdvanced& event);
  void On(const TerminateSignal& event);
  void On(const Tick& event);

  // Returns true if the session ended for what may pass: the name is taken, or the
  // coordinator that this worker was attached to has another setting now.
  bool MayWait(const SessionDown& end);
  // Bound on the welcome in the present attempt.
  absl::Duration AnswerTimeout() const;
  // Another coordinator has sent it away.
  void SayRefusal(const SessionDown& event);

  void BeginLeaving(std::string reason);
  // Asks the running trainer for the boundary at which it can leave.
  void RequestToLeave();
  // Leaves now, or, if it holds what others may need, once it is released.
  void LeaveUnlessNeeded();
  // Returns true if a checkpoint has what it holds.
  bool IsSaved() const;
  // Returns true if others may need what it holds, and somebody will say when
  // they do not.
  bool MustStay() const;
  void SayLeaving();
  // Tells the coordinator if there is a session, and exits.
  void LeaveNow();
  // Ends the process; the trainer is aborted if it is busy.
  void ExitWith(ExitCode code, std::string message, bool is_hurried = false);

  // How long it does without a coordinator.
  absl::Duration Patience() const;
  // When it gives up, if no session is up by then.
  MonotonicTime GiveUpTime() const;
  // The coordinator has been away for longer: stops with a checkpoint, or ends
  // the process. Returns whether it ended.
  bool GiveUp();
  void ExitForCoordinator();

  void Adopt(const AssignmentReceived& assignment);
  // The session of a rehearsal is gone, and with it what it was for.
  void EndRehearsal();
  // The way in which this worker pauses.
  [[nodiscard]] Action PauseRequest() const;
  // Asks the running trainer to end between two steps, by `request`; before it
  // runs, `is_wanted` keeps that for its start.
  void EndRunEarly(int64_t generation, Action request, bool& is_wanted,
                   std::string_view event, std::string message);
  // Aborts the busy trainer; AfterAbort follows once it has returned.
  void AbortAndWait(std::string why);
  void AfterAbort();
  // Reports the present state to the coordinator.
  void Report();
  void ReportPaused();
  void SayHalted();
  void Answer(const TrainerEnded& ended);
  // A job that it had a part in is over.
  void NoteJobEnd(ExitCode code);
  void ReleaseToPool();
  // Drops the trainer's state of the job.
  void DropState();
  bool IsTrainerBusy() const;
  // Returns true if nobody can use this worker before its trainer has returned.
  bool IsAwayUntilTrainerReturns() const;
  bool WaitsForRelease() const;

  template <typename T>
  void Do(T action) {
    actions_.emplace_back(std::move(action));
  }
  // Performs `action` if the session is up; otherwise Report makes up for it.
  template <typename T>
  void Send(T action) {
    if (is_session_up()) Do(std::move(action));
  }
  void Say(Severity severity, std::string_view event, std::string message);

  const AgentConfig config_;
  std::vector<Action> actions_;  // of the event being handled
  MonotonicTime now_;            // of the event being handled
  AgentState state_ = AgentState::kConnecting;

  // The session. `name_deadline_`: how long to keep trying while the name is
  // taken; nullopt as long as the coordinator has not said so.
  std::optional<MonotonicTime> name_deadline_;
  Link link_ = Link::kDown;
  MonotonicTime opened_at_;  // the last attempt's beginning
  MonotonicTime retry_at_;
  MonotonicTime answer_deadline_ = MonotonicTime::InfiniteFuture();
  MonotonicTime down_since_;
  absl::Duration state_wait_ = absl::ZeroDuration();
  // While it gives up: when it ends without having stopped.
  std::optional<MonotonicTime> give_up_deadline_;
  uint64_t attempts_ = 0;    // to open a session
  int failed_attempts_ = 0;  // since the session was last up
  std::string last_failure_;
  bool is_expelled_ = false;  // by the end of the last session
  bool is_answer_late_ = false;
  // Where the last session was, and whether it is tried next.
  std::string peer_;
  bool is_peer_next_ = false;
  std::string refusal_said_;  // its reason, since the session was last up
  uint64_t coordinator_incarnation_ = 0;
  int protocol_ = 0;  // of the last session
  absl::Duration beat_interval_ = absl::InfiniteDuration();
  MonotonicTime next_beat_ = MonotonicTime::InfiniteFuture();

  // The generation.
  int64_t generation_ = 0;
  std::string job_id_;  // the job whose state the trainer holds; "": none
  std::shared_ptr<const AssignmentPayload> payload_;  // of the generation
  int rank_ = -1;
  uint64_t formed_by_ = 0;  // the incarnation of the generation's coordinator
  bool is_rehearsal_ = false;  // generation_ stands for none yet
  StepPosition position_;
  int64_t saved_step_ = 0;  // of the last checkpoint known here
  bool can_go_on_ = false;  // TrainProgress::can_go_on, as it was told last
  std::vector<HeldShard> shards_;  // that the trainer holds of the job's
  TrainerPrepared prepared_;       // kPrepared
  TrainerEnded ended_;             // kPaused
  // Stop or Pause came before the run.
  bool is_stop_wanted_ = false;
  bool is_pause_wanted_ = false;
  RequestPause pause_;  // who is let go by the pause that is wanted
  // The coordinator has asked to stop; this worker has, since it gave up.
  bool is_told_to_stop_ = false;
  bool is_stop_own_wish_ = false;

  // kHalting: what follows once the trainer has returned.
  int64_t trainer_generation_ = 0;
  MonotonicTime abort_deadline_ = MonotonicTime::InfiniteFuture();
  bool is_halt_unanswered_ = false;
  bool is_release_pending_ = false;
  std::optional<AssignmentReceived> pending_assignment_;

  int jobs_over_ = 0;  // that it had a part in
  std::optional<Leave> leave_;
  std::optional<MonotonicTime> signalled_at_;
};

}  // namespace ringmaster::agent

#endif  // RINGMASTER_WORKER_AGENT_CORE_AGENT_CORE_H_
