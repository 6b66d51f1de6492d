// Trace records a timeline of a rank in memory, for Chrome's trace viewer and
// for tests of overlap.
//
// Spans are recorded in a ring of fixed capacity (the oldest give way), without
// allocation while recording. A bucket's life is four points: ready (its last
// gradient was written), start and end (of its reduction), and its bytes.
// Thread-safe; recording takes one short lock. Names must be string literals.
// Format of the export: "Trace Event Format" (Google, 2016), complete events
// ("ph":"X") in microseconds.
#ifndef RINGMASTER_COMMON_TRACE_TRACE_H_
#define RINGMASTER_COMMON_TRACE_TRACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock/monotonic_time.h"
#include "common/sync/mutex.h"

namespace ringmaster {

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
};

class Trace {
 public:
  // Keeps the last `capacity` (> 0) spans; allocates for them here.
  explicit Trace(int capacity = 16384);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void Record(const TraceSpan& span);
  // Forgets everything recorded so far.
  void Clear();

  // The spans still held of steps in [first_step, last_step], oldest record
  // first.
  [[nodiscard]] std::vector<TraceSpan> Spans(
      int64_t first_step = INT64_MIN, int64_t last_step = INT64_MAX) const;

  struct StepRange {
    int64_t first = 0;
    int64_t last = 0;
  };
  // The steps that spans are still held of; nullopt if there are no spans.
  [[nodiscard]] std::optional<StepRange> HeldSteps() const;

 private:
  mutable Mutex mutex_;
  std::vector<TraceSpan> ring_ GUARDED_BY(mutex_);
  int64_t recorded_ GUARDED_BY(mutex_) = 0;
};

struct RankTrace {
  int rank = 0;
  std::string worker;
  std::vector<TraceSpan> spans;
};

// The spans of several ranks as one Chrome-trace JSON document: a process a
// rank, a thread a track. Times of different hosts are shown each on its own
// clock, shifted so that every rank's earliest start is at 0. The arguments of
// an event are its step, and, where it has them, bucket, bytes and wait_us
// (from ready to start).
[[nodiscard]] std::string ToChromeTrace(const std::vector<RankTrace>& ranks);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRACE_TRACE_H_
