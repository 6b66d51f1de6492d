#include "server/coordinator/journal/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/exit_code.h"
#include "common/sync/mutex.h"
#include "server/coordinator/journal/record_codec.h"
#include "server/coordinator/journal/testing/journal_files.h"
#include "server/coordinator/journal/testing/test_records.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Waits for things that journal threads report. Keeps codes only: Debian's
// Abseil is not instrumented, so TSan would report a Status that two threads
// share.
class Outcomes {
 public:
  std::function<void(absl::Status)> Next() {
    return [this](absl::Status status) {
      MutexLock lock(mutex_);
      codes_.push_back(status.code());
      changed_.NotifyAll();
    };
  }
  // The first `count`, once there are as many; fewer only if a minute passes.
  std::vector<absl::StatusCode> Await(size_t count) {
    const MonotonicTime deadline = Clock::Real().Now() + absl::Minutes(1);
    MutexLock lock(mutex_);
    while (codes_.size() < count) {
      if (!changed_.WaitUntil(mutex_, Clock::Real(), deadline)) break;
    }
    return codes_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<absl::StatusCode> codes_ GUARDED_BY(mutex_);
};

std::unique_ptr<Journal> OpenAt(const std::string& directory,
                                std::function<void()> on_works_again = {}) {
  Journal::Options options;
  options.state_dir = directory;
  options.on_works_again = std::move(on_works_again);
  options.probe_interval = absl::Milliseconds(5);
  absl::StatusOr<std::unique_ptr<Journal>> journal =
      Journal::Open(std::move(options));
  EXPECT_TRUE(journal.ok()) << journal.status();
  return journal.ok() ? *std::move(journal) : nullptr;
}

absl::Status OpenError(const std::string& directory) {
  Journal::Options options;
  options.state_dir = directory;
  return Journal::Open(std::move(options)).status();
}

bool IsOk(absl::StatusCode code) { return code == absl::StatusCode::kOk; }

// The generations that the journal at `directory` holds.
std::vector<int64_t> GenerationsAt(const std::string& directory) {
  const std::unique_ptr<Journal> journal = OpenAt(directory);
  std::vector<int64_t> generations;
  const absl::StatusOr<std::vector<JournalRecord>> records = journal->Load();
  EXPECT_TRUE(records.ok()) << records.status();
  if (!records.ok()) return {};
  for (const JournalRecord& record : *records) {
    generations.push_back(std::get<GenerationFormedRecord>(record).generation);
  }
  return generations;
}

void ExecuteSql(const std::string& directory, const std::string& sql) {
  sqlite3* connection = nullptr;
  const std::string path = directory + "/journal.sqlite3";
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(connection);
}

class JournalTest : public ::testing::Test {
 protected:
  ~JournalTest() override { FailPoint::DisarmAll(); }
  const std::string directory_ = FreshDirectory();
};

TEST_F(JournalTest, RecordsOutliveTheProcessInOrder) {
  {
    const std::unique_ptr<Journal> journal = OpenAt(directory_);
    for (const JournalRecord& record : OneOfEach()) {
      EXPECT_EQ(AppendAndWait(*journal, record), absl::StatusCode::kOk);
    }
  }
  const std::unique_ptr<Journal> journal = OpenAt(directory_);
  const absl::StatusOr<std::vector<JournalRecord>> records = journal->Load();
  ASSERT_TRUE(records.ok()) << records.status();
  const std::vector<JournalRecord>& expected = OneOfEach();
  EXPECT_TRUE(std::equal(records->begin(), records->end(), expected.begin(),
                         expected.end(), AreEqual));
}

TEST_F(JournalTest, DestructorCommitsWhatWasAppended) {
  Outcomes outcomes;
  {
    const std::unique_ptr<Journal> journal = OpenAt(directory_);
    for (int g = 1; g <= 50; ++g) {
      journal->Append(FormedRecord(g), outcomes.Next());
    }
  }
  EXPECT_EQ(outcomes.Await(50).size(), 50u);
  EXPECT_EQ(GenerationsAt(directory_).size(), 50u);
}

TEST_F(JournalTest, WhatWaitsDuringACommitIsCommittedTogether) {
  const std::unique_ptr<Journal> journal = OpenAt(directory_);
  FailPoint::Arm("journal.commit", FailPoint::Action::kHang);
  Outcomes outcomes;
  journal->Append(FormedRecord(1), outcomes.Next());
  while (FailPoint::HangingCount("journal.commit") == 0) {
    std::this_thread::yield();
  }
  for (int g = 2; g <= 100; ++g) {
    journal->Append(FormedRecord(g), outcomes.Next());
  }
  // Counts passes from here on.
  FailPoint::Arm("journal.commit", FailPoint::Action::kOff);
  EXPECT_EQ(outcomes.Await(100).size(), 100u);
  EXPECT_EQ(FailPoint::PassCount("journal.commit"), 1);
}

TEST_F(JournalTest, SecondCoordinatorIsTurnedAway) {
  const std::unique_ptr<Journal> journal = OpenAt(directory_);
  const absl::Status status = OpenError(directory_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("state directory ", directory_,
                                     " is in use by pid ", getpid())));
}

