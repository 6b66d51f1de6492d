// Compaction drops the records of a journal that no state needs any more
// (core/state/retention.h), while the journal is in use.
//
// It works in passes of bounded size, so that no append waits for long. Records are
// numbered without a gap, and keep their order: each pass moves some of those that
// stay up to the places of dropped ones, where it leaves fillers. Once all have
// moved, the fillers at the end go. A pass is one commit: whatever ends the process
// leaves a journal that gives the same state.
// Thread-compatible.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_COMPACTION_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_COMPACTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "server/coordinator/core/state/retention.h"
#include "server/coordinator/journal/database.h"

namespace ringmaster::coordinator {

class Compaction {
 public:
  // `max_ended_jobs`: as many that ended last stay.
  explicit Compaction(int max_ended_jobs) : max_ended_jobs_(max_ended_jobs) {}

  // A record of `bytes` was committed behind the others.
  void Add(RecordDigest digest, int64_t bytes);

  // Returns true if it is time for a pass: as much was added as was left by the last
  // round of them, or a round is under way.
  [[nodiscard]] bool IsDue() const;

  // Returns how many records there are, fillers included.
  [[nodiscard]] int64_t records() const {
    return static_cast<int64_t>(digests_.size());
  }

  // Makes the next pass on `database`, which has exactly the records that were added:
  // reads and writes about `max_bytes`, and at least one record. An error changes
  // nothing; then nothing is due before as much was added again.
  [[nodiscard]] absl::Status Pass(Database& database, int64_t max_bytes);

 private:
  // A pass does this with a record, by index.
  struct Step {
    size_t from;
    size_t to;
    Fate fate;
    int64_t bytes = 0;  // what it takes afterwards
  };

  void BeginRound();
  absl::Status TryPass(Database& database, int64_t max_bytes);
  // Returns the records that are dropped in one commit with that of `index`: a job
  // goes as a whole.
  std::vector<size_t> DroppedWith(size_t index) const;
  void Apply(const Step& step);

  const int max_ended_jobs_;
  // One for each record, by number less one.
  std::vector<RecordDigest> digests_;
  std::vector<int64_t> bytes_;
  // Left by the last round, and added since it began.
  int64_t left_records_ = 0;
  int64_t left_bytes_ = 0;
  int64_t added_records_ = 0;
  int64_t added_bytes_ = 0;
  // The round that is under way: records before `next_` are settled; those that stay
  // are before `end_`, and behind it are fillers.
  bool is_under_way_ = false;
  std::vector<Fate> fates_;
  size_t next_ = 0;
  size_t end_ = 0;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_COMPACTION_H_
