// Rows: a JournalRecord as the database holds it.
//
// The body is the serialized ringmaster.v1.JournalRecord (record_proto.h); of a
// row that release 0.1 wrote, it is JSON, and the job spec has a column of its own
// (json_record.h).
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_CODEC_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/coordinator/core/state/record.h"

namespace ringmaster::coordinator {

struct Row {
  // TypeOf and JobIdOf of the record; the generation it is about, or 0.
  std::string type;
  std::string job_id;
  int64_t generation = 0;
  std::string body;
  // Release 0.1: the job spec of a job_created. Empty in new rows.
  std::string spec;
};

// The bytes of a row that are worth counting.
[[nodiscard]] inline int64_t BytesOf(const Row& row) {
  return static_cast<int64_t>(row.body.size() + row.spec.size());
}

// XXH64 over the number of a row, counted from 1, and all its columns: SQLite has
// no checksums for what is in its pages.
[[nodiscard]] int64_t ChecksumOf(int64_t number, const Row& row);

// The same without the number, as schema versions 1 and 2 have it.
[[nodiscard]] int64_t UnnumberedChecksumOf(const Row& row);

[[nodiscard]] Row Encode(const JournalRecord& record);

// DATA_LOSS if the type is unknown or the body does not read. Unknown fields are
// ignored.
[[nodiscard]] absl::StatusOr<JournalRecord> Decode(const Row& row);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_CODEC_H_