TEST_F(JournalTest, FailedCommitIsReportedAndLeavesNothing) {
  Outcomes works_again;
  const std::unique_ptr<Journal> journal =
      OpenAt(directory_, [&] { works_again.Next()(absl::OkStatus()); });
  FailPoint::Arm("journal.commit", FailPoint::Action::kError);
  EXPECT_EQ(AppendAndWait(*journal, FormedRecord(1)),
            absl::StatusCode::kUnavailable);
  FailPoint::Disarm("journal.commit");
  EXPECT_EQ(works_again.Await(1).size(), 1u);
  EXPECT_TRUE(IsOk(AppendAndWait(*journal, FormedRecord(2))));
  const absl::StatusOr<std::vector<JournalRecord>> records = journal->Load();
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(records->size(), 1u);
  EXPECT_TRUE(AreEqual(records->front(), FormedRecord(2)));
}

TEST_F(JournalTest, EachWayToFailIsReportedAndRecoveredFrom) {
  for (const char* point : {"journal.begin", "journal.append", "journal.write",
                            "journal.sync", "journal.commit"}) {
    SCOPED_TRACE(point);
    const std::string directory = FreshDirectory();
    Outcomes works_again;
    const std::unique_ptr<Journal> journal =
        OpenAt(directory, [&] { works_again.Next()(absl::OkStatus()); });
    EXPECT_TRUE(IsOk(AppendAndWait(*journal, FormedRecord(1))));
    FailPoint::Arm(point, FailPoint::Action::kError);
    EXPECT_EQ(AppendAndWait(*journal, FormedRecord(2)),
              absl::StatusCode::kUnavailable);
    FailPoint::DisarmAll();
    EXPECT_EQ(works_again.Await(1).size(), 1u);
    EXPECT_TRUE(IsOk(AppendAndWait(*journal, FormedRecord(3))));
    const absl::StatusOr<std::vector<JournalRecord>> records = journal->Load();
    ASSERT_TRUE(records.ok()) << records.status();
    ASSERT_EQ(records->size(), 2u);
    EXPECT_TRUE(AreEqual(records->back(), FormedRecord(3)));
  }
}

TEST_F(JournalTest, RecordIsDurableOnceItsCommitIs) {
  const std::unique_ptr<Journal> journal = OpenAt(directory_);
  FailPoint::Arm("journal.committed", FailPoint::Action::kError);
  EXPECT_TRUE(IsOk(AppendAndWait(*journal, FormedRecord(1))));
}

TEST_F(JournalTest, HangingDiskIsTold) {
  const std::unique_ptr<Journal> journal = OpenAt(directory_);
  EXPECT_EQ(journal->OldestWait(), std::nullopt);
  FailPoint::Arm("journal.sync", FailPoint::Action::kHang);
  Outcomes outcomes;
  journal->Append(FormedRecord(1), outcomes.Next());
  while (FailPoint::HangingCount("journal.sync") == 0) {
    std::this_thread::yield();
  }
  EXPECT_GT(journal->OldestWait(), absl::ZeroDuration());
  journal->Append(FormedRecord(2), outcomes.Next());
  FailPoint::DisarmAll();
  EXPECT_EQ(outcomes.Await(2).size(), 2u);
  EXPECT_EQ(journal->OldestWait(), std::nullopt);
}

TEST_F(JournalTest, FailureAtOneRecordFailsTheWholeBatch) {
  const std::unique_ptr<Journal> journal = OpenAt(directory_);
  FailPoint::Arm("journal.append", FailPoint::Action::kHang);
  Outcomes outcomes;
  journal->Append(FormedRecord(1), outcomes.Next());
  while (FailPoint::HangingCount("journal.append") == 0) {
    std::this_thread::yield();
  }
  journal->Append(FormedRecord(2), outcomes.Next());
  journal->Append(FormedRecord(3), outcomes.Next());
  // The first batch goes through; the second fails at its second record.
  FailPoint::Arm("journal.append", FailPoint::Action::kError, 2);
  const std::vector<absl::StatusCode> codes = outcomes.Await(3);
  ASSERT_EQ(codes.size(), 3u);
  EXPECT_EQ(codes[0], absl::StatusCode::kOk);
  EXPECT_EQ(codes[1], absl::StatusCode::kUnavailable);
  EXPECT_EQ(codes[2], absl::StatusCode::kUnavailable);
  const absl::StatusOr<std::vector<JournalRecord>> records = journal->Load();
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(records->size(), 1u);
}

