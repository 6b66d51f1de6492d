#include "server/coordinator/core/core.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/reason.h"
#include "common/status/status_macros.h"
#include "server/coordinator/core/account/audit.h"
#include "server/coordinator/core/account/flight.h"
#include "server/coordinator/core/account/goodput.h"
#include "server/coordinator/core/account/queue_use.h"
#include "server/coordinator/core/life/cordon.h"
#include "server/coordinator/core/life/deadlines.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/job_change.h"
#include "server/coordinator/core/life/job_queue.h"
#include "server/coordinator/core/life/journal_answers.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/message_bounds.h"
#include "server/coordinator/core/life/notice.h"
#include "server/coordinator/core/life/probing.h"
#include "server/coordinator/core/life/queues.h"
#include "server/coordinator/core/life/rebuild.h"
#include "server/coordinator/core/life/recovery.h"
#include "server/coordinator/core/life/scheduler.h"
#include "server/coordinator/core/life/silence.h"
#include "server/coordinator/core/life/suspension.h"
#include "server/coordinator/core/life/training.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {
namespace {

absl::Status ShuttingDown() {
  return WithReason(
      absl::UnavailableError(
          "the coordinator is shutting down; try again once it is back"),
      reason::kShuttingDown);
}

void OnShutdown(Turn& turn) {
  turn.state.is_shutting_down = true;
  turn.Touch();
  for (const auto& [name, worker] : turn.state.workers) {
    if (worker.session == 0) continue;
    turn.Do(CloseSession{worker.session, ShuttingDown()});
  }
  turn.state.sessions.clear();
  // Those that wait for a deferred record were answered when it was.
  for (const auto& [token, pending] : turn.outbox.in_flight) {
    turn.Reply(pending.waiting, ShuttingDown(), "");
  }
  for (auto& [number, job] : turn.state.jobs) {
    turn.Reply(std::exchange(job.waiting_cancels, {}), ShuttingDown(), job.id);
  }
}

// After the shutdown has begun, requests are refused and other events ignored.
void RefuseLate(Turn& turn, const EventBody& body) {
  if (const auto* const hello = std::get_if<HelloReceived>(&body)) {
    turn.Do(CloseSession{hello->session, ShuttingDown()});
  } else if (const auto* const submit = std::get_if<SubmitRequested>(&body)) {
    turn.Reply(submit->request, ShuttingDown(), "");
  } else if (const auto* const cancel = std::get_if<CancelRequested>(&body)) {
    turn.Reply(cancel->request, ShuttingDown(), "");
  } else if (const auto* const change = std::get_if<ChangeRequested>(&body)) {
    turn.Reply(change->request, ShuttingDown(), "");
  } else if (const auto* const cordon = std::get_if<CordonRequested>(&body)) {
    turn.Reply(cordon->request, ShuttingDown(), "");
  } else if (const auto* const queues = std::get_if<QueuesRequested>(&body)) {
    turn.Reply(queues->request, ShuttingDown(), "");
  }
}

// Events of a session; `worker` has just proved that it lives.
struct WorkerVisitor {
  Turn& turn;
  Worker& worker;

  void operator()(const BeatReceived& e) { OnBeat(turn, worker, e); }
  void operator()(const PreparedReceived& e) { OnPrepared(turn, worker, e); }
  void operator()(const HaltedReceived& e) { OnHalted(turn, worker, e); }
  void operator()(const SuspicionReceived& e) { OnSuspicion(turn, worker, e); }
  void operator()(const FinishedReceived& e) { OnFinished(turn, worker, e); }
  void operator()(const FailedReceived& e) { OnFailed(turn, worker, e); }
  void operator()(const LeavingReceived& e) { OnLeaving(turn, worker, e); }
  void operator()(const NoticeReceived& e) { OnNotice(turn, worker, e.notice); }
  void operator()(const ProbedReceived& e) { OnProbed(turn, worker, e); }
  void operator()(const StreamClosed& e) { OnStreamClosed(turn, worker, e); }
  // HeardFrom needs no handling beyond that; the other events belong to no
  // session.
  template <typename Other>
  void operator()(const Other&) {}
};

struct GeneralVisitor {
  Turn& turn;

