// Journal: the coordinator's decisions, durable under --state_dir.
//
// A SQLite database (WAL, synchronous=FULL) in the state directory, one row a
// record. A record is durable, and its callback says OK, only after the commit
// that holds it was synced; records are committed in the order of Append, as
// many in one commit as were waiting when it began (group commit).
// After a commit has failed (disk full, I/O error), the records in it are
// rolled back and their callbacks get the error; from then on the journal
// thread probes the disk until a commit works and tells `on_works_again`.
// Records appended meanwhile are tried like any other. (Should the process die
// before a commit works again, a record whose fsync failed may still turn up:
// the kernel does not say what it wrote. The core's recovery allows for that.)
//
// Records that no state needs any more are dropped (core/state/retention.h): on opening, and
// while the journal grows, in commits of their own that are small (compaction.h). If
// that fails (a full disk), the log says so, and the journal is used as it is.
//
// One process holds the directory: an exclusive lock on DIR/lock, which names
// the holder, lasts until the Journal is destroyed or the process ends.
//
// Thread-safety: thread-safe. Callbacks run on the journal's own thread, with
// no lock held; they must not destroy the Journal and should only post.
// Example:
//   ASSIGN_OR_RETURN(auto journal, Journal::Open(options));
//   ASSIGN_OR_RETURN(auto records, journal->Load());
//   journal->Append(record, [&](absl::Status s) { PostToCore(token, s); });
#ifndef RINGMASTER_SERVER_COORDINATOR_JOURNAL_JOURNAL_H_
#define RINGMASTER_SERVER_COORDINATOR_JOURNAL_JOURNAL_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "server/coordinator/core/state/record.h"

namespace ringmaster::coordinator {

// In the state directory.
inline constexpr char kJournalFile[] = "journal.sqlite3";

class Journal {
 public:
  struct Options {
    // --state_dir: created, with its parents, if it is missing.
    std::string state_dir = {};
    // Called once after each run of failed commits, when one works again.
    std::function<void()> on_works_again = {};
    // The time between two probes of a failing disk.
    absl::Duration probe_interval = absl::Seconds(1);
    // This many ended jobs are kept, the newest.
    int max_ended_jobs = 100;
    // For waiting between probes; outlives the Journal.
    Clock* clock = &Clock::Real();
  };

  // Opens the journal of `options.state_dir`, or makes a new one, and starts
  // its thread. Errors name the path and what to do; the process exit code is
  // attached (common/status/exit_code.h):
  //   FAILED_PRECONDITION  in use by another process (names pid and host), or
  //                        written by a newer version; exit code 2
  //   PERMISSION_DENIED    cannot be created or written; exit code 2
  //   DATA_LOSS            damage; names its place, in the database or in its
  //                        log; exit code 4
  //   UNAVAILABLE          the disk is full or fails
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Journal>> Open(
      Options options);

  // Commits what was appended, then joins the thread and releases the
  // directory.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // All records, oldest first. DATA_LOSS names the first one that does not
  // read, and what to do.
  [[nodiscard]] absl::StatusOr<std::vector<JournalRecord>> Load();

  // Queues `record`; `done` is called exactly once: OK when it is durable, else
  // the error. Never blocks on the disk.
  void Append(JournalRecord record, std::function<void(absl::Status)> done);

  // Returns how long the oldest unanswered record has waited: a disk that hangs
  // answers nothing. nullopt if none waits.
  [[nodiscard]] std::optional<absl::Duration> OldestWait() const;

 private:
  class Impl;
  explicit Journal(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_JOURNAL_JOURNAL_H_
