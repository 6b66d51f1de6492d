// Explain says what a job is waiting for, and names the workers that keep it
// waiting.
//
// A pure function of the state. It has a text for everything that can hold a
// job up: jobs before it, workers that are missing or that it does not take,
// members that owe an answer, a broken link, the journal.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_EXPLAIN_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_EXPLAIN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/config.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// A worker that the job waits for, or lacks.
struct BlockingWorker {
  std::string worker;
  v1::Role role = v1::ROLE_WORKER;
  int rank = -1;  // -1: no member
  std::string host;
  // Since its last sign of life; empty if this coordinator never heard of it.
  std::optional<absl::Duration> silence;
  v1::Phase phase = v1::PHASE_UNSPECIFIED;
  int64_t step = 0;
  // "its stream broke: reset by peer", "has not prepared for 3.1 s".
  std::string reason;
};

struct Explanation {
  v1::JobState state = v1::JOB_STATE_QUEUED;
  // In a sentence.
  std::string summary;
  // One sentence each, the most important first; empty where the summary says
  // it all.
  std::vector<std::string> reasons;
  // At most kMaxBlockingWorkers.
  std::vector<BlockingWorker> blocking;
  // The event that would end the wait, or an action of the user that would;
  // empty if the job is not waiting.
  std::string what_unblocks;
  // Until it is expected to begin, if that is known.
  std::optional<absl::Duration> predicted_wait = std::nullopt;
};

inline constexpr size_t kMaxBlockingWorkers = 64;

// Explains the state of `job`, one of `state`'s, at `now`. `journal_wait` is
// how long a decision has waited to become durable; nullopt if none waits.
[[nodiscard]] Explanation Explain(const State& state, const Job& job,
                                  const Config& config, MonotonicTime now,
                                  std::optional<absl::Duration> journal_wait);

// JournalFault returns the reason why decisions do not become durable: the
// journal's error, or that one has waited this long for the disk (which reports
// no error while it hangs). Empty if they do.
inline constexpr absl::Duration kJournalPatience = absl::Seconds(2);
[[nodiscard]] std::string JournalFault(
    const State& state, std::optional<absl::Duration> journal_wait);

// "rank 3 (worker w3, host h7, last heard 2.1 s ago at step 812: its stream
// broke)", "rank 5 (parameter server s1, ...)"; "worker w9 (host h2, last heard
// 0.1 s ago: is draining)".
[[nodiscard]] std::string ToText(const BlockingWorker& worker);

// "is drained by alice: kernel update", "is cordoned", "is no longer cordoned".
[[nodiscard]] std::string CordonText(const CordonedRecord& record);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_EXPLAIN_H_
