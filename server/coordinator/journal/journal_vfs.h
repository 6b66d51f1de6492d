// The journal's own view of the file system: SQLite's, with fail points where it
// writes.
//
//   journal.write      each page and frame that goes to a file
//   journal.sync       each fsync: of the log at a commit, of both files when
//                      the log is carried over into the database
//   journal.truncate   each file made shorter
// `error` is what a failing disk does, an I/O error from SQLite; a full one says
// the same to us. The files are those that SQLite alone would write.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_JOURNAL_VFS_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_JOURNAL_VFS_H_

namespace ringmaster::coordinator {

// The name to give to sqlite3_open_v2, registered on the first call; null if
// SQLite has no default VFS, which then is used as it is. Thread-safe.
[[nodiscard]] const char* JournalVfs();

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_JOURNAL_VFS_H_
