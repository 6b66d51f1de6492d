// Context: what all parts of one simulated cluster share: virtual time, chance,
// what is still to happen, the ledgers, and the story so far.
//
// Thread-compatible; one per run, so that runs share nothing.
#ifndef RINGMASTER_TESTS_SIMULATOR_CONTEXT_H_
#define RINGMASTER_TESTS_SIMULATOR_CONTEXT_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/clock/monotonic_time.h"
#include "common/status/exit_code.h"
#include "tests/simulator/bug.h"
#include "tests/simulator/event_queue.h"
#include "tests/simulator/fault.h"
#include "tests/simulator/fault_log.h"
#include "tests/simulator/ledger.h"
#include "tests/simulator/random.h"
#include "tests/simulator/shape.h"

namespace ringmaster::simulator {

inline absl::string_view Sv(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}

inline constexpr uint64_t kLeaveStream = 0x6c65617665;  // "leave"
inline constexpr uint64_t kLateStream = 0x6c617465;     // "late"
inline constexpr uint64_t kLieStream = 0x6c6965;        // "lie"
inline constexpr uint64_t kMuteStream = 0x6d757465;     // "mute"
inline constexpr uint64_t kJobsStream = 0x6a6f6273;     // "jobs"

struct Context {
  Context(uint64_t seed, Bug planted, Holders holders, bool lied_to,
          bool has_many_jobs, bool is_traced)
      : random(seed),
        leave_random(Mix(seed ^ kLeaveStream)),
        late_random(Mix(seed ^ kLateStream)),
        lie_random(Mix(seed ^ kLieStream)),
        has_liar(lied_to),
        bug(planted),
        shape(DrawAll(seed, holders, has_many_jobs)),
        faults(DrawFaults(random, leave_random, late_random,
                          shape.ShardingOf(shape.jobs[0]).replicas > 0)),
        traced(is_traced) {
    uint64_t ledger_seed = random.Next();
    for (const JobShape& job : shape.jobs) {
      ledgers.emplace_back(ledger_seed, shape, job, fault_log);
      ledger_seed = Mix(ledger_seed);
    }
    if (has_liar) faults.front() = DrawLiar(lie_random);
    Random mute_random(Mix(seed ^ kMuteStream));
    if (mute_random.Chance(10)) faults[1] = DrawMute(mute_random);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  MonotonicTime Now() const { return MonotonicTime::FromNanos(now); }

  void After(int64_t delay, SimEvent event) {
    event.time = now + delay;
    queue.Push(event);
  }
  void At(int64_t time, SimEvent event) {
    event.time = std::max(time, now);
    queue.Push(event);
  }

  // The delay of one message: mostly short, now and then a spike.
  int64_t Latency() {
    const uint64_t draw = random.Next();
    if ((draw & 0x3ff) == 0) return random.Between(2, 40) * kMillisecond;
    return 100 * kMicrosecond +
           static_cast<int64_t>((draw >> 16) % (1'900 * kMicrosecond));
  }

  // Returns true if workers in that slot fail like that.
  bool IsBad(int slot, BadHost way) const {
    return bad_way == way && IsOnBadHost(slot);
  }
  bool IsOnBadHost(int slot) const {
    return !is_calm && (bad_hosts & (1u << shape.host_of[slot])) != 0;
  }
  // The code that they end with.
  int BadCode() const {
    return static_cast<int>(bad_way == BadHost::kNoMemory
                                ? ExitCode::kRetryElsewhere
                                : ExitCode::kUnreadable);
  }
  // Returns true if the worker in that slot fails in each step without a word.
  bool IsMute(int slot) const {
    return !is_calm && slot == mute && now < mute_until;
  }

  // Something worth a fault happens, to worker `slot` (-1: to none).
  void Reached(Moment moment, int slot) {
    for (int i = 0; i < kFaults; ++i) {
      Fault& fault = faults[i];
      if (fault.moment != moment || fault.is_scheduled || now < fault.time ||
          is_calm) {
        continue;
      }
      fault.is_scheduled = true;
      SimEvent event;
      event.kind = EventKind::kFault;
      event.detail = static_cast<uint8_t>(i);
      event.slot = static_cast<int8_t>(slot);
      After(fault.delay, event);
    }
  }

  Ledger& LedgerOf(std::string_view job_id) {
    return ledgers[static_cast<size_t>(JobOfId(job_id))];
  }
  // The first that some ledger has seen.
  std::optional<Violation> violation() const {
    for (const Ledger& ledger : ledgers)
      if (ledger.violation().has_value()) return ledger.violation();
    return std::nullopt;
  }
  int64_t commits() const {
    int64_t commits = 0;
    for (const Ledger& ledger : ledgers) commits += ledger.commits();
    return commits;
  }

  // Adds a line to the story; callers ask `traced` first, so that nothing is
  // formatted for nobody.
  void Tell(const std::string& what) {
    lines.push_back(absl::StrFormat("%11.6f %s", 1e-9 * now, what));
    if (lines.size() > max_lines) lines.pop_front();
  }

  int64_t now = 0;
  Random random;
  // For what concerns leaving, so that seeds that found a bug before still do.
  Random leave_random;
  // Likewise for the faults that were thought of last.
  Random late_random;
  Random lie_random;
  // One worker does not mean well: which, how often it lied, and how often it was
  // evicted for a link.
  const bool has_liar;
  int liar = -1;
  int lies = 0;
  int liar_evictions = 0;
  int refutations = 0;
  const Bug bug;
  const Shape shape;
  FaultPlan faults;
  FaultLog fault_log;
  std::deque<Ledger> ledgers;  // by job
  // Hosts whose workers fail by themselves until faults are over, and how.
  BadHost bad_way = BadHost::kNone;
  uint32_t bad_hosts = 0;
  int mute = -1;
  int64_t mute_until = 0;
  EventQueue queue;
  // No faults come any more.
  bool is_calm = false;

  const bool traced;
  size_t max_lines = 60;
  std::deque<std::string> lines;

 private:
  Shape DrawAll(uint64_t seed, Holders holders, bool has_many_jobs) {
    Shape drawn = DrawShape(random, leave_random, bug, holders);
    if (has_many_jobs) {
      Random jobs_random(Mix(seed ^ kJobsStream));
      DrawMoreJobs(jobs_random, drawn);
    }
    return drawn;
  }
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_CONTEXT_H_
