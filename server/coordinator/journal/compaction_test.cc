// Tests what a journal drops as it is opened and while it is in use, what it keeps,
// and that a crash in between changes nothing.
#include "server/coordinator/journal/compaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/fail_point/fail_point.h"
#include "server/coordinator/core/core.h"
#include "server/coordinator/core/testing/action_text.h"
#include "server/coordinator/journal/database.h"
#include "server/coordinator/journal/journal.h"
#include "server/coordinator/journal/journal_dump.h"
#include "server/coordinator/journal/record_codec.h"
#include "server/coordinator/journal/testing/journal_files.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string JobName(int64_t number) { return absl::StrCat("j-", number); }

JobCreatedRecord Created(int64_t number) {
  JobCreatedRecord record;
  record.number = number;
  record.id = JobName(number);
  record.name = "j";
  record.spec = std::string(300, 's');
  record.time = absl::FromUnixSeconds(number);
  return record;
}

GenerationFormedRecord Formed(int64_t generation, int64_t job,
                              int64_t resume_step = 0) {
  MemberIdentity member;
  member.worker = "w";
  member.incarnation = 7;
  return {.generation = generation,
          .job_id = JobName(job),
          .members = {member},
          .resume_step = resume_step,
          .time = absl::FromUnixSeconds(1000 + generation)};
}

JobEndedRecord Ended(int64_t job) {
  JobEndedRecord record;
  record.job_id = JobName(job);
  record.state = v1::JOB_STATE_SUCCEEDED;
  record.time = absl::FromUnixSeconds(2000 + job);
  return record;
}

v1::Verdict OnGeneration(int64_t generation) {
  v1::Verdict verdict;
  verdict.set_worker("w");
  verdict.set_rank(0);
  verdict.set_generation(generation);
  return verdict;
}

std::unique_ptr<Journal> OpenAt(const std::string& directory,
                                int max_ended_jobs) {
  absl::StatusOr<std::unique_ptr<Journal>> journal =
      Journal::Open({.state_dir = directory, .max_ended_jobs = max_ended_jobs});
  EXPECT_TRUE(journal.ok()) << journal.status();
  return journal.ok() ? *std::move(journal) : nullptr;
}

// Leaves a journal of `records`.
void Write(const std::string& directory,
           const std::vector<JournalRecord>& records) {
  const std::unique_ptr<Journal> journal = OpenAt(directory, 1'000'000);
  for (const JournalRecord& record : records) {
    journal->Append(record, [](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
    });
  }
}

std::vector<JournalRecord> OpenAndLoad(const std::string& directory,
                                       int max_ended_jobs) {
  absl::StatusOr<std::vector<JournalRecord>> records =
      OpenAt(directory, max_ended_jobs)->Load();
  EXPECT_TRUE(records.ok()) << records.status();
  return records.ok() ? *std::move(records) : std::vector<JournalRecord>();
}

// "created 3", "formed 7 j-3", ...
std::vector<std::string> Texts(const std::vector<JournalRecord>& records) {
  std::vector<std::string> texts;
  for (const JournalRecord& record : records) {
    const auto* const formed = std::get_if<GenerationFormedRecord>(&record);
    const std::string_view type = TypeOf(record);
    texts.push_back(absl::StrCat(
        absl::string_view(type.data(), type.size()), " ", JobIdOf(record),
        formed == nullptr ? "" : absl::StrCat(" ", formed->generation)));
  }
  return texts;
}

State Recovered(const std::vector<JournalRecord>& records, int max_ended_jobs) {
  Config config;
  config.max_ended_jobs = max_ended_jobs;
  const absl::StatusOr<CoordinatorCore> core =
      CoordinatorCore::Recover(config, records);
  EXPECT_TRUE(core.ok()) << core.status();
  return core.ok() ? core->state() : State();
}

class CompactionTest : public ::testing::Test {
 protected:
  ~CompactionTest() override { FailPoint::DisarmAll(); }
  const std::string directory_ = FreshDirectory();
};

TEST_F(CompactionTest, OldEndedJobsGoInOrderOfTheirEnd) {
  // Job 3, cancelled in the queue, ends first.
  Write(directory_,
        {Created(1), Formed(1, 1), Created(2), Created(3), Ended(3), Ended(1),
         Formed(2, 2), Ended(2), Created(4), Formed(3, 4), Created(5)});
  EXPECT_THAT(Texts(OpenAndLoad(directory_, 1)),
              ElementsAre("job_created j-2", "generation_formed j-2 2",
                          "job_ended j-2", "job_created j-4",
                          "generation_formed j-4 3", "job_created j-5"));
}

