// A journal that ends anywhere: after each record, and in the middle of what
// SQLite wrote for it. Whatever is left opens as some beginning of the history,
// or is refused with one line; and numbers never come twice. What was written and
// changed afterwards is refused (see flipped_bit_test.cc too).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "server/coordinator/core/core.h"
#include "server/coordinator/journal/database.h"
#include "server/coordinator/journal/journal.h"
#include "server/coordinator/journal/record_codec.h"
#include "server/coordinator/journal/testing/journal_files.h"
#include "server/coordinator/journal/testing/test_records.h"

namespace ringmaster::coordinator {
namespace {

namespace fs = std::filesystem;

MemberIdentity MemberOf(const std::string& worker, int rank) {
  MemberIdentity member;
  member.rank = rank;
  member.local_rank = rank;
  member.worker = worker;
  member.incarnation = 100 + static_cast<uint64_t>(worker[0]);
  member.host = "h";
  member.host_key = "h";
  member.data_address = "h:1";
  return member;
}

JobCreatedRecord Created(int64_t number) {
  JobCreatedRecord record;
  record.number = number;
  record.id = absl::StrCat("j-", number);
  record.name = "j";
  record.spec = std::string(200, 's');
  record.max_workers = 2;
  record.settle = absl::Seconds(1);
  record.total_steps = 100;
  return record;
}

GenerationFormedRecord Formed(int64_t generation, int64_t job,
                              const std::vector<std::string>& workers,
                              int64_t resume_step) {
  GenerationFormedRecord record;
  record.generation = generation;
  record.job_id = absl::StrCat("j-", job);
  record.resume_step = resume_step;
  for (const std::string& worker : workers) {
    record.members.push_back(
        MemberOf(worker, static_cast<int>(record.members.size())));
  }
  return record;
}

VerdictReachedRecord Lost(int64_t job, int64_t generation,
                          const std::string& worker, int rank, int64_t step) {
  v1::Verdict verdict;
  verdict.set_worker(worker);
  verdict.set_rank(rank);
  verdict.set_generation(generation);
  verdict.set_step(step);
  verdict.set_summary(absl::StrCat("worker ", worker, " (rank ", rank,
                                   ", host h, pid 4711) was lost at step ",
                                   step, ": connection lost"));
  // As many as a generation of a few dozen ranks has, each of which saw the
  // fault.
  for (int observer = 0; observer < 24; ++observer) {
    v1::Evidence& evidence = *verdict.add_evidence();
    evidence.set_kind(v1::EVIDENCE_KIND_PEER_REPORT);
    evidence.set_observer(absl::StrCat("worker-", observer));
    evidence.set_detail("its connection was reset by the peer");
  }
  return {absl::StrCat("j-", job), verdict};
}

JobEndedRecord Ended(int64_t job, v1::JobState state) {
  JobEndedRecord record;
  record.job_id = absl::StrCat("j-", job);
  record.state = state;
  record.message = "over";
  return record;
}

// Jobs that succeed, fail, are cancelled while they run and while they wait;
// workers that are lost, one and all; and a job that runs on.
std::vector<JournalRecord> History() {
  GenerationFormedRecord rollback = Formed(7, 3, {"d", "e"}, 0);
  return {
      Created(1),
      Formed(1, 1, {"a", "b"}, 0),
      Created(2),
      Lost(1, 1, "b", 1, 10),
      Formed(2, 1, {"a", "c"}, 10),
      CancelRequestedRecord{"j-2", "not needed", absl::UnixEpoch()},
      Ended(2, v1::JOB_STATE_CANCELLED),
      Lost(1, 2, "a", 0, 20),
      Formed(4, 1, {"c"}, 20),
      Ended(1, v1::JOB_STATE_SUCCEEDED),
      Created(3),
      Formed(5, 3, {"c", "d"}, 0),
      Lost(3, 5, "c", 0, 30),
      Lost(3, 5, "d", 1, 30),
      rollback,
      Created(4),
      Ended(3, v1::JOB_STATE_FAILED),
      Formed(9, 4, {"a", "b"}, 0),
      Lost(4, 9, "b", 1, 5),
      Formed(10, 4, {"a"}, 5),
      CancelRequestedRecord{"j-4", "enough", absl::UnixEpoch()},
      Ended(4, v1::JOB_STATE_CANCELLED),
      Created(5),
      Formed(12, 5, {"a", "b"}, 0),
      Formed(13, 5, {"a", "b"}, 40),
  };
}

bool IsPrefix(const std::vector<JournalRecord>& part,
              const std::vector<JournalRecord>& whole) {
  return part.size() <= whole.size() &&
         std::equal(part.begin(), part.end(), whole.begin(), AreEqual);
}

int64_t HighestGeneration(const std::vector<JournalRecord>& records) {
  int64_t highest = 0;
  for (const JournalRecord& record : records) {
    if (const auto* formed = std::get_if<GenerationFormedRecord>(&record)) {
      highest = std::max(highest, formed->generation);
    }
  }
  return highest;
}

// ---- Cut between records, and what the core makes of it.

// A core that was started from a journal, and whose decisions are all durable.
class Restarted {
 public:
  explicit Restarted(std::vector<JournalRecord> records)
      : records_(std::move(records)),
        core_(*CoordinatorCore::Recover(Config(), records_)) {
    Feed(Tick{});
  }

