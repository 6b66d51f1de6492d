// The check that finds damage in a journal's files before SQLite opens them.
//
// SQLite takes its log (https://sqlite.org/fileformat2.html#walformat) up to the
// first frame that does not match its checksum, and drops the rest without a
// word: it cannot tell a write that a crash cut short from one that was damaged
// later. With synchronous=FULL the difference shows: a commit was synced before
// the next one began, so a bad frame with a later commit behind it was once good.
// In the last commit itself, a single flipped bit is told apart from a write cut
// short because exactly one bit then explains the checksum.
//
// Not found: more than one changed bit in the last commit. That looks like a
// crash in the middle of it.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_FILE_CHECK_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_FILE_CHECK_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ringmaster::coordinator {

// Checks the bytes of a log ("-wal"). OK if it holds all that was ever committed
// to it; a part of a frame or of a commit at the end is not damage, nor are frames
// from before the log was begun anew. DATA_LOSS names the frame, counted from 1,
// and the byte. Pure.
[[nodiscard]] absl::Status CheckLog(std::string_view log);

// Checks the first 100 bytes of a database
// (https://sqlite.org/fileformat2.html#the_database_header), where one flipped bit
// would make SQLite refuse it as if it were another program's or not writable.
// OK for an empty file; DATA_LOSS names the byte. Pure.
[[nodiscard]] absl::Status CheckDatabaseHeader(std::string_view database);

// Checks both files of the database at `path`; missing ones are fine. Damage that
// is not found again at the same place in a second reading is what another process
// was writing, and is not damage.
//   DATA_LOSS          names the file and the place
//   PERMISSION_DENIED  a file cannot be opened
//   UNAVAILABLE        reading fails
[[nodiscard]] absl::Status CheckFiles(const std::string& path);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_FILE_CHECK_H_
