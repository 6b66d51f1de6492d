#include "server/coordinator/journal/backup.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/files/sync_names.h"
#include "common/status/status_macros.h"
#include "server/coordinator/journal/database.h"
#include "server/coordinator/journal/journal.h"
#include "server/coordinator/journal/record_codec.h"
#include "server/coordinator/journal/state_directory.h"

namespace ringmaster::coordinator {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<StateContents> ReadContents(Database& database) {
  StateContents contents;
  RETURN_IF_ERROR(
      database.ForEachRow([&](int64_t number, const Row& row) -> absl::Status {
        RETURN_IF_ERROR(Decode(row).status());
        ++contents.records;
        if (row.type == "job_created") ++contents.jobs;
        contents.generation = std::max(contents.generation, row.generation);
        contents.checksum = contents.checksum * 31 +
                            static_cast<uint64_t>(ChecksumOf(number, row));
        return absl::OkStatus();
      }));
  return contents;
}

absl::Status CheckCopy(const std::string& path, const StateContents& contents) {
  ASSIGN_OR_RETURN(Database copy, Database::OpenForReading(path));
  ASSIGN_OR_RETURN(const StateContents read, ReadContents(copy));
  if (read == contents) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, " was written with ",
                                          contents.records, " records and has ",
                                          read.records, ", or others"));
}

// Leaves `file` to be published.
absl::StatusOr<StateContents> Copy(Database& source, NewFile& file) {
  ASSIGN_OR_RETURN(const std::string part, file.Create());
  StateContents contents;
  RETURN_IF_ERROR(source.InSnapshot([&]() -> absl::Status {
    ASSIGN_OR_RETURN(contents, ReadContents(source));
    return source.CopyTo(part);
  }));
  RETURN_IF_ERROR(CheckCopy(part, contents));
  std::error_code error;
  contents.size_bytes = static_cast<int64_t>(fs::file_size(part, error));
  return contents;
}

absl::Status CannotReplace(const std::string& journal, int error) {
  return absl::UnavailableError(absl::StrCat(
      "the state ", journal, " cannot be replaced: ", std::strerror(error)));
}

absl::Status Sync(const std::string& journal) {
  const int error = SyncNames(DirectoryOf(journal));
  return error == 0 ? absl::OkStatus() : CannotReplace(journal, error);
}

// The log of a database is of that one, so the database goes first: what is left
// of a removal cut short is no state, rather than an older one.
absl::Status RemoveState(const std::string& journal) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    if (unlink(absl::StrCat(journal, suffix).c_str()) != 0 && errno != ENOENT)
      return CannotReplace(journal, errno);
    RETURN_IF_ERROR(Sync(journal));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StateContents> BackUpState(const std::string& state_dir,
                                          NewFile& file) {
  const std::string journal = absl::StrCat(state_dir, "/", kJournalFile);
  std::error_code error;
  const fs::path out(file.path());
  const fs::path place = out.has_parent_path() ? out.parent_path() : ".";
  const std::string name = out.filename().string();
  // SQLite's own files beside the journal have its name and "-wal", "-shm", ...
  const bool is_of_state =
      fs::equivalent(place, state_dir, error) &&
      (name == kJournalFile || name == kLockFile ||
       absl::StartsWith(name, absl::StrCat(kJournalFile, "-")));
  if (is_of_state || fs::equivalent(journal, out, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(),
                     " is a file of the state itself: write the backup "
                     "to another file"));
  }
  RETURN_IF_ERROR(file.Check());
  ASSIGN_OR_RETURN(Database source, Database::OpenForReading(journal));
  ASSIGN_OR_RETURN(const StateContents contents, Copy(source, file));
  RETURN_IF_ERROR(file.Publish());
  return contents;
}

absl::StatusOr<StateContents> RestoreState(const std::string& backup,
                                           const std::string& state_dir,
                                           bool may_replace, NewFile& file) {
  ASSIGN_OR_RETURN(Database source, Database::OpenForReading(backup));
  ASSIGN_OR_RETURN(const StateDirectory directory,
                   StateDirectory::Acquire(state_dir));
  const std::string journal = directory.File(kJournalFile);
  std::error_code error;
  if (!may_replace && fs::exists(journal, error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "there is a state in ", state_dir,
        ": restore to another directory, or keep a copy of it and give "
        "--force to replace it"));
  }
  ASSIGN_OR_RETURN(const StateContents contents, Copy(source, file));
  RETURN_IF_ERROR(RemoveState(journal));
  RETURN_IF_ERROR(file.Publish());
  return contents;
}

}  // namespace ringmaster::coordinator
