#include "server/coordinator/journal/database.h"

#include <sqlite3.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/fail_point/fail_point.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/coordinator/journal/file_check.h"
#include "server/coordinator/journal/journal_vfs.h"

namespace ringmaster::coordinator {
namespace {

struct StatementFinalizer {
  void operator()(sqlite3_stmt* statement) const {
    sqlite3_finalize(statement);
  }
};
using Statement = std::unique_ptr<sqlite3_stmt, StatementFinalizer>;

std::string TextAt(sqlite3_stmt* statement, int column) {
  const auto* const bytes =
      static_cast<const char*>(sqlite3_column_blob(statement, column));
  const int size = sqlite3_column_bytes(statement, column);
  return bytes == nullptr ? std::string()
                          : std::string(bytes, static_cast<size_t>(size));
}

void BindText(sqlite3_stmt* statement, int index, const std::string& text) {
  sqlite3_bind_text(statement, index, text.data(),
                    static_cast<int>(text.size()), SQLITE_STATIC);
}

void BindBlob(sqlite3_stmt* statement, int index, const std::string& bytes) {
  sqlite3_bind_blob(statement, index, bytes.data(),
                    static_cast<int>(bytes.size()), SQLITE_STATIC);
}

absl::Status Damaged(const std::string& path, const std::string& detail) {
  return WithExitCode(
      absl::DataLossError(absl::StrCat(
          "journal ", path, " is damaged: ", detail,
          ". Restore the state directory from a backup, or move it away to "
          "start anew (jobs and generation numbers are lost: restart all "
          "workers too).")),
      ExitCode::kCheckpointCorrupt);
}

// See CheckFiles; with what an operator is to do.
absl::Status CheckUndamaged(const std::string& path) {
  const absl::Status status = CheckFiles(path);
  return absl::IsDataLoss(status) ? Damaged(path, std::string(status.message()))
                                  : status;
}

// Another connection may be checkpointing: wait, briefly.
constexpr int kBusyMillis = 2000;

// As the database itself keeps them.
constexpr char kCreateDecisions[] =
    "CREATE TABLE decisions ("
    "  sequence INTEGER PRIMARY KEY,"
    "  type TEXT NOT NULL,"
    "  job_id TEXT NOT NULL,"
    "  generation INTEGER NOT NULL,"
    "  body BLOB NOT NULL,"
    "  spec BLOB NOT NULL,"
    "  checksum INTEGER NOT NULL)";
constexpr char kCreateProbe[] =
    "CREATE TABLE probe (id INTEGER PRIMARY KEY, count INTEGER NOT NULL)";

constexpr int kFirstNumberedVersion = 3;

// "RMJ" and the version.
constexpr int64_t ApplicationIdOf(int64_t version) {
  return version < kFirstNumberedVersion ? 0 : 0x524d4a00 + version;
}

constexpr char kReadLastNumber[] =
    "SELECT COALESCE(MAX(sequence), 0) FROM decisions";

}  // namespace

absl::StatusOr<Database> Database::Open(const std::string& path) {
  RETURN_IF_ERROR(FAIL_POINT("journal.open"));
  // Opening carries the log over, and what is behind damage in it is lost then.
  RETURN_IF_ERROR(CheckUndamaged(path));
  sqlite3* connection = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &connection,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
      JournalVfs());
  Database database(path, connection);
  if (code != SQLITE_OK) return database.ErrorOf(code, "cannot be opened");
  RETURN_IF_ERROR(database.Prepare());
  return database;
}

absl::StatusOr<Database> Database::OpenForReading(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return WithExitCode(absl::NotFoundError(absl::StrCat(
                            "there is no journal ", path, error ? ": " : "",
                            error ? error.message() : "")),
                        ExitCode::kUsage);
  }
  RETURN_IF_ERROR(CheckUndamaged(path));
  sqlite3* connection = nullptr;
  int code = sqlite3_open_v2(path.c_str(), &connection,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
                             /*zVfs=*/nullptr);
  Database database(path, connection);
  if (code != SQLITE_OK) return database.ErrorOf(code, "cannot be opened");
  sqlite3_busy_timeout(connection, kBusyMillis);
  RETURN_IF_ERROR(database.CheckIntegrity());
  RETURN_IF_ERROR(database.ReadVersion());
  RETURN_IF_ERROR(database.CheckTables());
  return database;
}

Database::~Database() { sqlite3_close(connection_); }

Database::Database(Database&& other) noexcept
    : path_(std::move(other.path_)),
      connection_(std::exchange(other.connection_, nullptr)),
      version_(other.version_),
      last_number_(other.last_number_) {}