  void Feed(const Event& event) {
    for (const Action& action : core_.Step(event, now_)) {
      if (const auto* persist = std::get_if<Persist>(&action)) {
        records_.push_back(persist->record);
        tokens_.push_back(persist->token);
      } else if (const auto* release = std::get_if<SendRelease>(&action)) {
        releases_.push_back(*release);
      } else if (const auto* assignment =
                     std::get_if<SendAssignment>(&action)) {
        assigned_.push_back(assignment->generation);
      }
    }
    for (PersistToken token : std::exchange(tokens_, {})) {
      Feed(Persisted{token});
    }
  }

  // A worker joins that the coordinator does not know and that is in
  // `generation`.
  void Join(const std::string& name, int64_t generation) {
    HelloReceived hello;
    hello.session = ++last_session_;
    hello.name = name;
    hello.incarnation = 1000 + last_session_;
    hello.host = "h";
    hello.host_key = "h";
    hello.data_address = "h:1";
    hello.generation = generation;
    Feed(hello);
  }

  // Lets time pass; all sessions stay alive.
  void Pass(absl::Duration duration) {
    const MonotonicTime until = now_ + duration;
    while (now_ < until) {
      now_ = now_ + absl::Milliseconds(200);
      for (SessionId session = 1; session <= last_session_; ++session) {
        Feed(HeardFrom{session});
      }
      Feed(Tick{});
    }
  }

  const State& state() const { return core_.state(); }
  const std::vector<JournalRecord>& records() const { return records_; }
  const std::vector<SendRelease>& releases() const { return releases_; }
  const std::vector<int64_t>& assigned() const { return assigned_; }

