// SampleIndex numbers the records that are valid: sample ids are [0, size),
// without holes, in the order of the records.
//
// Memory grows with the number of gaps, not of records; a lookup takes time
// logarithmic in it.
// Thread-safety: thread-compatible; immutable once built.
#ifndef RINGMASTER_WORKER_DATA_SAMPLE_INDEX_H_
#define RINGMASTER_WORKER_DATA_SAMPLE_INDEX_H_

#include <cstdint>
#include <vector>

namespace ringmaster {

class SampleIndex {
 public:
  // Numbers records [0, records), none left out.
  explicit SampleIndex(int64_t records) : records_(records) {}

  // Leaves out records [begin, end). Calls come in the order of `begin`; ranges
  // may overlap. Requires 0 <= begin <= end <= records.
  void Skip(int64_t begin, int64_t end);

  int64_t size() const { return records_ - skipped(); }
  int64_t skipped() const { return gaps_.empty() ? 0 : gaps_.back().skipped; }
  // Requires 0 <= id < size().
  int64_t RecordOf(int64_t id) const;

 private:
  struct Gap {
    int64_t next_id = 0;  // the id of the first valid record after it
    int64_t skipped = 0;  // records left out up to its end
  };

  int64_t records_;
  int64_t end_ = 0;  // of the last gap
  std::vector<Gap> gaps_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_SAMPLE_INDEX_H_