absl::Status Database::Prepare() {
  sqlite3_busy_timeout(connection_, kBusyMillis);
  RETURN_IF_ERROR(CheckIntegrity());
  RETURN_IF_ERROR(ReadVersion());
  RETURN_IF_ERROR(Execute("PRAGMA journal_mode = WAL"));
  RETURN_IF_ERROR(Execute("PRAGMA synchronous = FULL"));
  RETURN_IF_ERROR(Migrate());
  RETURN_IF_ERROR(CheckTables());
  ASSIGN_OR_RETURN(last_number_, ReadInteger(kReadLastNumber));
  return absl::OkStatus();
}

absl::Status Database::CheckIntegrity() {
  sqlite3_stmt* raw = nullptr;
  int code =
      sqlite3_prepare_v2(connection_, "PRAGMA quick_check", -1, &raw, nullptr);
  const Statement statement(raw);
  if (code != SQLITE_OK) return ErrorOf(code, "cannot be checked");
  code = sqlite3_step(raw);
  if (code != SQLITE_ROW) return ErrorOf(code, "cannot be checked");
  const std::string verdict = TextAt(raw, 0);
  if (verdict == "ok") return absl::OkStatus();
  // Several findings, one a line, below a title.
  const std::vector<std::string> lines =
      absl::StrSplit(verdict, '\n', absl::SkipWhitespace());
  return Damaged(path_, absl::StrJoin(lines, "; "));
}

