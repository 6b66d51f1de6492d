// Copies of the coordinator's state, and their way back.
//
// A backup is the journal's database as one file, as it was at one moment. It is
// there only once it has been read again, record by record, and is durable.
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_BACKUP_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_BACKUP_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/new_file.h"

namespace ringmaster::coordinator {

// A copy of a state has hosts and specs: only its owner may read it.
inline constexpr mode_t kBackupMode = 0600;

struct StateContents {
  int64_t records = 0;
  int64_t jobs = 0;
  int64_t generation = 0;  // the highest that is in it; 0: none
  int64_t size_bytes = 0;  // of the copy
  // A hash of all records with their numbers.
  uint64_t checksum = 0;

  bool operator==(const StateContents&) const = default;
};

// Copies the state in `state_dir` to `file`, even while a coordinator is using
// it. Errors are Journal::Open's and NewFile's, and
//   NOT_FOUND         there is no journal
//   INVALID_ARGUMENT  `file` is a file of the state itself
[[nodiscard]] absl::StatusOr<StateContents> BackUpState(
    const std::string& state_dir, NewFile& file);

// Makes `backup`, a backup or another copy of a journal, the state in
// `state_dir`, which no coordinator may be using. `file` is PATH/kJournalFile.
// Nothing is touched before the backup is known to be whole. Errors are those of
// BackUpState, and
//   ALREADY_EXISTS       there is a state already, and it may not be replaced
//   FAILED_PRECONDITION  a coordinator is using it: names pid and host
[[nodiscard]] absl::StatusOr<StateContents> RestoreState(
    const std::string& backup, const std::string& state_dir, bool may_replace,
    NewFile& file);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_BACKUP_H_
