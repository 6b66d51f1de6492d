// The records of journals that releases up to 0.1 have written: fields in JSON, the
// job spec in a column beside it. Read for one release more; nobody writes them.
// Pure.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_JSON_RECORD_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_JSON_RECORD_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/coordinator/core/state/record.h"

namespace ringmaster::coordinator {

// DATA_LOSS if the type is unknown, or a field is missing or of another kind.
// Unknown fields are ignored.
[[nodiscard]] absl::StatusOr<JournalRecord> RecordFromJson(
    const std::string& type, const std::string& body, const std::string& spec);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_JSON_RECORD_H_
