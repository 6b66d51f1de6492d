// Trace records a timeline of a rank in memory, for Chrome's trace viewer and
// for tests of overlap.
//
// Spans are recorded in a ring of fixed capacity (the oldest give way), without
// allocation while recording. A bucket's life is four points: ready (its last
// gradient was written), start and end (of its reduction), and its bytes.
// Collectives are recorded when this rank begins them, and stay if they never
// end: so the trace is a flight recorder, too.
// It is a flight recorder, too: a collective is recorded when this rank enters
// it, and stays, unfinished, if it never ends.
// Thread-safe; recording takes one short lock. Names must be string literals.
// Format of the export: "Trace Event Format" (Google, 2016), complete events
// ("ph":"X") in microseconds.
#ifndef RINGMASTER_COMMON_TRACE_TRACE_H_
#define RINGMASTER_COMMON_TRACE_TRACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "common/sync/mutex.h"

namespace ringmaster {

enum class SpanState : uint8_t {
  kEnded,
  kQueued,     // it has not begun: only `ready` is known
  kUnderWay,   // it has no end yet
  kBrokenOff,  // it failed at `end`
};

struct TraceSpan {
  const char* name = "";   // "forward", "backward", "all_reduce", "commit", ...
  const char* track = "";  // "compute", "communication", "data"
  int64_t step = 0;
  int64_t bucket = -1;  // -1: not about a bucket
  int64_t bytes = 0;
  MonotonicTime ready = {};  // when it could have started; equals start where
                             // that has no meaning
  MonotonicTime start = {};
  MonotonicTime end = {};
  SpanState state = SpanState::kEnded;

  // ---- Of a collective.

  // Its place among the generation's collectives of its kind of memory, from 1;
  // 0: it is no collective.
  int64_t sequence = 0;
  int64_t generation = 0;
  bool is_on_device = false;
  // The rank that this one waited for longest in it, or in vain if it was broken
  // off; -1: none, or nobody knows.
  int awaited_rank = -1;
  absl::Duration waited = {};  // for that rank
  // It was broken off, and that rank had sent something of it.
  bool has_awaited_entered = false;
};

class Trace {
 public:
  // Keeps the last `capacity` (> 0) spans; allocates for them here.
  explicit Trace(int capacity = 16384);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void Record(const TraceSpan& span);
  // Records a span that has not ended, and returns its place for Replace.
  [[nodiscard]] int64_t Open(const TraceSpan& span);
  // Records what has become of it, unless a newer span has taken its place.
  void Replace(int64_t place, const TraceSpan& span);
  // Forgets everything recorded so far.
  void Clear();

  // The spans still held of steps in [first_step, last_step], oldest record
  // first; none that has not ended.
  [[nodiscard]] std::vector<TraceSpan> Spans(
      int64_t first_step = INT64_MIN, int64_t last_step = INT64_MAX) const;

  // The collectives still held of the last `steps` (> 0) steps of `generation`,
  // oldest first, those too that have not ended.
  [[nodiscard]] std::vector<TraceSpan> Collectives(int64_t generation,
                                                   int64_t steps) const;

  struct StepRange {
    int64_t first = 0;
    int64_t last = 0;
  };
  // The steps that spans are still held of; nullopt if there are no spans.
  [[nodiscard]] std::optional<StepRange> HeldSteps() const;

 private:
  // Calls `visit` with each span still held, oldest record first.
  template <typename Visit>
  void ForEach(Visit visit) const REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<TraceSpan> ring_ GUARDED_BY(mutex_);
  int64_t recorded_ GUARDED_BY(mutex_) = 0;
  int64_t cleared_ GUARDED_BY(mutex_) = 0;  // of them, by the last Clear
};

struct RankTrace {
  int rank = 0;
  std::string worker;
  std::vector<TraceSpan> spans;
};

// The spans of several ranks as one Chrome-trace JSON document: a process a
// rank, a thread a track. Times of different hosts are shown each on its own
// clock, shifted so that every rank's earliest start is at 0. The arguments of
// an event are its step, and, where it has them, bucket, bytes, wait_us (from
// ready to start), sequence, awaited_rank, and whether it was broken off.
[[nodiscard]] std::string ToChromeTrace(const std::vector<RankTrace>& ranks);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRACE_TRACE_H_
