// Database: the SQLite file behind the journal.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_DATABASE_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_DATABASE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/coordinator/journal/record_codec.h"

struct sqlite3;

namespace ringmaster::coordinator {

// The version of the schema that this code writes, in PRAGMA user_version. A
// database of a lower version is brought up to it on opening.
inline constexpr int kSchemaVersion = 2;

// One connection. WAL with synchronous=FULL: a commit has been synced when it
// returns, and readers do not disturb it (https://sqlite.org/wal.html).
// Thread-compatible. Not copyable; movable.
class Database {
 public:
  // Opens `path`, makes it if it is missing, and checks it (PRAGMA
  // quick_check). Errors as in Journal::Open.
  [[nodiscard]] static absl::StatusOr<Database> Open(const std::string& path);

  // Opens an existing one for reading, even while a coordinator is using it.
  // Errors as in Journal::Open.
  [[nodiscard]] static absl::StatusOr<Database> OpenForReading(
      const std::string& path);

  ~Database();
  Database(Database&& other) noexcept;
  Database& operator=(Database&&) = delete;

  // Adds `rows` in one commit: all of them or none. UNAVAILABLE if the disk is
  // full or fails.
  [[nodiscard]] absl::Status Commit(const std::vector<Row>& rows);

  // Makes a commit without effect, to see whether commits work.
  [[nodiscard]] absl::Status Probe();

  // Drops records that no state needs any more: ended jobs except the last
  // `max_ended_jobs`, and all generations of ended jobs except the first and
  // the last. The job created last and the job of the highest generation always
  // stay: counting continues from their numbers. One commit, all or nothing;
  // then the file returns the space if it is much. A journal with a damaged
  // record is left alone (DATA_LOSS).
  [[nodiscard]] absl::Status Compact(int max_ended_jobs);

  // Calls `visit` with each row, oldest first, until it fails.
  [[nodiscard]] absl::Status ForEachRow(
      const std::function<absl::Status(int64_t sequence, Row row)>& visit);

 private:
  Database(std::string path, sqlite3* connection)
      : path_(std::move(path)), connection_(connection) {}

  absl::Status Prepare();
  absl::Status CheckIntegrity();
  absl::Status Migrate();
  // FAILED_PRECONDITION if `version` is one that this code does not know.
  absl::Status CheckVersion(int version) const;
  absl::Status Execute(const std::string& sql);
  absl::StatusOr<int> ReadInteger(const std::string& sql);
  absl::Status InsertRow(const Row& row);
  // Gives unused pages back to the file system once they are a quarter.
  absl::Status Shrink();
  // Passes the fail points journal.begin, journal.commit (before SQLite's
  // COMMIT) and journal.committed (after it; `error` means nothing there).
  absl::Status InTransaction(const std::function<absl::Status()>& body);
  // Converts SQLite's result code and the connection's error message.
  absl::Status ErrorOf(int code, const std::string& what) const;

  std::string path_;
  sqlite3* connection_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_DATABASE_H_