  void operator()(const HelloReceived& e) { OnHello(turn, e); }
  void operator()(const SubmitRequested& e) { OnSubmit(turn, e); }
  void operator()(const CancelRequested& e) { OnCancel(turn, e); }
  void operator()(const ChangeRequested& e) { OnChangeJob(turn, e); }
  void operator()(const ChangeMade& e) { Audit(turn, e.entry); }
  void operator()(const CordonRequested& e) { OnCordon(turn, e); }
  void operator()(const QueuesRequested& e) { OnSetQueues(turn, e); }
  void operator()(const Persisted& e) { OnPersisted(turn, e); }
  void operator()(const PersistFailed& e) { OnPersistFailed(turn, e); }
  void operator()(const JournalWorks&) { OnJournalWorks(turn); }
  void operator()(const FlightGathered& e) { OnFlightGathered(turn, e); }
  void operator()(const ShutdownStarted&) { OnShutdown(turn); }
  // A Tick is nothing but its time; events of unknown sessions are ignored.
  template <typename Other>
  void operator()(const Other&) {}
};

void Dispatch(Turn& turn, const EventBody& body) {
  if (turn.state.is_shutting_down) {
    RefuseLate(turn, body);
    return;
  }
  Worker* const worker = turn.state.FindSession(SessionOf(body));
  if (worker == nullptr || std::holds_alternative<HelloReceived>(body)) {
    std::visit(GeneralVisitor{turn}, body);
    return;
  }
  if (const absl::Status bounds = CheckMessage(turn.state, *worker, body);
      !bounds.ok()) {
    CloseForViolation(
        turn, *worker,
        std::string_view(bounds.message().data(), bounds.message().size()));
    return;
  }
  // The end of its stream is no sign of life.
  if (!std::holds_alternative<StreamClosed>(body))
    worker->last_heard = turn.now;
  if (KeepForLater(turn, *worker, body)) return;
  std::visit(WorkerVisitor{turn, *worker}, body);
}

// As many looks at the pool are enough to settle who has what.
constexpr int kMostLooks = 1000;

// Schedules jobs and acts on deadlines until neither asks for the other. Should they
// never stop, it is better to answer workers than to settle it.
void CatchUp(Turn& turn) {
  int looks = 0;
  do {
    if (turn.state.is_shutting_down) return;
    for (; turn.state.must_schedule && looks < kMostLooks; ++looks) {
      Schedule(turn);
    }
    ActOnDeadlines(turn);
  } while (turn.state.must_schedule && looks < kMostLooks);
  if (std::exchange(turn.state.must_schedule, false)) {
    turn.Emit(v1::EVENT_SEVERITY_ERROR, "coordinator.indecisive", "",
              absl::StrCat("which jobs get which workers is not settled after ",
                           kMostLooks,
                           " looks; this is a bug, please report "
                           "it with a bundle"));
  }
}

}  // namespace

struct CoordinatorCore::Impl {
  Config config;
  State state;
  Outbox outbox;
  MonotonicTime next_deadline = MonotonicTime::InfiniteFuture();
  bool has_begun = false;
};

CoordinatorCore::CoordinatorCore(Config config, uint64_t incarnation)
    : impl_(std::make_unique<Impl>()) {
  impl_->config = std::move(config);
  impl_->state.incarnation = incarnation;
}

CoordinatorCore::CoordinatorCore(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
CoordinatorCore::~CoordinatorCore() = default;
CoordinatorCore::CoordinatorCore(CoordinatorCore&&) noexcept = default;
CoordinatorCore& CoordinatorCore::operator=(CoordinatorCore&&) noexcept =
    default;

absl::StatusOr<CoordinatorCore> CoordinatorCore::Recover(
    Config config, const std::vector<JournalRecord>& records,
    uint64_t incarnation) {
  auto impl = std::make_unique<Impl>();
  ASSIGN_OR_RETURN(impl->state, Fold(records, config));
  impl->state.incarnation = incarnation;
  impl->config = std::move(config);
  return CoordinatorCore(std::move(impl));
}

std::vector<Action> CoordinatorCore::Step(const Event& event,
                                          MonotonicTime now) {
  std::vector<Action> actions;
  Turn turn{impl_->config, impl_->state, impl_->outbox,
            actions,       now,          event.time};
  if (!std::exchange(impl_->has_begun, true)) {
    StartAccounting(impl_->state, now);
    BeginRecovered(turn);
  }
  AccountTime(impl_->state, now);
  AccountUse(impl_->state, now);
  if (impl_->next_deadline != MonotonicTime::InfiniteFuture() &&
      now - impl_->next_deadline > impl_->config.stall_tolerance) {
    const absl::Duration delay = now - impl_->next_deadline;
    // Two more beats, so that messages sent in the meantime can be read.
    ExtendDeadlines(impl_->state, delay + 2 * impl_->config.beat_interval);
    NoteStall(turn, delay);
    turn.Emit(v1::EVENT_SEVERITY_WARNING, "coordinator.stalled", "",
              absl::StrCat("the coordinator itself was held up for ",
                           absl::FormatDuration(delay),
                           "; leases are extended by that"));
  }
  AwaitFirstWorker(turn);
  Dispatch(turn, event.body);
  CatchUp(turn);
  while (const std::optional<EventBody> kept = TakeKept(turn)) {
    Dispatch(turn, *kept);
    CatchUp(turn);
  }
  impl_->next_deadline = EarliestDeadline(impl_->state);
  return actions;
}

MonotonicTime CoordinatorCore::NextDeadline() const {
  return impl_->next_deadline;
}

const State& CoordinatorCore::state() const { return impl_->state; }

const Config& CoordinatorCore::config() const { return impl_->config; }

}  // namespace ringmaster::coordinator
