// Database: the SQLite file behind the journal.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_DATABASE_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_DATABASE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/coordinator/journal/record_codec.h"

struct sqlite3;

namespace ringmaster::coordinator {

// The version of the schema that this code writes, in PRAGMA user_version and, since
// version 3, a second time in the last byte of PRAGMA application_id, whose others
// are "RMJ": a version of which only one says so is damage. A database of a lower
// version is brought up to this one on opening.
//   1  release 0.1: bodies are JSON
//   2  bodies are messages
//   3  records are numbered from 1 without a gap, also after dropping some, and
//      their checksums cover the numbers
inline constexpr int kSchemaVersion = 3;

// One connection. WAL with synchronous=FULL: a commit has been synced when it
// returns, and readers do not disturb it (https://sqlite.org/wal.html).
// A flipped bit in what it holds is found on opening (file_check.h, PRAGMA
// quick_check) or by ForEachRow, and is DATA_LOSS with the place: the file and the
// byte, frame, page or record.
// Thread-compatible. Not copyable; movable.
class Database {
 public:
  // Opens `path`, makes it if it is missing, and checks it. Errors as in
  // Journal::Open.
  [[nodiscard]] static absl::StatusOr<Database> Open(const std::string& path);

  // Opens an existing one for reading, even while a coordinator is using it.
  // Errors as in Journal::Open; NOT_FOUND if there is none.
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

  // Replaces rows by number, and drops those behind number `last`; in one commit.
  // Errors as those of Commit.
  [[nodiscard]] absl::Status Replace(const std::map<int64_t, Row>& rows,
                                     int64_t last);

  // Returns the row with that number. DATA_LOSS if it is missing or damaged.
  [[nodiscard]] absl::StatusOr<Row> ReadRow(int64_t number);

  // Gives unused pages back to the file system once they are a quarter. Copies the
  // whole file, so it takes its time.
  [[nodiscard]] absl::Status Shrink();

  // Runs `body`, which sees the database as it is now, whatever others commit.
  [[nodiscard]] absl::Status InSnapshot(
      const std::function<absl::Status()>& body);

  // Copies it to `path`, an empty file of nobody else, as one file: nothing of
  // it is in a log. Errors as in Journal::Open.
  [[nodiscard]] absl::Status CopyTo(const std::string& path);

  using Visitor = std::function<absl::Status(int64_t number, Row row)>;
  // Calls `visit` with each row, oldest first, until it fails. DATA_LOSS names the
  // first record that is missing, damaged, or fails `visit`.
  [[nodiscard]] absl::Status ForEachRow(const Visitor& visit);

 private:
  Database(std::string path, sqlite3* connection)
      : path_(std::move(path)), connection_(connection) {}

  absl::Status Prepare();
  absl::Status CheckIntegrity();
  // Reads version_. DATA_LOSS if it cannot be one, FAILED_PRECONDITION if this code
  // does not know it.
  absl::Status ReadVersion();
  absl::Status Migrate();
  // DATA_LOSS if a table is not as this code makes it.
  absl::Status CheckTables();

  // How the records of a table are numbered, and whether their checksums cover it.
  enum class Numbers { kUnchecked, kConsecutive };
  // Visits the rows from number `first` to `last`.
  absl::Status ReadRows(const std::string& table, Numbers numbers,
                        const Visitor& visit, int64_t first = 1,
                        int64_t last = std::numeric_limits<int64_t>::max());
  // Writes the row by `verb`, INSERT or REPLACE.
  absl::Status WriteRow(const char* verb, int64_t number, const Row& row);

  absl::Status Execute(const std::string& sql);
  absl::StatusOr<int64_t> ReadInteger(const std::string& sql);
  // Passes the fail points journal.begin, journal.commit (before SQLite's
  // COMMIT) and journal.committed (after it; `error` means nothing there).
  absl::Status InTransaction(const std::function<absl::Status()>& body);
  // Converts SQLite's result code and the connection's error message.
  absl::Status ErrorOf(int code, const std::string& what) const;

  std::string path_;
  sqlite3* connection_;
  int version_ = 0;
  int64_t last_number_ = 0;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_DATABASE_H_
