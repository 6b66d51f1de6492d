// Retention: which records of the journal are still needed.
//
// Those that are kept give the same state as all of them, but for members that
// were lost before their job made a step without them (absence.h), of which nobody
// asks any more.
//   jobs that ended long ago          nothing; but the job created last and that
//                                     of the highest generation count as recent,
//                                     since counting goes on from their numbers
//   other jobs that have ended        creation, cancellation, end; the last
//                                     generation, and the first with one member
//   jobs that have not                creation, cancellation; the first and the
//                                     last generation, rollbacks and the
//                                     generations before them, and those since
//                                     the last step, each with its verdicts; the
//                                     last verdict
//   changes of jobs                   the last of each property
//   queues                            the last
//   suspensions of jobs               all while it has not ended; else one that no
//                                     generation came after
//   quarantines                       until they are over
//   audit                             the last kMaxAudited
// The first and the last of the generations that one coordinator has formed in a
// row for a job that has not ended stay too: they tell its numbers (formed.h).
//
// Pure: the journal keeps a digest of each of its records, and asks.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_RETENTION_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_RETENTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/core/state/record.h"

namespace ringmaster::coordinator {

// As many entries of the audit are kept.
inline constexpr size_t kMaxAudited = 10'000;

// The part of a record that decides whether it is needed.
struct RecordDigest {
  // The index in JournalRecord.
  size_t type = 0;
  std::string job_id;
  // A generation and a verdict have it.
  int64_t generation = 0;
  // A generation has these.
  int64_t resume_step = 0;
  uint64_t formed_by = 0;
  bool is_rollback = false;
  bool has_since = false;
  bool is_trimmed = false;
  // When it was made; and when a quarantine ends.
  absl::Time time;
  absl::Time end_time;
  bool is_filler = false;
  // A cordon has these.
  std::string target;
  bool is_lifted = false;
  // A bit for each property that a change of a job sets.
  unsigned sets = 0;
};

[[nodiscard]] RecordDigest DigestOf(const JournalRecord& record);

enum class Fate {
  kKeep,
  kTrim,  // replaced by Trimmed(record)
  kDrop,
};

// Returns the fate of each of `records`, oldest first. `max_ended_jobs`: as many as
// ended last are recent.
[[nodiscard]] std::vector<Fate> FatesOf(
    const std::vector<RecordDigest>& records, int max_ended_jobs);

// Returns a generation's record with only what is needed of the first one of a job
// that has ended.
[[nodiscard]] JournalRecord Trimmed(JournalRecord record);

// A record that changes no state, wherever it stands: a quarantine, of no host, that
// is over. It fills the place of a dropped one until the others have moved up.
[[nodiscard]] JournalRecord Filler();

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_RETENTION_H_
