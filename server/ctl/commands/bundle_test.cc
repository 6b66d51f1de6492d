#include "server/ctl/commands/bundle.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/bundle/testing/output_of.h"
#include "server/ctl/commands/testing/ctl_test.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

class BundleTest : public CtlTest {
 protected:
  // The job x-1 has been traced; of its members w0 answers and w1 is gone.
  BundleTest() {
    fs::create_directories(directory_);
    v1::Job job;
    job.set_id("x-1");
    job.set_state(v1::JOB_STATE_RUNNING);
    coordinator_.SetJob(job);
    v1::Status status;
    status.mutable_coordinator()->set_version("ringmaster 9");
    v1::Worker& worker = *status.add_workers();
    worker.set_name("w0");
    worker.set_version("ringmaster 8");
    coordinator_.SetStatus(status);
    v1::GetTraceResponse trace;
    trace.add_ranks()->add_spans()->set_name("forward");
    trace.add_missing_workers("w1");
    coordinator_.SetTrace(trace);
    v1::ProcessLog& log = *logs_.add_logs();
    log.set_name("w0");
    log.mutable_page()->set_first_held_sequence(1);
    log.mutable_page()->add_lines()->set_event("session.joined");
    v1::ProcessLog& own = *logs_.add_logs();
    own = log;
    own.set_name("coordinator");
    own.set_rank(-1);
    own.mutable_page()->set_left_out_count(3);
    v1::MissingLog& missing = *logs_.add_missing();
    missing.set_worker("w1");
    missing.set_reason("is gone: worker w1 was lost");
    coordinator_.SetLogs(logs_);
  }
  ~BundleTest() override { fs::remove_all(directory_); }

  // One file of the archive.
  std::string Unpacked(const std::string& name) const {
    return OutputOf(
        absl::StrCat("tar -xzOf ", path_, " ringmaster-x-1/", name));
  }

  const std::string directory_ = absl::StrCat(
      ::testing::TempDir(), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string path_ = directory_ + "/x.tar.gz";
  v1::GetLogsResponse logs_;
};

TEST_F(BundleTest, PacksWhatThereIsAndSaysWhatThereIsNot) {
  const Outcome outcome = RunThere({"bundle", "x", "--out", path_});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr(absl::StrCat("wrote ", path_)));
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("note: missing: trace of w1: it sent none\n"),
                    HasSubstr("note: missing: log lines of w1: w1 is gone: "
                              "worker w1 was lost\n"),
                    HasSubstr("older log lines of coordinator: 3 lines")));
  const auto manifest = nlohmann::json::parse(Unpacked("MANIFEST.json"));
  EXPECT_EQ(manifest["job"], "x-1");
  std::vector<std::string> names;
  for (const auto& file : manifest["files"]) {
    names.push_back(file["name"]);
    EXPECT_EQ(Unpacked(names.back()).size(), file["bytes"]) << names.back();
  }
  EXPECT_THAT(names,
              IsSupersetOf({"spec.json", "job.json", "events.json",
                            "explanation.json", "status.json", "versions.json",
                            "trace.json", "description.txt",
                            "logs/rank-0-w0.log", "logs/coordinator.log"}));
  EXPECT_THAT(Unpacked("logs/rank-0-w0.log"), HasSubstr("I session.joined"));
  EXPECT_THAT(Unpacked("trace.json"), HasSubstr("forward"));
  const auto versions = nlohmann::json::parse(Unpacked("versions.json"));
  EXPECT_EQ(versions["coordinator"], "ringmaster 9");
  EXPECT_EQ(versions["workers"]["w0"], "ringmaster 8");
}

TEST_F(BundleTest, WhatCannotBeHadIsNoError) {
  coordinator_.SetTrace({});
  coordinator_.SetLogs({});
  const Outcome outcome = RunThere({"bundle", "x", "--out", path_});
  EXPECT_EQ(outcome.code, 0);
  const auto manifest = nlohmann::json::parse(Unpacked("MANIFEST.json"));
  std::string missing;
  for (const auto& part : manifest["missing"])
    absl::StrAppend(&missing, part["what"].get<std::string>(), ": ",
                    part["reason"].get<std::string>(), "\n");
  EXPECT_THAT(missing, AllOf(HasSubstr("trace of the newest steps"),
                             HasSubstr("no rank of job x-1 has recorded"),
                             HasSubstr("logs of the coordinator: "),
                             HasSubstr("logs of its members: ")));
}

TEST_F(BundleTest, KeepsAFileThatIsThereUnlessForced) {
  std::ofstream(path_) << "old";
  ExpectError(RunThere({"bundle", "x", "--out", path_}), ExitCode::kUsage,
              "is there already: give another --out, or --force");
  EXPECT_EQ(fs::file_size(path_), 3u);
  EXPECT_EQ(RunThere({"bundle", "x", "--out", path_, "--force"}).code, 0);
  EXPECT_GT(fs::file_size(path_), 3u);
}

TEST_F(BundleTest, AnUnknownJobMakesNoFile) {
  coordinator_.SetJob({});
  ExpectError(RunThere({"bundle", "y", "--out", path_}), ExitCode::kUsage,
              "no such job");
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(BundleTest, AFileThatCannotBeWrittenIsNamed) {
  ExpectError(RunThere({"bundle", "x", "--out", "/nonexistent/x.tar.gz"}),
              ExitCode::kUsage,
              "cannot write the file /nonexistent/x.tar.gz: No such file");
}

TEST_F(BundleTest, PrintsItsManifestAsJson) {
  const auto json = nlohmann::json::parse(
      RunThere({"bundle", "x", "--out", path_, "-o", "json"}).out);
  EXPECT_EQ(json["file"], path_);
  EXPECT_EQ(json["job"], "x-1");
  EXPECT_FALSE(json["files"].empty());
}

TEST_F(BundleTest, NamesOfOthersStayInTheArchive) {
  v1::ProcessLog& log = *logs_.mutable_logs(0);
  log.set_name(absl::StrCat("../../", std::string(200, 'w')));
  coordinator_.SetLogs(logs_);
  EXPECT_EQ(RunThere({"bundle", "x", "--out", path_}).code, 0);
  const auto manifest = nlohmann::json::parse(Unpacked("MANIFEST.json"));
  for (const auto& file : manifest["files"]) {
    EXPECT_THAT(file["name"].get<std::string>(), Not(HasSubstr("/..")));
    EXPECT_THAT(file["name"].get<std::string>(), Not(HasSubstr("../")));
  }
}

TEST(BundleNameTest, HasTheJobAndTheTime) {
  EXPECT_EQ(BundleName("words-1", absl::FromUnixSeconds(1'700'000'000)),
            "ringmaster-words-1-20231114T221320Z.tar.gz");
  EXPECT_EQ(BundleName("a/b", absl::UnixEpoch()),
            "ringmaster-a_b-19700101T000000Z.tar.gz");
}

}  // namespace
}  // namespace ringmaster::ctl
