// Turn: the context in which the parts of the core handle one event, during one
// Step.
//
// Internal to the core. The parts (membership, formation, halt, ...) are free
// functions on a Turn; they change its state and add to its actions.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_TURN_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_TURN_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/action.h"
#include "server/coordinator/core/state/config.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// A record that is not durable yet, and the users whose answer waits for it.
struct PendingRecord {
  JournalRecord record;
  std::vector<RequestToken> waiting;
};

// Records on their way to the journal.
struct Outbox {
  PersistToken last_token = 0;
  // Handed to the journal, by token.
  std::map<PersistToken, PendingRecord> in_flight;
  // Decided, to be handed over once the journal works again, in order.
  std::deque<PendingRecord> deferred;
};

struct Turn {
  const Config& config;
  State& state;
  Outbox& outbox;
  std::vector<Action>& actions;
  MonotonicTime now;
  // Wall clock, for display.
  absl::Time time;

  void Do(Action action) { actions.push_back(std::move(action)); }

  // Notes a change of what status shows; with `job`, a change of that job too.
  void Touch() { ++state.revision; }
  void Touch(Job& job) { job.revision = ++state.revision; }

  // Idle workers, or the jobs that are to have them, have changed: jobs are
  // scheduled once the present event has been handled (scheduler.h).
  void ScheduleSoon() { state.must_schedule = true; }

  // Hands `record` to the journal; `waiting` are answered once the journal has
  // answered. While the journal fails, sets the record aside and answers them
  // with that error.
  void Persist(JournalRecord record, std::vector<RequestToken> waiting = {});

  void Reply(RequestToken request, absl::Status status, std::string job_id);
  // Answers all of them alike.
  void Reply(const std::vector<RequestToken>& requests,
             const absl::Status& status, const std::string& job_id);

  // Emits an event about the coordinator or one worker.
  void Emit(v1::EventSeverity severity, std::string_view type,
            std::string_view worker, std::string message);
  // Emits an event about `job` in its present generation, at `step` or else at
  // its best step.
  void Emit(v1::EventSeverity severity, std::string_view type, const Job& job,
            std::string_view worker, std::string message,
            const v1::Verdict* verdict = nullptr,
            std::optional<int64_t> step = std::nullopt);
};

// The member of its job that `worker` is, unless it was lost; else null.
[[nodiscard]] const Member* MemberOf(const State& state, const Worker& worker);
[[nodiscard]] Member* MemberOf(State& state, const Worker& worker);
// The same, for a message about `generation`; null also if that is stale.
[[nodiscard]] const Member* MemberIn(const State& state, const Worker& worker,
                                     int64_t generation);
[[nodiscard]] Member* MemberIn(State& state, const Worker& worker,
                               int64_t generation);

// UNAVAILABLE/JOURNAL_UNAVAILABLE: `what` cannot be made durable, and why.
[[nodiscard]] absl::Status JournalUnavailable(std::string_view what,
                                              std::string_view why);

// "the creation of job j-1", for the user who waits for `record`.
[[nodiscard]] std::string Describe(const JournalRecord& record);

// "worker b (rank 1, host h2, pid 7)", "parameter server s (rank 2, ...)".
[[nodiscard]] std::string Describe(const MemberIdentity& identity);

// "1 rank", "2 ranks".
[[nodiscard]] std::string Counted(size_t count, std::string_view noun);

// " and 2 parameter servers", to follow what a job's workers are called; empty
// for none.
[[nodiscard]] std::string AndServers(int servers);

// "4 ranks and 2 parameter servers": the members of `job`.
[[nodiscard]] std::string RanksText(const Job& job);

// absl::string_view of a std::string_view, for StrCat.
inline absl::string_view Sv(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_TURN_H_
