// Rows: a JournalRecord as the database holds it.
//
// The fields are a JSON object, because people who operate a cluster want to
// read the journal with the sqlite3 shell, and because a field can be added
// without a new schema; a handful of records a minute makes its size and speed
// of no matter. The job spec, which is protobuf bytes, has a column of its own.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_CODEC_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/coordinator/core/record.h"

namespace ringmaster::coordinator {

struct Row {
  // TypeOf and JobIdOf of the record; the generation it is about, or 0.
  std::string type;
  std::string job_id;
  int64_t generation = 0;
  // The fields.
  std::string body;
  // The job spec of a job_created, else empty.
  std::string spec;
  // XXH64 over the other columns: SQLite has no checksums for what is in its
  // pages.
  int64_t checksum = 0;
};

// What `checksum` of `row` should be.
[[nodiscard]] int64_t ChecksumOf(const Row& row);

[[nodiscard]] Row Encode(const JournalRecord& record);

// DATA_LOSS if the checksum does not match, the type is unknown, or a field is
// missing or of another kind. Unknown fields are ignored.
[[nodiscard]] absl::StatusOr<JournalRecord> Decode(const Row& row);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_RECORD_CODEC_H_
