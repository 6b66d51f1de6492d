// ProofOfLife: what reports of applied steps prove about members that are
// silent.
//
// A step is applied once every member of the generation has sent its record of
// it. So a report that step s is applied proves that all members lived when
// they sent their records of s; but when was that? A member sends its record of
// s after all have contributed to s, and each contributes to s after it has
// applied s-1. So all records of s were sent after the moment at which any one
// member had not applied s-1 yet. A report of step s-2 or less shows such a
// moment: it was heard when its sender had no more. (A report of s-1 does not:
// its sender may have contributed to s already, and a third member may be what
// delayed s since. It may have sent its record long ago and died.)
//
// Hence: step s, heard for the first time, proves that every member lived when
// the last report of the highest step known was heard, if that step is at most
// s-2; else, when the last report of the highest step known before it was. Only
// reports of the highest step known count as such moments: others may be old
// messages of a slow link. As with a lease, a message counts from when it is
// heard, not from when it was sent.
//
// A checkpoint that a job starts from is applied like one step, however high:
// so the first step after 0 counts as s-1 = 0 would.
//
// Thread-safety: thread-compatible; a value.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_PROOF_OF_LIFE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_PROOF_OF_LIFE_H_

#include <cstdint>
#include <optional>

#include "common/clock/monotonic_time.h"

namespace ringmaster::coordinator {

class ProofOfLife {
 public:
  // A member of `generation`, which never falls, said at `now` that it has
  // applied `step`, which is not below the step that the generation began
  // after. Reports of older generations are forgotten.
  void OnReport(int64_t generation, int64_t step, MonotonicTime now);

  // The latest time at which all members of `generation` are proven to have
  // lived; nullopt: none is.
  [[nodiscard]] std::optional<MonotonicTime> ProvenAt(int64_t generation) const;

 private:
  int64_t generation_ = 0;
  int64_t highest_ = -1;  // step; -1: none was reported
  MonotonicTime highest_heard_;
  // The time when the highest step before that one was heard.
  std::optional<MonotonicTime> lower_heard_;
  std::optional<MonotonicTime> proven_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_PROOF_OF_LIFE_H_
