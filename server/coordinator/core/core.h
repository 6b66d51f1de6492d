// CoordinatorCore: rendezvous, rank assignment, fault detection and the life of
// jobs, as a pure function (state, event, now) -> (state, actions).
//
// It reads no clock, starts no thread, touches no socket and no disk, and draws
// no random number: equal inputs give equal outputs. The same core runs under
// the gRPC services, a simulator and the text scenarios in testdata/.
//
// A job's life. "forming" and "ending" are its states while a record is on its
// way to the journal; users see the state before them.
//
//   QUEUED     --enough idle workers that no job
//                before it is to have---------------> GATHERING
//   GATHERING  --max idle, or min and nobody joined
//                for `settle`-> forming --durable-----> PREPARING(g)
//   PREPARING  --all prepared the same----------------> RUNNING
//              --fewer prepared differently-----------> HALTING (re-form)
//              --nobody can tell which are right------> HALTING (fail, code 3)
//              --member lost, failed------------------> HALTING (re-form)
//   RUNNING    --member lost, left, link fault--------> HALTING (re-form)
//              --member failed by its own fault-------> HALTING (re-form)
//              --it fails wherever it is tried--------> HALTING (fail)
//              --workers joined, members paused-------> HALTING (re-form)
//              --all finished, equal hashes-> ending -> SUCCEEDED
//              --the same, but the member that
//                wrote the last checkpoint lost-> HALTING (re-form)
//              --cancel-------------------------------> STOPPING
//   STOPPING   --all finished---------------> ending -> CANCELLED
//              --stop budget over, member lost--------> HALTING (cancel)
//   HALTING    --all answered or evicted:
//                re-form, min of them and
//                idle workers--------> forming -------> PREPARING(g')
//                re-form, fewer-----------------------> GATHERING (waits)
//                re-form, again without a step--------> GATHERING (rests)
//                re-form, nobody left, too often ending-> FAILED (code 138)
//                fail or cancel-------------> ending -> FAILED, CANCELLED
//
// While it waits, the remaining members stay halted and keep their state; as
// soon as there are min workers again, forming follows. Members without state
// get it from one that has it (reform.h); if none has it, the job is rolled
// back.
//
// A cancel takes effect at once in QUEUED and GATHERING, and through HALTING in
// PREPARING.
// A halt is sent at once and waits for nothing; an assignment, a release and
// the answer to a user wait until the record behind them is durable.
//
// Thread-safety: thread-compatible; one owner thread calls it.
// Example:
//   CoordinatorCore core(Config::FromFailureBudget(absl::Seconds(2)));
//   for (Action& action : core.Step(Tick{}, clock.Now())) Perform(action);
//   ... wait for an event, at most until core.NextDeadline() ...
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_CORE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_CORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/action.h"
#include "server/coordinator/core/state/config.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/record.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

class CoordinatorCore {
 public:
  // A new coordinator, without a journal. `config` is valid; `incarnation` is
  // random, and tells it from the coordinators before it.
  explicit CoordinatorCore(Config config, uint64_t incarnation = 0);
  ~CoordinatorCore();
  CoordinatorCore(CoordinatorCore&&) noexcept;
  CoordinatorCore& operator=(CoordinatorCore&&) noexcept;

  // A coordinator that recovers from `records`, oldest first. Queued jobs are
  // queued again; members of a job that was running are DETACHED until they say
  // hello. DATA_LOSS if the records contradict each other.
  [[nodiscard]] static absl::StatusOr<CoordinatorCore> Recover(
      Config config, const std::vector<JournalRecord>& records,
      uint64_t incarnation = 0);

  // Takes in `event` and returns the actions that follow, in order. Then acts
  // on every deadline up to `now`, which never goes back. The first call, a
  // Tick at start-up, starts the clock of what was recovered.
  [[nodiscard]] std::vector<Action> Step(const Event& event, MonotonicTime now);

  // When to call Step with a Tick if nothing happens before; InfiniteFuture if
  // never. Constant time. May be earlier than needed; the Tick then does
  // nothing.
  [[nodiscard]] MonotonicTime NextDeadline() const;

  [[nodiscard]] const State& state() const;
  [[nodiscard]] const Config& config() const;

 private:
  struct Impl;
  explicit CoordinatorCore(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_CORE_H_
