#include "server/coordinator/journal/backup.h"

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/journal/journal.h"
#include "server/coordinator/journal/state_directory.h"
#include "server/coordinator/journal/testing/journal_files.h"
#include "server/coordinator/journal/testing/test_records.h"
#include "sqlite3.h"

namespace ringmaster::coordinator {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Journal> OpenAt(const std::string& directory) {
  absl::StatusOr<std::unique_ptr<Journal>> journal =
      Journal::Open({.state_dir = directory});
  EXPECT_TRUE(journal.ok()) << journal.status();
  return *std::move(journal);
}

void Execute(const std::string& path, const char* sql) {
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection, sql, nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(connection);
}

std::set<std::string> NamesIn(const std::string& directory) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    names.insert(entry.path().filename().string());
  return names;
}

class BackupTest : public ::testing::Test {
 protected:
  ~BackupTest() override {
    FailPoint::DisarmAll();
    for (const std::string& path : {state_, other_, place_})
      fs::remove_all(path);
  }

  // A state with one record of each type.
  std::unique_ptr<Journal> Fill() {
    std::unique_ptr<Journal> journal = OpenAt(state_);
    for (const JournalRecord& record : OneOfEach())
      EXPECT_EQ(AppendAndWait(*journal, record), absl::StatusCode::kOk);
    return journal;
  }

  absl::StatusOr<StateContents> BackUp(bool may_replace = false) {
    NewFile file(backup_, may_replace, kBackupMode);
    return BackUpState(state_, file);
  }
  absl::StatusOr<StateContents> Restore(bool may_replace = false) {
    NewFile file(absl::StrCat(other_, "/", kJournalFile), may_replace,
                 kBackupMode);
    return RestoreState(backup_, other_, may_replace, file);
  }

  // Checks that a coordinator finds the first `count` records of OneOfEach there.
  static void ExpectRecords(const std::string& directory, size_t count) {
    const absl::StatusOr<std::vector<JournalRecord>> records =
        OpenAt(directory)->Load();
    ASSERT_TRUE(records.ok()) << records.status();
    ASSERT_EQ(records->size(), count);
    for (size_t i = 0; i < count; ++i)
      EXPECT_TRUE(AreEqual((*records)[i], OneOfEach()[i])) << i;
  }

  const std::string state_ = FreshDirectory();
  const std::string other_ = FreshDirectory();
  const std::string place_ = FreshDirectory();
  const std::string backup_ = place_ + "/backup";
};

TEST_F(BackupTest, OfAStateInUseHasAllThatWasDurableAndIsOneFile) {
  const std::unique_ptr<Journal> journal = Fill();
  const absl::StatusOr<StateContents> made = BackUp();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->records, static_cast<int64_t>(OneOfEach().size()));
  EXPECT_EQ(made->jobs, 1);
  EXPECT_GT(made->generation, 0);
  EXPECT_EQ(made->size_bytes, static_cast<int64_t>(fs::file_size(backup_)));
  EXPECT_THAT(NamesIn(place_), ElementsAre("backup"));
  EXPECT_EQ(fs::status(backup_).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  // Nothing of it is in a log: it says that it has none.
  EXPECT_EQ(ReadFile(backup_).substr(18, 2), "\1\1");
  // The journal goes on, and the copy does not change.
  EXPECT_EQ(AppendAndWait(*journal, FormedRecord(90)), absl::StatusCode::kOk);
  const absl::StatusOr<StateContents> restored = Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(*restored, *made);
  ExpectRecords(other_, OneOfEach().size());
}

TEST_F(BackupTest, OfAStateThatNobodyUses) {
  (void)Fill();
  ASSERT_TRUE(BackUp().ok());
  ASSERT_TRUE(Restore().ok());
  ExpectRecords(other_, OneOfEach().size());
}

TEST_F(BackupTest, AFileThatIsThereStaysUnlessItMayBeReplaced) {
  (void)Fill();
  WriteFile(backup_, "old");
  EXPECT_EQ(BackUp().status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadFile(backup_), "old");
  EXPECT_TRUE(BackUp(/*may_replace=*/true).ok());
  EXPECT_TRUE(Restore().ok());
}

TEST_F(BackupTest, ItIsNotWrittenOverTheState) {
  const std::unique_ptr<Journal> journal = Fill();
  const std::string journal_file = kJournalFile;
  for (const std::string& name :
       {journal_file, journal_file + "-wal", std::string(kLockFile)}) {
    NewFile file(absl::StrCat(state_, "/./", name), /*may_replace=*/true);
    const absl::Status status = BackUpState(state_, file).status();
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage) << name;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("a file of the state itself"));
  }
  NewFile beside(absl::StrCat(state_, "/", journal_file, ".backup"),
                 /*may_replace=*/false);
  EXPECT_TRUE(BackUpState(state_, beside).ok());
}

