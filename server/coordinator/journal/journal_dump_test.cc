#include "server/coordinator/journal/journal_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/status/exit_code.h"
#include "nlohmann/json.hpp"
#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/journal/journal.h"
#include "server/coordinator/journal/testing/journal_files.h"
#include "server/coordinator/journal/testing/test_records.h"

namespace ringmaster::coordinator {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

std::unique_ptr<Journal> OpenAt(const std::string& directory) {
  Journal::Options options;
  options.state_dir = directory;
  absl::StatusOr<std::unique_ptr<Journal>> journal =
      Journal::Open(std::move(options));
  EXPECT_TRUE(journal.ok()) << journal.status();
  return journal.ok() ? *std::move(journal) : nullptr;
}

std::vector<Json> DumpOf(const std::string& directory) {
  std::ostringstream out;
  const absl::Status status = DumpJournal(directory, out);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<Json> lines;
  std::istringstream in(out.str());
  for (std::string line; std::getline(in, line);)
    lines.push_back(Json::parse(line));
  return lines;
}

TEST(JournalDumpTest, EveryRecordIsALineWhileTheJournalIsInUse) {
  const std::string directory = FreshDirectory();
  std::unique_ptr<Journal> journal = OpenAt(directory);
  for (const JournalRecord& record : OneOfEach())
    journal->Append(record, [](absl::Status) {});
  journal.reset();
  journal = OpenAt(directory);
  const std::vector<Json> lines = DumpOf(directory);
  ASSERT_EQ(lines.size(), OneOfEach().size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_TRUE(lines[i].contains(std::string(TypeOf(OneOfEach()[i]))));
    EXPECT_EQ(lines[i].at("sequence"), i + 1);
  }
}

TEST(JournalDumpTest, AJobsSpecIsReadable) {
  v1::JobSpec spec;
  spec.set_name("digits");
  JobCreatedRecord created;
  created.number = 1;
  created.id = "digits-1";
  created.spec = spec.SerializeAsString();
  const std::string directory = FreshDirectory();
  OpenAt(directory)->Append(created, [](absl::Status) {});
  const std::vector<Json> lines = DumpOf(directory);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].at("job_created").at("spec").at("name"), "digits");
}

TEST(JournalDumpTest, WithoutAJournalTheErrorSaysWhere) {
  const std::string directory = FreshDirectory();
  std::ostringstream out;
  const absl::Status status = DumpJournal(directory, out);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("there is no journal " + directory));
  EXPECT_EQ(out.str(), "");
}

TEST(JournalDumpTest, AStateDirectoryThatCannotBeIsAnError) {
  std::ostringstream out;
  const absl::Status status = DumpJournal(std::string(5000, 'x'), out);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("name too long"));
}

TEST(JournalDumpTest, ADiskThatIsFullIsAnError) {
  const std::string directory = FreshDirectory();
  OpenAt(directory)->Append(FormedRecord(1), [](absl::Status) {});
  std::ofstream full("/dev/full");
  EXPECT_EQ(DumpJournal(directory, full).code(),
            absl::StatusCode::kUnavailable);
}

TEST(JournalDumpTest, WhatIsNoJournalIsDamaged) {
  const std::string directory = FreshDirectory();
  std::ofstream(directory + "/" + kJournalFile) << std::string(8192, 'x');
  std::ostringstream out;
  const absl::Status status = DumpJournal(directory, out);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kCheckpointCorrupt) << status;
}

}  // namespace
}  // namespace ringmaster::coordinator