absl::Status Database::ReadVersion() {
  ASSIGN_OR_RETURN(const int64_t version, ReadInteger("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const int64_t id, ReadInteger("PRAGMA application_id"));
  if (id != ApplicationIdOf(version)) {
    return Damaged(path_,
                   absl::StrCat("bytes 60 to 63 of its header say schema "
                                "version ",
                                version, ", and bytes 68 to 71 ", id));
  }
  if (version > kSchemaVersion) {
    return WithExitCode(
        absl::FailedPreconditionError(
            absl::StrCat("journal ", path_, " has schema version ", version,
                         "; this release knows versions up to ", kSchemaVersion,
                         ". Use the newer release that wrote it.")),
        ExitCode::kUsage);
  }
  ASSIGN_OR_RETURN(const int64_t tables,
                   ReadInteger("SELECT COUNT(*) FROM sqlite_schema"));
  if (version == 0 && tables != 0) {
    return Damaged(path_, "bytes 60 to 63 of its header say that it is new");
  }
  version_ = static_cast<int>(version);
  return absl::OkStatus();
}

absl::Status Database::Migrate() {
  if (version_ == kSchemaVersion) return absl::OkStatus();
  RETURN_IF_ERROR(InTransaction([this]() -> absl::Status {
    if (version_ == 0) {
      RETURN_IF_ERROR(Execute(kCreateProbe));
      RETURN_IF_ERROR(Execute(kCreateDecisions));
    } else {
      RETURN_IF_ERROR(Execute("ALTER TABLE decisions RENAME TO unnumbered"));
      RETURN_IF_ERROR(Execute(kCreateDecisions));
      int64_t number = 0;
      RETURN_IF_ERROR(ReadRows("unnumbered", Numbers::kUnchecked,
                               [&](int64_t, const Row& row) {
                                 return WriteRow("INSERT", ++number, row);
                               }));
      RETURN_IF_ERROR(Execute("DROP TABLE unnumbered"));
    }
    RETURN_IF_ERROR(Execute(absl::StrCat("PRAGMA application_id = ",
                                         ApplicationIdOf(kSchemaVersion))));
    return Execute(absl::StrCat("PRAGMA user_version = ", kSchemaVersion));
  }));
  version_ = kSchemaVersion;
  return absl::OkStatus();
}

absl::Status Database::CheckTables() {
  if (version_ < kSchemaVersion) return absl::OkStatus();
  for (const char* sql : {kCreateDecisions, kCreateProbe}) {
    ASSIGN_OR_RETURN(
        const int64_t count,
        ReadInteger(absl::StrCat(
            "SELECT COUNT(*) FROM sqlite_schema WHERE sql = '", sql, "'")));
    if (count != 1)
      return Damaged(path_,
                     absl::StrCat("it lacks the table of \"", sql, "\""));
  }
  return absl::OkStatus();
}

absl::Status Database::Commit(const std::vector<Row>& rows) {
  int64_t number = last_number_;
  RETURN_IF_ERROR(InTransaction([&]() -> absl::Status {
    for (const Row& row : rows) {
      RETURN_IF_ERROR(FAIL_POINT("journal.append"));
      RETURN_IF_ERROR(WriteRow("INSERT", ++number, row));
    }
    return absl::OkStatus();
  }));
  last_number_ = number;
  return absl::OkStatus();
}

absl::Status Database::Probe() {
  return InTransaction([this] {
    return Execute(
        "INSERT INTO probe (id, count) VALUES (1, 1)"
        " ON CONFLICT (id) DO UPDATE SET count = count + 1");
  });
}

absl::Status Database::Replace(const std::map<int64_t, Row>& rows,
                               int64_t last) {
  RETURN_IF_ERROR(InTransaction([&]() -> absl::Status {
    for (const auto& [number, row] : rows) {
      if (number <= last) RETURN_IF_ERROR(WriteRow("REPLACE", number, row));
    }
    RETURN_IF_ERROR(
        Execute(absl::StrCat("DELETE FROM decisions WHERE sequence > ", last)));
    return FAIL_POINT("journal.compact");
  }));
  last_number_ = last;
  return absl::OkStatus();
}

absl::StatusOr<Row> Database::ReadRow(int64_t number) {
  std::optional<Row> found;
  RETURN_IF_ERROR(ReadRows(
      "decisions", Numbers::kConsecutive,
      [&](int64_t, Row row) {
        found = std::move(row);
        return absl::OkStatus();
      },
      number, number));
  if (!found.has_value())
    return Damaged(path_, absl::StrCat("record ", number, " is missing"));
  return *std::move(found);
}

absl::Status Database::Shrink() {
  constexpr int kLeastPages = 16;
  ASSIGN_OR_RETURN(const int64_t pages, ReadInteger("PRAGMA page_count"));
  ASSIGN_OR_RETURN(const int64_t unused, ReadInteger("PRAGMA freelist_count"));
  if (unused < kLeastPages || unused * 4 < pages) return absl::OkStatus();
  RETURN_IF_ERROR(FAIL_POINT("journal.shrink"));
  RETURN_IF_ERROR(Execute("VACUUM"));
  return Execute("PRAGMA wal_checkpoint(TRUNCATE)");
}

absl::Status Database::InSnapshot(const std::function<absl::Status()>& body) {
  RETURN_IF_ERROR(Execute("BEGIN"));
  const absl::Status status = body();
  // It has only read.
  const absl::Status end = Execute("ROLLBACK");
  return status.ok() ? end : status;
}

absl::Status Database::CopyTo(const std::string& path) {
  sqlite3* connection = nullptr;
  int code = sqlite3_open_v2(path.c_str(), &connection,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                             JournalVfs());
  Database copy(path, connection);
  if (code != SQLITE_OK) return copy.ErrorOf(code, "cannot be opened");
  // A copy that is cut short is of no use: it needs no journal.
  RETURN_IF_ERROR(copy.Execute("PRAGMA journal_mode = OFF"));
  sqlite3_backup* const backup =
      sqlite3_backup_init(connection, "main", connection_, "main");
  if (backup == nullptr)
    return copy.ErrorOf(sqlite3_errcode(connection), "cannot be written");
  code = sqlite3_backup_step(backup, /*nPage=*/-1);
  sqlite3_backup_finish(backup);
  if (code != SQLITE_DONE) return copy.ErrorOf(code, "cannot be written");
  // SQLite finds out with a read that the copy says it has a log, and then says
  // the opposite.
  RETURN_IF_ERROR(copy.ReadInteger("PRAGMA user_version").status());
  return copy.Execute("PRAGMA journal_mode = DELETE");
}

absl::Status Database::ForEachRow(const Visitor& visit) {
  return ReadRows("decisions",
                  version_ < kFirstNumberedVersion ? Numbers::kUnchecked
                                                   : Numbers::kConsecutive,
                  visit);
}

absl::Status Database::ReadRows(const std::string& table, Numbers numbers,
                                const Visitor& visit, int64_t first,
                                int64_t last_wanted) {
  sqlite3_stmt* raw = nullptr;
  int code = sqlite3_prepare_v2(
      connection_,
      absl::StrCat("SELECT sequence, type, job_id, generation, body, spec, "
                   "checksum FROM ",
                   table, " WHERE sequence BETWEEN ", first, " AND ",
                   last_wanted, " ORDER BY sequence")
          .c_str(),
      -1, &raw, nullptr);
  const Statement statement(raw);
  if (code != SQLITE_OK) return ErrorOf(code, "cannot be read");
  int64_t last = first - 1;
  while ((code = sqlite3_step(raw)) == SQLITE_ROW) {
    const int64_t number = sqlite3_column_int64(raw, 0);
    if (numbers == Numbers::kConsecutive && number != last + 1) {
      return Damaged(path_, absl::StrCat("record ", last + 1,
                                         " is missing: "
                                         "in its place is number ",
                                         number));
    }
    last = number;
    Row row;
    row.type = TextAt(raw, 1);
    row.job_id = TextAt(raw, 2);
    row.generation = sqlite3_column_int64(raw, 3);
    row.body = TextAt(raw, 4);
    row.spec = TextAt(raw, 5);
    const int64_t checksum = numbers == Numbers::kUnchecked
                                 ? UnnumberedChecksumOf(row)
                                 : ChecksumOf(number, row);
    absl::Status status;
    if (sqlite3_column_int64(raw, 6) != checksum) {
      status = absl::DataLossError("its checksum does not match");
    } else {
      status = visit(number, std::move(row));
    }
    if (absl::IsDataLoss(status)) {
      return Damaged(path_,
                     absl::StrCat("record ", number, ": ", status.message()));
    }
    RETURN_IF_ERROR(status);
  }
  return code == SQLITE_DONE
             ? absl::OkStatus()
             : ErrorOf(code,
                       absl::StrCat("behind record ", last, " cannot be read"));
}

absl::Status Database::Execute(const std::string& sql) {
  const int code =
      sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus()
                           : ErrorOf(code, "cannot be written");
}

absl::StatusOr<int64_t> Database::ReadInteger(const std::string& sql) {
  sqlite3_stmt* raw = nullptr;
  int code = sqlite3_prepare_v2(connection_, sql.c_str(), -1, &raw, nullptr);
  const Statement statement(raw);
  if (code == SQLITE_OK) code = sqlite3_step(raw);
  if (code != SQLITE_ROW) return ErrorOf(code, "cannot be read");
  return sqlite3_column_int64(raw, 0);
}

absl::Status Database::WriteRow(const char* verb, int64_t number,
                                const Row& row) {
  sqlite3_stmt* raw = nullptr;
  int code = sqlite3_prepare_v2(
      connection_,
      absl::StrCat(verb,
                   " INTO decisions"
                   " (type, job_id, generation, body, spec, checksum, sequence)"
                   " VALUES (?, ?, ?, ?, ?, ?, ?)")
          .c_str(),
      -1, &raw, nullptr);
  const Statement statement(raw);
  if (code != SQLITE_OK) return ErrorOf(code, "cannot be written");
  BindText(raw, 1, row.type);
  BindText(raw, 2, row.job_id);
  sqlite3_bind_int64(raw, 3, row.generation);
  BindBlob(raw, 4, row.body);
  BindBlob(raw, 5, row.spec);
  sqlite3_bind_int64(raw, 6, ChecksumOf(number, row));
  sqlite3_bind_int64(raw, 7, number);
  code = sqlite3_step(raw);
  return code == SQLITE_DONE ? absl::OkStatus()
                             : ErrorOf(code, "cannot be written");
}

absl::Status Database::InTransaction(
    const std::function<absl::Status()>& body) {
  RETURN_IF_ERROR(FAIL_POINT("journal.begin"));
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status status = body();
  if (status.ok()) status = FAIL_POINT("journal.commit");
  if (status.ok()) status = Execute("COMMIT");
  // Durable, but not announced yet: a place to crash or hang, not to fail.
  if (status.ok()) (void)FAIL_POINT("journal.committed");
  if (status.ok() || sqlite3_get_autocommit(connection_) != 0) return status;
  // SQLite rolls back by itself after some errors; else do it, so that the next
  // transaction can begin. The first error is the one to report.
  if (const absl::Status rollback = Execute("ROLLBACK"); !rollback.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(status.message(), "; and the rollback: ",
                                     rollback.message()));
  }
  return status;
}

absl::Status Database::ErrorOf(int code, const std::string& what) const {
  const std::string message = absl::StrCat(
      "journal ", path_, " ", what, ": ",
      connection_ == nullptr ? sqlite3_errstr(code)
                             : sqlite3_errmsg(connection_),
      " (SQLite error ",
      connection_ == nullptr ? code : sqlite3_extended_errcode(connection_),
      ")");
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
      return Damaged(path_, absl::StrCat("it ", what, ": ",
                                         connection_ == nullptr
                                             ? sqlite3_errstr(code)
                                             : sqlite3_errmsg(connection_)));
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return WithExitCode(absl::PermissionDeniedError(message),
                          ExitCode::kUsage);
    case SQLITE_ERROR:
    case SQLITE_MISUSE:
    case SQLITE_INTERNAL:
      return absl::InternalError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace ringmaster::coordinator