TEST_F(CompactionTest, EndedJobKeepsItsFirstAndLastGeneration) {
  const std::vector<JournalRecord> records = {
      Created(1),
      Formed(3, 1),
      VerdictReachedRecord{JobName(1), OnGeneration(3)},
      Formed(4, 1, 10),
      VerdictReachedRecord{JobName(1), OnGeneration(4)},
      Formed(6, 1, 20),
      Formed(8, 1, 30),
      Ended(1),
      Created(2),
      Formed(9, 2),
      Formed(10, 2)};
  Write(directory_, records);
  const std::vector<JournalRecord> kept = OpenAndLoad(directory_, 100);
  EXPECT_THAT(
      Texts(kept),
      ElementsAre("job_created j-1", "generation_formed j-1 3",
                  "generation_formed j-1 8", "job_ended j-1", "job_created j-2",
                  "generation_formed j-2 9", "generation_formed j-2 10"));
  // The visible state is the same.
  const State before = Recovered(records, 100);
  const State after = Recovered(kept, 100);
  const Job& was = *before.FindJob("j-1");
  const Job& is = *after.FindJob("j-1");
  EXPECT_EQ(is.start_time, was.start_time);
  EXPECT_EQ(is.generation, was.generation);
  EXPECT_EQ(is.first_generation, was.first_generation);
  EXPECT_EQ(is.resume_step, was.resume_step);
  EXPECT_EQ(is.best_step, was.best_step);
  EXPECT_EQ(after.FindJob("j-2")->state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(after.last_generation, 10);
}

TEST_F(CompactionTest, CountingGoesOnFromJobsThatAreLongOver) {
  // The last job to run, and the last to be created, end before a hundred
  // others that were cancelled in the queue.
  std::vector<JournalRecord> records;
  for (int64_t number = 1; number <= 52; ++number) {
    records.emplace_back(Created(number));
  }
  records.emplace_back(Formed(41, 1));
  records.emplace_back(Formed(42, 1));
  records.emplace_back(Ended(1));
  records.emplace_back(Ended(52));
  for (int64_t number = 2; number <= 51; ++number) {
    records.emplace_back(Ended(number));
  }
  Write(directory_, records);
  const std::vector<JournalRecord> kept = OpenAndLoad(directory_, 3);
  EXPECT_EQ(Texts(kept).size(), 4u + 2u + 3 * 2u);
  const State state = Recovered(kept, 3);
  EXPECT_EQ(state.last_generation, 42);
  EXPECT_EQ(state.last_job_number, 52);
  // Jobs that are long over are not in the state, and compacting again changes
  // nothing.
  EXPECT_EQ(state.jobs.size(), 3u);
  EXPECT_EQ(Texts(OpenAndLoad(directory_, 3)), Texts(kept));
}

TEST_F(CompactionTest, TenThousandJobsLeaveASmallFile) {
  std::vector<JournalRecord> records;
  for (int64_t number = 1; number <= 10'000; ++number) {
    records.emplace_back(Created(number));
    records.emplace_back(Formed(2 * number - 1, number));
    records.emplace_back(Formed(2 * number, number));
    records.emplace_back(Ended(number));
  }
  Write(directory_, records);
  const std::string path = directory_ + "/journal.sqlite3";
  EXPECT_GT(std::filesystem::file_size(path), 5u << 20);
  const std::unique_ptr<Journal> journal = OpenAt(directory_, 100);
  const uintmax_t limit = 512 << 10;
  EXPECT_LT(std::filesystem::file_size(path), limit);
  EXPECT_LT(std::filesystem::file_size(path + "-wal"), limit);
  const absl::StatusOr<std::vector<JournalRecord>> kept = journal->Load();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->size(), 400u);
  const State state = Recovered(*kept, 100);
  EXPECT_EQ(state.last_generation, 20'000);
  EXPECT_EQ(state.last_job_number, 10'000);
}

// Opens the journal in a process of its own, which is killed at `fail_point`.
void CrashWhileOpening(const std::string& directory,
                       const std::string& fail_point) {
  const pid_t child = fork();
  if (child == 0) {
    FailPoint::Arm(fail_point, FailPoint::Action::kCrash);
    OpenAt(directory, 2);
    _exit(0);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(wait_status)) << fail_point;
}

TEST_F(CompactionTest, CrashWhileCompactingLeavesAllOrWhatStays) {
  std::vector<JournalRecord> records;
  for (int64_t number = 1; number <= 300; ++number) {
    records.emplace_back(Created(number));
    records.emplace_back(Formed(number, number));
    records.emplace_back(Ended(number));
  }
  for (const char* point :
       {"journal.begin", "journal.compact", "journal.commit", "journal.write",
        "journal.sync", "journal.committed", "journal.shrink",
        "journal.truncate"}) {
    SCOPED_TRACE(point);
    const std::string directory = FreshDirectory();
    Write(directory, records);
    CrashWhileOpening(directory, point);
    // There is room for all records, so this opening drops nothing itself.
    const size_t left = OpenAndLoad(directory, 1'000'000).size();
    EXPECT_TRUE(left == records.size() || left == 6u) << left;
    EXPECT_EQ(OpenAndLoad(directory, 2).size(), 6u);
    EXPECT_EQ(Recovered(OpenAndLoad(directory, 2), 2).last_generation, 300);
  }
}

// Jobs of two generations each, one after another; each record is unlike any other.
std::vector<JournalRecord> LongHistory(int64_t jobs) {
  std::vector<JournalRecord> records;
  for (int64_t number = 1; number <= jobs; ++number) {
    records.emplace_back(Created(number));
    records.emplace_back(Formed(2 * number - 1, number));
    records.emplace_back(
        VerdictReachedRecord{JobName(number), OnGeneration(2 * number - 1)});
    records.emplace_back(Formed(2 * number, number, number % 7));
    records.emplace_back(Ended(number));
  }
  return records;
}

std::string StateText(const std::vector<JournalRecord>& records) {
  const State state = Recovered(records, 2);
  return absl::StrCat(ToText(state), state.last_generation, " ",
                      state.last_job_number);
}

TEST_F(CompactionTest, EachPassLeavesTheSameState) {
  const std::vector<JournalRecord> history = LongHistory(20);
  absl::StatusOr<Database> database =
      Database::Open(FreshDirectory() + "/journal.sqlite3");
  ASSERT_TRUE(database.ok()) << database.status();
  Compaction compaction(2);
  const auto add = [&](const JournalRecord& record) {
    ASSERT_EQ(database->Commit({Encode(record)}), absl::OkStatus());
    compaction.Add(DigestOf(record), 1);
  };
  std::vector<JournalRecord> all(history.begin(), history.end() - 5);
  for (const JournalRecord& record : all) add(record);
  int passes = 0;
  do {
    ASSERT_EQ(compaction.Pass(*database, 1), absl::OkStatus());
    std::vector<JournalRecord> left;
    ASSERT_EQ(database->ForEachRow([&](int64_t, const Row& row) {
      left.push_back(*Decode(row));
      return absl::OkStatus();
    }),
              absl::OkStatus());
    ASSERT_EQ(StateText(left), StateText(all)) << "pass " << passes;
    ASSERT_EQ(static_cast<int64_t>(left.size()), compaction.records());
    // Others come meanwhile.
    if (++passes % 16 == 0 && all.size() < history.size()) {
      all.push_back(history[all.size()]);
      add(all.back());
    }
  } while (compaction.IsDue());
  EXPECT_LT(compaction.records(), 20);
  EXPECT_GT(passes, 20);
}

TEST_F(CompactionTest, APassThatFailsChangesNothing) {
  const std::vector<JournalRecord> history = LongHistory(20);
  absl::StatusOr<Database> database =
      Database::Open(FreshDirectory() + "/journal.sqlite3");
  ASSERT_TRUE(database.ok()) << database.status();
  Compaction compaction(2);
  for (const JournalRecord& record : history) {
    ASSERT_EQ(database->Commit({Encode(record)}), absl::OkStatus());
    compaction.Add(DigestOf(record), 1);
  }
  FailPoint::Arm("journal.compact", FailPoint::Action::kError);
  EXPECT_FALSE(compaction.Pass(*database, 1).ok());
  EXPECT_FALSE(compaction.IsDue());
  FailPoint::DisarmAll();
  EXPECT_EQ(compaction.Pass(*database, 1 << 20), absl::OkStatus());
  EXPECT_FALSE(compaction.IsDue());
}

TEST_F(CompactionTest, AJournalInUseStaysSmall) {
  std::vector<JournalRecord> all = LongHistory(1000);
  const std::unique_ptr<Journal> journal = OpenAt(directory_, 2);
  for (const JournalRecord& record : all) {
    journal->Append(record, [](const absl::Status&) {});
  }
  // All of that came at once. The passes catch up with it, one a commit at least.
  absl::StatusOr<std::vector<JournalRecord>> left;
  int64_t number = 1001;
  do {
    all.emplace_back(Created(number));
    ASSERT_EQ(AppendAndWait(*journal, Created(number)), absl::StatusCode::kOk);
    left = journal->Load();
    ASSERT_TRUE(left.ok()) << left.status();
    ASSERT_EQ(StateText(*left), StateText(all));
  } while (left->size() > 300 && ++number < 1200);
  EXPECT_LE(left->size(), 300u);
}

TEST_F(CompactionTest, CrashOfAJournalInUseLeavesTheStateOfABeginning) {
  const std::vector<JournalRecord> history = LongHistory(120);
  for (const char* point :
       {"journal.compact", "journal.commit", "journal.write", "journal.sync",
        "journal.committed"}) {
    SCOPED_TRACE(point);
    const std::string directory = FreshDirectory();
    const pid_t child = fork();
    if (child == 0) {
      const std::unique_ptr<Journal> journal = OpenAt(directory, 2);
      const bool is_of_pass = std::string_view(point) == "journal.compact";
      for (size_t i = 0; i < history.size(); ++i) {
        // The first round begins with record 256.
        if (i == 250) {
          FailPoint::Arm(point, FailPoint::Action::kCrash,
                         /*at_pass=*/is_of_pass ? 1 : 9);
        }
        (void)AppendAndWait(*journal, history[i]);
      }
      _exit(0);
    }
    int wait_status = 0;
    ASSERT_EQ(waitpid(child, &wait_status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(wait_status));
    const std::vector<JournalRecord> left = OpenAndLoad(directory, 1'000'000);
    ASSERT_FALSE(left.empty());
    const std::vector<std::string> texts = Texts(history);
    const auto last = std::find(texts.begin(), texts.end(), Texts(left).back());
    ASSERT_NE(last, texts.end());
    EXPECT_EQ(StateText(left),
              StateText({history.begin(),
                         history.begin() + (last - texts.begin()) + 1}));
  }
}

TEST_F(CompactionTest, JournalThatCannotBeCompactedIsUsedAsItIs) {
  Write(directory_, {Created(1), Ended(1), Created(2), Ended(2), Created(3)});
  for (const char* point : {"journal.compact", "journal.sync"}) {
    SCOPED_TRACE(point);
    FailPoint::Arm(point, FailPoint::Action::kError);
    EXPECT_EQ(OpenAndLoad(directory_, 1).size(), 5u);
    FailPoint::DisarmAll();
  }
  EXPECT_EQ(OpenAndLoad(directory_, 1).size(), 3u);
}

TEST_F(CompactionTest, JournalWithADamagedRecordIsLeftAlone) {
  Write(directory_, {Created(1), Ended(1), Created(2), Ended(2), Created(3)});
  sqlite3* connection = nullptr;
  const std::string path = directory_ + "/journal.sqlite3";
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(connection,
                         "UPDATE decisions SET job_id = 'x' WHERE sequence = 2",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(connection);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(std::string(Journal::Open(
                                {.state_dir = directory_, .max_ended_jobs = 1})
                                .status()
                                .message()),
                HasSubstr("record 2: its checksum does not match"));
  }
}

TEST_F(CompactionTest, RecordsThatStayAreNumberedWithoutAGap) {
  Write(directory_, {Created(1), Created(2), Ended(1), Created(3), Ended(2),
                     Created(4), Formed(1, 4)});
  EXPECT_EQ(OpenAndLoad(directory_, 1).size(), 5u);
  // New records continue from there.
  Write(directory_, {Formed(2, 4)});
  std::ostringstream dump;
  ASSERT_EQ(DumpJournal(directory_, dump), absl::OkStatus());
  std::vector<std::string> numbers;
  for (const auto line : absl::StrSplit(dump.str(), '\n', absl::SkipEmpty())) {
    numbers.emplace_back(line.substr(0, line.find(',')));
  }
  EXPECT_THAT(numbers, ElementsAre("{\"sequence\":1", "{\"sequence\":2",
                                   "{\"sequence\":3", "{\"sequence\":4",
                                   "{\"sequence\":5", "{\"sequence\":6"));
}

}  // namespace
}  // namespace ringmaster::coordinator