 private:
  std::vector<JournalRecord> records_;
  CoordinatorCore core_;
  MonotonicTime now_ = MonotonicTime() + absl::Hours(1);
  SessionId last_session_ = 0;
  std::vector<PersistToken> tokens_;
  std::vector<SendRelease> releases_;
  std::vector<int64_t> assigned_;
};

std::vector<JournalRecord> FirstRecords(size_t count) {
  std::vector<JournalRecord> records = History();
  records.resize(count);
  return records;
}

TEST(JournalCutTest, EveryBeginningOfAHistoryIsAState) {
  const size_t count = History().size();
  for (size_t cut = 0; cut <= count; ++cut) {
    SCOPED_TRACE(absl::StrCat("after record ", cut));
    const std::vector<JournalRecord> records = FirstRecords(cut);
    const absl::StatusOr<CoordinatorCore> core =
        CoordinatorCore::Recover(Config(), records);
    ASSERT_TRUE(core.ok()) << core.status();
    EXPECT_EQ(core->state().last_generation, HighestGeneration(records));
  }
}

TEST(JournalCutTest, WorkersFromALaterGenerationAreFencedAndItIsNotGivenAgain) {
  // The journal has lost what the workers have seen: it is an earlier copy, or
  // the disk lied.
  constexpr int64_t kSeen = 50;
  const size_t count = History().size();
  for (size_t cut = 0; cut <= count; ++cut) {
    SCOPED_TRACE(absl::StrCat("after record ", cut));
    Restarted coordinator(FirstRecords(cut));
    coordinator.Join("x", kSeen);
    coordinator.Join("y", kSeen - 1);
    ASSERT_GE(coordinator.releases().size(), 2u);
    EXPECT_EQ(coordinator.releases()[0].generation, kSeen);
    EXPECT_EQ(coordinator.releases()[1].generation, kSeen - 1);
    SubmitRequested submit;
    submit.request = 1;
    submit.name = "next";
    submit.total_steps = 10;
    coordinator.Feed(submit);
    // Before that it waits for members that may hold steps (Config::state_wait).
    coordinator.Pass(absl::Minutes(15));
    ASSERT_FALSE(coordinator.assigned().empty());
    EXPECT_TRUE(std::is_sorted(coordinator.assigned().begin(),
                               coordinator.assigned().end()));
    EXPECT_GT(coordinator.assigned().front(), kSeen);
    // The journal that is continued from there can be read again.
    const Restarted again(coordinator.records());
    EXPECT_EQ(again.state().last_generation,
              HighestGeneration(coordinator.records()));
  }
}

// ---- Cut inside what SQLite wrote.

// The two files of a journal; the third is only an index of the log.
struct Files {
  std::string database;
  std::string log;
};

// Returns the files of a journal with the history: as a crash leaves them, all
// in the log, or after an orderly end, when SQLite has carried the log over.
Files FilesOfHistory(bool is_crashed) {
  const std::string directory = FreshDirectory();
  const std::string path = directory + "/journal.sqlite3";
  Files files;
  {
    std::unique_ptr<Journal> journal = *Journal::Open({.state_dir = directory});
    for (const JournalRecord& record : History()) {
      EXPECT_EQ(AppendAndWait(*journal, record), absl::StatusCode::kOk);
    }
    files = {ReadFile(path), ReadFile(path + "-wal")};
  }
  if (!is_crashed) files = {ReadFile(path), ""};
  fs::remove_all(directory);
  return files;
}

// Returns what the journal at `directory` holds, before anything is dropped.
absl::StatusOr<std::vector<JournalRecord>> ReadRecords(
    const std::string& directory) {
  ASSIGN_OR_RETURN(Database database,
                   Database::Open(directory + "/journal.sqlite3"));
  std::vector<JournalRecord> records;
  RETURN_IF_ERROR(
      database.ForEachRow([&](int64_t, const Row& row) -> absl::Status {
        ASSIGN_OR_RETURN(JournalRecord record, Decode(row));
        records.push_back(std::move(record));
        return absl::OkStatus();
      }));
  return records;
}

// The core that a coordinator starts with.
absl::StatusOr<CoordinatorCore> Start(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Journal> journal,
                   Journal::Open({.state_dir = directory}));
  ASSIGN_OR_RETURN(const std::vector<JournalRecord> records, journal->Load());
  return CoordinatorCore::Recover(Config(), records);
}

// Returns how many records a coordinator that finds `files` goes on from;
// nullopt if it refuses. Fails the test if those are no beginning of the
// history, or if the refusal does not say in one line what is wrong.
std::optional<size_t> OpenWith(const Files& files) {
  const std::string directory = FreshDirectory();
  WriteFile(directory + "/journal.sqlite3", files.database);
  if (!files.log.empty()) {
    WriteFile(directory + "/journal.sqlite3-wal", files.log);
  }
  const absl::StatusOr<std::vector<JournalRecord>> records =
      ReadRecords(directory);
  const absl::StatusOr<CoordinatorCore> core = Start(directory);
  fs::remove_all(directory);
  EXPECT_EQ(core.ok(), records.ok()) << core.status() << records.status();
  if (records.ok() && core.ok()) {
    EXPECT_TRUE(IsPrefix(*records, History()));
    EXPECT_EQ(core->state().last_generation, HighestGeneration(*records));
    return records->size();
  }
  const std::string message(core.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_THAT(message, ::testing::HasSubstr("journal.sqlite3"));
  EXPECT_TRUE(ExitCodeOf(core.status()) == ExitCode::kCheckpointCorrupt ||
              ExitCodeOf(core.status()) == ExitCode::kUsage)
      << message;
  return std::nullopt;
}

// SQLite's log: https://sqlite.org/fileformat2.html#the_write_ahead_log
constexpr size_t kLogHeader = 32;
constexpr size_t kFrame = 24 + 4096;

TEST(JournalCutTest, LogThatEndsAnywhereGivesABeginning) {
  const Files whole = FilesOfHistory(/*is_crashed=*/true);
  ASSERT_GT(whole.log.size(), kLogHeader + History().size() * kFrame);
  ASSERT_EQ((whole.log.size() - kLogHeader) % kFrame, 0u);
  size_t before = 0;
  for (size_t frame = kLogHeader; frame <= whole.log.size(); frame += kFrame) {
    // At the frame's beginning, and in its page.
    for (size_t inside : {size_t{0}, size_t{24 + 2000}}) {
      if (frame + inside > whole.log.size()) continue;
      SCOPED_TRACE(absl::StrCat("log of ", frame + inside, " bytes"));
      const std::optional<size_t> count =
          OpenWith({whole.database, whole.log.substr(0, frame + inside)});
      ASSERT_TRUE(count.has_value());
      // A longer part of the log never holds fewer records.
      EXPECT_GE(*count, before);
      EXPECT_LE(*count, before + 1);
      before = *count;
    }
  }
  EXPECT_EQ(before, History().size());
}

TEST(JournalCutTest, LastCommitThatWasNotWrittenAltogetherIsNoCommit) {
  // A disk that loses power may have written any of its sectors.
  constexpr size_t kSector = 512;
  const Files whole = FilesOfHistory(/*is_crashed=*/true);
  const size_t last = whole.log.size() - kFrame;
  for (size_t at = last; at < whole.log.size(); at += kSector) {
    SCOPED_TRACE(
        absl::StrCat("without byte ", at - last, " of the last frame"));
    Files files = whole;
    const size_t size = std::min(kSector, whole.log.size() - at);
    // A page's unused sectors are as they should be without being written.
    if (files.log.find_first_not_of('\0', at) >= at + size) continue;
    files.log.replace(at, size, size, '\0');
    EXPECT_EQ(OpenWith(files), History().size() - 1);
  }
}

TEST(JournalCutTest, FlippedBitInTheLastCommitIsRefused) {
  const Files whole = FilesOfHistory(/*is_crashed=*/true);
  const size_t last = whole.log.size() - kFrame;
  for (size_t at = last; at < whole.log.size();
       at += at < last + 24 ? 5 : 211) {
    SCOPED_TRACE(absl::StrCat("byte ", at - last, " of the last frame"));
    Files files = whole;
    files.log[at] = static_cast<char>(files.log[at] ^ 0x10);
    EXPECT_EQ(OpenWith(files), std::nullopt);
  }
}

TEST(JournalCutTest, DamagedDatabaseIsWholeOrRefused) {
  const Files whole = FilesOfHistory(/*is_crashed=*/false);
  size_t refused = 0;
  for (size_t at = 0; at < whole.database.size(); at += 397) {
    SCOPED_TRACE(absl::StrCat("byte ", at));
    Files files = whole;
    files.database[at] = static_cast<char>(files.database[at] ^ 0x04);
    const std::optional<size_t> count = OpenWith(files);
    EXPECT_EQ(count.value_or(History().size()), History().size());
    if (!count.has_value()) ++refused;
  }
  EXPECT_GT(refused, 10u);
}

TEST(JournalCutTest, DatabaseThatEndsAnywhereIsRefusedOrEmpty) {
  const Files whole = FilesOfHistory(/*is_crashed=*/false);
  EXPECT_EQ(OpenWith(whole), History().size());
  for (size_t size = 0; size < whole.database.size(); size += 1024) {
    SCOPED_TRACE(absl::StrCat("database of ", size, " bytes"));
    const std::optional<size_t> count =
        OpenWith({whole.database.substr(0, size), ""});
    EXPECT_EQ(count, size == 0 ? std::optional<size_t>(0) : std::nullopt);
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