TEST_F(BackupTest, OfNothingIsRefused) {
  const absl::Status status = BackUp().status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("no journal ", state_)));
  EXPECT_TRUE(fs::is_empty(place_));
}

TEST_F(BackupTest, OfANewerReleaseIsRefused) {
  (void)OpenAt(state_);
  Execute(absl::StrCat(state_, "/", kJournalFile),
          "PRAGMA user_version = 99; PRAGMA application_id = 0x524d4a63");
  EXPECT_THAT(std::string(BackUp().status().message()),
              HasSubstr("schema version 99"));
  EXPECT_TRUE(fs::is_empty(place_));
}

TEST_F(BackupTest, DamageIsNotCopied) {
  (void)Fill();
  ASSERT_TRUE(BackUp().ok());
  const auto damage = [](const std::string& path) {
    std::string bytes = ReadFile(path);
    const size_t at = bytes.find("request 9");
    ASSERT_NE(at, std::string::npos);
    bytes[at] ^= 1;
    WriteFile(path, bytes);
  };
  damage(absl::StrCat(state_, "/", kJournalFile));
  damage(backup_);
  fs::rename(backup_, place_ + "/damaged");
  const absl::Status backup = BackUp().status();
  EXPECT_EQ(ExitCodeOf(backup), ExitCode::kCheckpointCorrupt) << backup;
  EXPECT_THAT(std::string(backup.message()), HasSubstr("record "));
  EXPECT_THAT(NamesIn(place_), ElementsAre("damaged"));
  fs::rename(place_ + "/damaged", backup_);
  const absl::Status restored = Restore().status();
  EXPECT_EQ(ExitCodeOf(restored), ExitCode::kCheckpointCorrupt) << restored;
  EXPECT_THAT(std::string(restored.message()),
              AllOf(HasSubstr(backup_), HasSubstr("record ")));
  EXPECT_FALSE(fs::exists(absl::StrCat(other_, "/", kJournalFile)));
}

TEST_F(BackupTest, NothingIsLeftOfOneThatTheDiskRefuses) {
  (void)Fill();
  for (const char* point : {"journal.write", "journal.sync"}) {
    FailPoint::Arm(point, FailPoint::Action::kError);
    const absl::Status status = BackUp().status();
    FailPoint::DisarmAll();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << point;
    EXPECT_TRUE(fs::is_empty(place_)) << point;
  }
  ASSERT_TRUE(BackUp().ok());
}

TEST_F(BackupTest, AStateIsKeptUnlessItMayBeReplaced) {
  (void)Fill();
  ASSERT_TRUE(BackUp().ok());
  EXPECT_EQ(AppendAndWait(*OpenAt(other_), FormedRecord(7)),
            absl::StatusCode::kOk);
  // As a killed coordinator leaves it, whose log would be taken for the backup's.
  WriteFile(absl::StrCat(other_, "/", kJournalFile, "-wal"), "of the other");
  const absl::Status status = Restore().status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(other_), HasSubstr("--force")));
  EXPECT_TRUE(fs::exists(absl::StrCat(other_, "/", kJournalFile, "-wal")));
  ASSERT_TRUE(Restore(/*may_replace=*/true).ok());
  EXPECT_THAT(NamesIn(other_), ElementsAre(kJournalFile, "lock"));
  ExpectRecords(other_, OneOfEach().size());
}

TEST_F(BackupTest, AStateInUseIsNeverReplaced) {
  (void)Fill();
  ASSERT_TRUE(BackUp().ok());
  const std::unique_ptr<Journal> coordinator = OpenAt(other_);
  for (const bool may_replace : {false, true}) {
    const absl::Status status = Restore(may_replace).status();
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(other_), HasSubstr("in use by pid ")));
  }
}

TEST_F(BackupTest, ACopyWithALogOfItsOwnIsRestoredToo) {
  // As sqlite3's .backup makes it.
  const std::unique_ptr<Journal> journal = Fill();
  for (const char* suffix : {"", "-wal"}) {
    fs::copy(absl::StrCat(state_, "/", kJournalFile, suffix),
             absl::StrCat(backup_, suffix));
  }
  ASSERT_TRUE(Restore().ok());
  ExpectRecords(other_, OneOfEach().size());
}

}  // namespace
}  // namespace ringmaster::coordinator