TEST_F(JournalTest, OpenErrorIsReported) {
  FailPoint::Arm("journal.open", FailPoint::Action::kError);
  EXPECT_EQ(OpenError(directory_).code(), absl::StatusCode::kUnavailable);
}

TEST_F(JournalTest, NewerSchemaIsLeftToItsOwnCoordinator) {
  OpenAt(directory_);
  ExecuteSql(directory_,
             "PRAGMA user_version = 99; PRAGMA application_id = 0x524d4a63");
  const absl::Status status = OpenError(directory_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("schema version 99; this release knows versions up "
                        "to 3"));
}

TEST_F(JournalTest, SchemaVersionThatIsNotToldTwiceIsDamage) {
  for (const char* sql :
       {"PRAGMA user_version = 4", "PRAGMA user_version = 2",
        "PRAGMA user_version = 0", "PRAGMA user_version = -2147483645",
        "PRAGMA application_id = 0x524d4a04"}) {
    SCOPED_TRACE(sql);
    const std::string directory = FreshDirectory();
    OpenAt(directory);
    ExecuteSql(directory, sql);
    const absl::Status status = OpenError(directory);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("bytes 60 to 63 of its header"));
  }
}

TEST_F(JournalTest, TableThatIsNotOursIsDamage) {
  OpenAt(directory_);
  ExecuteSql(directory_, "ALTER TABLE decisions RENAME COLUMN spec TO spek");
  EXPECT_EQ(OpenError(directory_).code(), absl::StatusCode::kDataLoss);
}

TEST_F(JournalTest, MissingRecordIsDataLossAndNamed) {
  {
    const std::unique_ptr<Journal> journal = OpenAt(directory_);
    for (int g = 1; g <= 5; ++g) {
      ASSERT_TRUE(IsOk(AppendAndWait(*journal, FormedRecord(g))));
    }
  }
  ExecuteSql(directory_, "DELETE FROM decisions WHERE sequence = 3");
  const absl::Status status = OpenError(directory_);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("record 3 is missing: in its place is number 4"));
}

// Makes a journal as version 2 of the schema had it: numbers have gaps where records
// were dropped, and checksums leave them out.
void WriteVersion2(const std::string& directory,
                   const std::vector<int64_t>& numbers) {
  OpenAt(directory);
  std::string sql =
      "DROP TABLE decisions; CREATE TABLE decisions ("
      "sequence INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL,"
      " job_id TEXT NOT NULL, generation INTEGER NOT NULL, body BLOB NOT NULL,"
      " spec BLOB NOT NULL, checksum INTEGER NOT NULL);"
      " PRAGMA user_version = 2; PRAGMA application_id = 0;";
  for (int64_t number : numbers) {
    const Row row = Encode(FormedRecord(number));
    absl::StrAppend(&sql, "INSERT INTO decisions VALUES (", number, ", '",
                    row.type, "', '", row.job_id, "', ", row.generation, ", x'",
                    absl::BytesToHexString(row.body), "', x'', ",
                    UnnumberedChecksumOf(row), ");");
  }
  ExecuteSql(directory, sql);
}

TEST_F(JournalTest, JournalOfVersion2IsTakenOver) {
  WriteVersion2(directory_, {2, 3, 7});
  EXPECT_THAT(GenerationsAt(directory_), ElementsAre(2, 3, 7));
  EXPECT_TRUE(IsOk(AppendAndWait(*OpenAt(directory_), FormedRecord(8))));
  EXPECT_THAT(GenerationsAt(directory_), ElementsAre(2, 3, 7, 8));
}

TEST_F(JournalTest, JournalOfVersion2ThatCannotBeTakenOverStaysAsItIs) {
  WriteVersion2(directory_, {2, 3, 7});
  FailPoint::Arm("journal.commit", FailPoint::Action::kError);
  EXPECT_EQ(OpenError(directory_).code(), absl::StatusCode::kUnavailable);
  FailPoint::DisarmAll();
  EXPECT_THAT(GenerationsAt(directory_), ElementsAre(2, 3, 7));
}

TEST_F(JournalTest, DamagedRecordOfVersion2IsNotTakenOver) {
  WriteVersion2(directory_, {2, 3, 7});
  ExecuteSql(directory_, "UPDATE decisions SET type = 'x' WHERE sequence = 3");
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(std::string(OpenError(directory_).message()),
                HasSubstr("record 3: its checksum does not match"));
  }
}

TEST_F(JournalTest, FileThatIsNoDatabaseIsDataLossWithAdvice) {
  std::ofstream(directory_ + "/journal.sqlite3")
      << std::string(8192, 'x') << "\n";
  const absl::Status status = OpenError(directory_);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kCheckpointCorrupt);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(directory_ + "/journal.sqlite3 is damaged"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Restore"));
}

