// The journal in a form for people and scripts.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_JOURNAL_DUMP_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_JOURNAL_DUMP_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace ringmaster::coordinator {

// Writes the records of the journal in `state_dir` to `out`, oldest first, each a
// line of JSON: its number, and the fields of ringmaster.v1.JournalRecord with the
// job's spec as JSON too. A coordinator may be using the journal meanwhile. Errors
// as in Journal::Open; NOT_FOUND if there is none; UNAVAILABLE if `out` fails.
[[nodiscard]] absl::Status DumpJournal(const std::string& state_dir,
                                       std::ostream& out);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_JOURNAL_DUMP_H_
