// A journal in which a bit flips between two starts, anywhere in its database or
// its log: a start has every record, or refuses and says where the damage is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "server/coordinator/journal/journal.h"
#include "server/coordinator/journal/journal_dump.h"
#include "server/coordinator/journal/testing/journal_files.h"
#include "server/coordinator/journal/testing/test_records.h"

namespace ringmaster::coordinator {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

struct Files {
  std::string database;
  std::string log;  // empty: there is none
};

Files FilesIn(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kJournalFile);
  return {ReadFile(path), ReadFile(path + "-wal")};
}

std::unique_ptr<Journal> OpenAt(const std::string& directory) {
  absl::StatusOr<std::unique_ptr<Journal>> journal =
      Journal::Open({.state_dir = directory});
  EXPECT_TRUE(journal.ok()) << journal.status();
  return *std::move(journal);
}

// Where the records are when the coordinator ends: all in the database, after an
// orderly end; else in the log, or half in each.
enum class End { kOrderly, kKilled, kKilledLater };

// All stay when a journal is opened, and they fill more than a page.
std::vector<JournalRecord> History() {
  std::vector<JournalRecord> records;
  for (int job = 1; job <= 30; ++job) {
    records.emplace_back(CancelRequestedRecord{
        absl::StrCat("j-", job), std::string(150, 'r'), absl::UnixEpoch()});
  }
  return records;
}

Files FilesOfHistory(End end) {
  const std::string directory = FreshDirectory();
  const std::vector<JournalRecord> records = History();
  const size_t half = records.size() / 2;
  std::unique_ptr<Journal> journal = OpenAt(directory);
  for (size_t i = 0; i < records.size(); ++i) {
    if (i == half && end == End::kKilledLater) {
      journal.reset();
      journal = OpenAt(directory);
    }
    EXPECT_EQ(AppendAndWait(*journal, records[i]), absl::StatusCode::kOk);
  }
  if (end == End::kOrderly) journal.reset();
  const Files files = FilesIn(directory);
  journal.reset();
  fs::remove_all(directory);
  return files;
}

absl::StatusOr<std::vector<JournalRecord>> Start(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Journal> journal,
                   Journal::Open({.state_dir = directory}));
  return journal->Load();
}

// Starts with `files`; returns whether it has all of `records`. Fails the test if
// it has others, or if the refusal does not say what it has to.
bool HasAll(const Files& files, const std::vector<JournalRecord>& records) {
  const std::string directory = FreshDirectory();
  const std::string path = absl::StrCat(directory, "/", kJournalFile);
  WriteFile(path, files.database);
  if (!files.log.empty()) WriteFile(path + "-wal", files.log);
  std::ostringstream dump;
  const absl::Status dumped = DumpJournal(directory, dump);
  const absl::StatusOr<std::vector<JournalRecord>> found = Start(directory);
  fs::remove_all(directory);
  if (found.ok()) {
    EXPECT_TRUE(std::equal(found->begin(), found->end(), records.begin(),
                           records.end(), AreEqual))
        << found->size() << " of " << records.size() << " records";
    EXPECT_TRUE(dumped.ok()) << dumped;
    return true;
  }
  const std::string message(found.status().message());
  EXPECT_EQ(ExitCodeOf(found.status()), ExitCode::kCheckpointCorrupt)
      << found.status();
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_THAT(message, HasSubstr(path));
  EXPECT_EQ(std::string(dumped.message()), message);
  return false;
}

// Flips the first `first` bits of the file that `file` gives, and others at random;
// returns how often the journal was refused. RINGMASTER_EVERY_BIT=1 flips every one,
// which takes minutes.
size_t CountRefused(Files files, std::string Files::*file, size_t first,
                    const std::vector<JournalRecord>& records) {
  constexpr int kSamples = 200;
  std::string& bytes = files.*file;
  if (getenv("RINGMASTER_EVERY_BIT") != nullptr) first = bytes.size() * 8;
  std::vector<size_t> bits(first);
  std::iota(bits.begin(), bits.end(), size_t{0});
  std::mt19937_64 random(20240607);
  for (int i = 0; i < kSamples; ++i) {
    bits.push_back(random() % (bytes.size() * 8));
  }
  size_t refused = 0;
  for (size_t bit : bits) {
    SCOPED_TRACE(absl::StrCat("bit ", bit % 8, " of byte ", bit / 8));
    const char mask = static_cast<char>(1 << bit % 8);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    if (!HasAll(files, records)) ++refused;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    if (::testing::Test::HasFailure()) break;
  }
  return refused;
}

constexpr size_t kHeaderBits = 100 * 8;

TEST(FlippedBitTest, FilesAsTheyWereHaveAll) {
  for (End end : {End::kOrderly, End::kKilled, End::kKilledLater}) {
    EXPECT_TRUE(HasAll(FilesOfHistory(end), History()));
  }
}

TEST(FlippedBitTest, DatabaseAfterAnOrderlyEnd) {
  const Files files = FilesOfHistory(End::kOrderly);
  ASSERT_TRUE(files.log.empty());
  EXPECT_GT(CountRefused(files, &Files::database, kHeaderBits, History()),
            400u);
}

TEST(FlippedBitTest, DatabaseWhoseLogWasLeft) {
  // Much of it is in the log too, in a newer form.
  CountRefused(FilesOfHistory(End::kKilledLater), &Files::database, 0,
               History());
}

TEST(FlippedBitTest, LogThatWasLeft) {
  for (End end : {End::kKilled, End::kKilledLater}) {
    const Files files = FilesOfHistory(end);
    ASSERT_GT(files.log.size(), 50'000u);
    EXPECT_GT(CountRefused(files, &Files::log, 80, History()), 270u);
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
