#include "server/coordinator/journal/journal.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/logging/logging.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "server/coordinator/core/state/retention.h"
#include "server/coordinator/journal/compaction.h"
#include "server/coordinator/journal/database.h"
#include "server/coordinator/journal/record_codec.h"
#include "server/coordinator/journal/state_directory.h"

namespace ringmaster::coordinator {
namespace {

// A record that waits for its commit.
struct Waiting {
  Row row;
  RecordDigest digest;
  std::function<void(absl::Status)> done;
  MonotonicTime since;
};

// A pass of this size delays the records that come meanwhile by some milliseconds.
constexpr int64_t kPassBytes = 256 << 10;

// Tells `compaction` of all that `database` holds. It must know every record: rows
// are moved and dropped by their numbers.
absl::Status AddAll(Database& database, Compaction& compaction) {
  return database.ForEachRow([&](int64_t, const Row& row) -> absl::Status {
    ASSIGN_OR_RETURN(const JournalRecord record, Decode(row));
    compaction.Add(DigestOf(record), BytesOf(row));
    return absl::OkStatus();
  });
}

// Makes a whole round, since nobody waits yet.
absl::Status CompactAll(Database& database, Compaction& compaction) {
  RETURN_IF_ERROR(
      compaction.Pass(database, std::numeric_limits<int64_t>::max()));
  return database.Shrink();
}

void LogNotCompacted(const absl::Status& status) {
  LogEvent(LogLevel::kWarning, "journal.not_compacted",
           {{"error", std::string(status.message())}});
}

}  // namespace

class Journal::Impl {
 public:
  Impl(Options options, StateDirectory directory, Database database,
       Compaction compaction)
      : options_(std::move(options)),
        directory_(std::move(directory)),
        database_(std::move(database)),
        compaction_(std::move(compaction)),
        thread_([this] { Run(); }) {}

  ~Impl() {
    {
      MutexLock lock(mutex_);
      is_stopping_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }

  absl::StatusOr<std::vector<JournalRecord>> Load() const {
    // A connection of its own: the journal thread has the other.
    ASSIGN_OR_RETURN(Database reader,
                     Database::Open(directory_.File(kJournalFile)));
    std::vector<JournalRecord> records;
    RETURN_IF_ERROR(
        reader.ForEachRow([&](int64_t, const Row& row) -> absl::Status {
          ASSIGN_OR_RETURN(JournalRecord record, Decode(row));
          records.push_back(std::move(record));
          return absl::OkStatus();
        }));
    return records;
  }

  void Append(JournalRecord record, std::function<void(absl::Status)> done) {
    Waiting waiting{Encode(record), DigestOf(record), std::move(done),
                    options_.clock->Now()};
    {
      MutexLock lock(mutex_);
      queue_.push_back(std::move(waiting));
    }
    changed_.NotifyAll();
  }

  std::optional<absl::Duration> OldestWait() const {
    const MonotonicTime now = options_.clock->Now();
    MutexLock lock(mutex_);
    if (committing_since_.has_value()) return now - *committing_since_;
    if (queue_.empty()) return std::nullopt;
    return now - queue_.front().since;
  }

 private:
  // The journal thread: commits what is there, all at once; probes while the
  // last commit has failed; and compacts in between.
  void Run() {
    for (;;) {
      std::vector<Waiting> batch;
      if (!AwaitWork(batch)) return;
      if (!batch.empty()) {
        CommitBatch(std::move(batch));
      } else if (is_failing_) {
        NoteOutcome(database_.Probe());
      }
      if (!is_failing_ && compaction_.IsDue()) CompactSome();
    }
  }

  // Waits for records, which it moves to `batch`, or for the time of a probe or of
  // a pass, when `batch` stays empty. False: stop, nothing is left.
  bool AwaitWork(std::vector<Waiting>& batch) {
    const MonotonicTime probe_time =
        options_.clock->Now() + options_.probe_interval;
    MutexLock lock(mutex_);
    while (queue_.empty() && !is_stopping_) {
      if (!is_failing_ && compaction_.IsDue()) return true;
      if (!is_failing_) {
        changed_.Wait(mutex_);
      } else if (!changed_.WaitUntil(mutex_, *options_.clock, probe_time)) {
        return true;
      }
    }
    batch.swap(queue_);
    if (!batch.empty()) committing_since_ = batch.front().since;
    return !batch.empty();
  }

  void CommitBatch(std::vector<Waiting> batch) {
    std::vector<Row> rows;
    rows.reserve(batch.size());
    for (Waiting& waiting : batch) rows.push_back(std::move(waiting.row));
    const absl::Status status = database_.Commit(rows);
    for (size_t i = 0; status.ok() && i < rows.size(); ++i) {
      compaction_.Add(std::move(batch[i].digest), BytesOf(rows[i]));
      added_bytes_ += BytesOf(rows[i]);
    }
    {
      MutexLock lock(mutex_);
      committing_since_.reset();
    }
    for (Waiting& waiting : batch) waiting.done(status);
    NoteOutcome(status);
  }

  // Keeps up with what is added, however fast that is.
  void CompactSome() {
    const absl::Status status = compaction_.Pass(
        database_, std::max(kPassBytes, 2 * std::exchange(added_bytes_, 0)));
    if (!status.ok()) LogNotCompacted(status);
  }

  void NoteOutcome(const absl::Status& status) {
    const bool was_failing = std::exchange(is_failing_, !status.ok());
    if (was_failing && status.ok() && options_.on_works_again) {
      options_.on_works_again();
    }
  }

  const Options options_;
  const StateDirectory directory_;
  // Used by the journal thread only.
  Database database_;
  Compaction compaction_;
  int64_t added_bytes_ = 0;  // since the last pass
  bool is_failing_ = false;

  mutable Mutex mutex_;
  CondVar changed_;
  // The time since which the first record of the commit under way has waited.
  std::optional<MonotonicTime> committing_since_ GUARDED_BY(mutex_);
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  // Unbounded, but short: the core hands over decisions, not inputs, and none
  // while it knows the journal to fail.
  std::vector<Waiting> queue_ GUARDED_BY(mutex_);

  // Last: it uses all of the above.
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(Options options) {
  ASSIGN_OR_RETURN(StateDirectory directory,
                   StateDirectory::Acquire(options.state_dir));
  ASSIGN_OR_RETURN(Database database,
                   Database::Open(directory.File(kJournalFile)));
  Compaction compaction(options.max_ended_jobs);
  RETURN_IF_ERROR(AddAll(database, compaction));
  if (const absl::Status status = CompactAll(database, compaction);
      absl::IsDataLoss(status)) {
    return status;
  } else if (!status.ok()) {
    LogNotCompacted(status);
  }
  return std::unique_ptr<Journal>(new Journal(
      std::make_unique<Impl>(std::move(options), std::move(directory),
                             std::move(database), std::move(compaction))));
}

Journal::Journal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Journal::~Journal() = default;

absl::StatusOr<std::vector<JournalRecord>> Journal::Load() {
  return impl_->Load();
}

std::optional<absl::Duration> Journal::OldestWait() const {
  return impl_->OldestWait();
}

void Journal::Append(JournalRecord record,
                     std::function<void(absl::Status)> done) {
  impl_->Append(std::move(record), std::move(done));
}

}  // namespace ringmaster::coordinator