TEST_F(JournalTest, TornDatabaseIsDataLoss) {
  {
    const std::unique_ptr<Journal> journal = OpenAt(directory_);
    for (int g = 1; g <= 100; ++g) {
      ASSERT_TRUE(IsOk(AppendAndWait(*journal, FormedRecord(g))));
    }
  }
  const std::string path = directory_ + "/journal.sqlite3";
  ASSERT_EQ(truncate(path.c_str(), 4096 * 3 + 100), 0);
  EXPECT_EQ(OpenError(directory_).code(), absl::StatusCode::kDataLoss);
}

TEST_F(JournalTest, ChangedRecordIsDataLossAndNamed) {
  {
    const std::unique_ptr<Journal> journal = OpenAt(directory_);
    for (int g = 1; g <= 3; ++g) {
      ASSERT_TRUE(IsOk(AppendAndWait(*journal, FormedRecord(g))));
    }
  }
  ExecuteSql(directory_,
             "UPDATE decisions SET generation = 9 WHERE sequence = 2");
  const absl::Status status = OpenError(directory_);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("record 2: its checksum does not match"));
}

// Appends records 1, 2, ... in a process of its own, one commit each, until it
// is killed at `fail_point`'s `at_pass`-th pass; returns how many it saw
// acknowledged.
int64_t AcknowledgedBeforeCrash(const std::string& directory,
                                const std::string& fail_point, int at_pass) {
  int pipe_fds[2];
  EXPECT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::unique_ptr<Journal> journal = OpenAt(directory);
    FailPoint::Arm(fail_point, FailPoint::Action::kCrash, at_pass);
    for (int g = 1; g <= 20; ++g) {
      const char byte = IsOk(AppendAndWait(*journal, FormedRecord(g))) ? 1 : 0;
      if (write(pipe_fds[1], &byte, 1) != 1) _exit(3);
    }
    _exit(0);
  }
  close(pipe_fds[1]);
  int64_t acknowledged = 0;
  for (char byte = 0; read(pipe_fds[0], &byte, 1) == 1;) acknowledged += byte;
  close(pipe_fds[0]);
  int wait_status = 0;
  EXPECT_EQ(waitpid(child, &wait_status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL);
  return acknowledged;
}

TEST_F(JournalTest, KilledInMidWriteKeepsExactlyWhatWasAcknowledged) {
  for (const char* point :
       {"journal.begin", "journal.append", "journal.commit"}) {
    for (int at_pass : {1, 2, 7, 20}) {
      SCOPED_TRACE(absl::StrCat(point, "@", at_pass));
      const std::string directory = FreshDirectory();
      const int64_t acknowledged =
          AcknowledgedBeforeCrash(directory, point, at_pass);
      EXPECT_EQ(acknowledged, at_pass - 1);
      const std::vector<int64_t> generations = GenerationsAt(directory);
      ASSERT_EQ(generations.size(), static_cast<size_t>(acknowledged));
      for (int64_t i = 0; i < acknowledged; ++i) {
        EXPECT_EQ(generations[i], i + 1);
      }
    }
  }
}

// Fills a "disk" of limited size in a process of its own, then makes room.
// Returns 0 if the journal reported the failure, recovered and went on.
int FillDiskAndRecover(const std::string& directory) {
  signal(SIGXFSZ, SIG_IGN);
  Outcomes works_again;
  const std::unique_ptr<Journal> journal =
      OpenAt(directory, [&] { works_again.Next()(absl::OkStatus()); });
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{1 << 20, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  JobCreatedRecord big;
  big.id = "j-1";
  big.spec = std::string(300'000, 's');
  int written = 0;
  while (IsOk(AppendAndWait(*journal, big))) {
    if (++written == 100) return 1;
  }
  if (AppendAndWait(*journal, big) != absl::StatusCode::kUnavailable) {
    return 2;
  }
  setrlimit(RLIMIT_FSIZE, &limit);
  if (works_again.Await(1).empty()) return 3;
  if (!IsOk(AppendAndWait(*journal, big))) return 4;
  const absl::StatusOr<std::vector<JournalRecord>> records = journal->Load();
  if (!records.ok()) return 5;
  return records->size() == static_cast<size_t>(written) + 1 ? 0 : 6;
}

TEST_F(JournalTest, FullDiskIsReportedAndRecoveredFrom) {
  const pid_t child = fork();
  if (child == 0) _exit(FillDiskAndRecover(directory_));
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFEXITED(wait_status));
  EXPECT_EQ(WEXITSTATUS(wait_status), 0);
}

}  // namespace
}  // namespace ringmaster::coordinator
