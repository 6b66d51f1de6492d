// Runs the scenarios in testdata/ and compares what the coordinator did with
// what they say.
//
// A file is a series of blocks, between which lines that begin with # say why:
//   commands (scenario.h), a line each
//   ----
//   what the coordinator did, a line each, up to an empty line
// To accept what it does now, after having read it:
//   REWRITE_SCENARIOS=1 bazel run //server/coordinator/core:scenario_test
#include "server/coordinator/core/testing/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/coordinator/core/state/event.h"

namespace ringmaster::coordinator {
namespace {

constexpr char kDirectory[] = "server/coordinator/core/testdata";

bool IsRewriting() { return std::getenv("REWRITE_SCENARIOS") != nullptr; }

std::filesystem::path DirectoryOfFiles() {
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  return workspace == nullptr ? std::filesystem::path(kDirectory)
                              : std::filesystem::path(workspace) / kDirectory;
}

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(DirectoryOfFiles())) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Runs the file's commands; returns the file with what really happened.
std::string Replay(const std::string& text, Scenario& scenario) {
  std::istringstream in(text);
  std::string out;
  std::string did;
  for (std::string line; std::getline(in, line);) {
    absl::StrAppend(&out, line, "\n");
    if (line.empty() || line.front() == '#') continue;
    if (line != "----") {
      did += scenario.Run(line);
      continue;
    }
    absl::StrAppend(&out, did, "\n");
    did.clear();
    while (std::getline(in, line) && !line.empty()) continue;
  }
  return out;
}

// The first block in which both differ, from its commands on.
std::string FirstDifference(const std::string& expected,
                            const std::string& actual) {
  const auto [e, a] = std::mismatch(expected.begin(), expected.end(),
                                    actual.begin(), actual.end());
  const auto at = static_cast<size_t>(e - expected.begin());
  const size_t begin = expected.rfind("\n\n", at) + 2;
  const auto block = [begin](const std::string& text, size_t from) {
    const size_t end = text.find("\n\n", from);
    return text.substr(begin, end == std::string::npos ? end : end - begin);
  };
  return absl::StrCat("expected:\n", block(expected, at),
                      "\n\nactual, to paste back if it is right:\n",
                      block(actual, at), "\n");
}

// All that scenarios have covered, over the files.
Coverage CoverAll() {
  Coverage all;
  for (const std::filesystem::path& path : Files()) {
    Scenario scenario;
    Replay(ReadFile(path), scenario);
    all.insert(scenario.coverage().begin(), scenario.coverage().end());
  }
  return all;
}

class ScenarioTest : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(ScenarioTest, DoesWhatTheTextSays) {
  const std::string expected = ReadFile(GetParam());
  Scenario scenario;
  const std::string actual = Replay(expected, scenario);
  EXPECT_THAT(actual, Not(::testing::HasSubstr("\nerror:")));
  if (IsRewriting()) {
    std::ofstream(GetParam()) << actual;
    return;
  }
  EXPECT_TRUE(actual == expected) << GetParam() << "\n"
                                  << FirstDifference(expected, actual);
}

std::string NameOfFile(
    const ::testing::TestParamInfo<std::filesystem::path>& file) {
  std::string name = file.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Files, ScenarioTest, ::testing::ValuesIn(Files()),
                         NameOfFile);

const std::vector<std::string> kSituations = {
    "none",      "IDLE",    "DRAINING",    "QUEUED",    "GATHERING", "forming",
    "PREPARING", "RUNNING", "reattaching", "HALTING",   "STOPPING",  "ending",
    "SUCCEEDED", "FAILED",  "CANCELLED",   "rebuilding"};

// Pairs that cannot be, and why.
struct Impossible {
  std::vector<std::string> situations;
  std::vector<std::string> events;
  std::string why;
};
const std::vector<Impossible> kImpossible = {
    {{"QUEUED", "SUCCEEDED", "FAILED", "CANCELLED"},
     {"hello", "beat", "prepared", "halted", "suspicion", "finished", "failed",
      "leaving", "notice", "probed", "heard", "stream_closed", "cordon"},
     "no worker is a member of such a job"},
    {{"IDLE", "DRAINING"},
     {"submit", "cancel", "change_job", "set_queues", "change", "persisted",
      "persist_failed", "journal_works", "flight", "tick", "shutdown"},
     "these are about jobs, not about one worker"},
    {{"rebuilding"},
     {"cancel", "change_job"},
     "such a job is in the queue, or not known yet"},
    {{"QUEUED", "SUCCEEDED", "FAILED", "CANCELLED"},
     {"submit", "set_queues", "change", "persisted", "persist_failed",
      "journal_works", "flight", "tick", "shutdown"},
     "these are seen by the active job, which is in none of these states"},
};

bool IsImpossible(const std::string& situation, const std::string& event) {
  const auto has = [](const std::vector<std::string>& all,
                      const std::string& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  return std::any_of(
      kImpossible.begin(), kImpossible.end(), [&](const Impossible& entry) {
        return has(entry.situations, situation) && has(entry.events, event);
      });
}

TEST(ScenarioCoverageTest, EveryEventIsTriedInEverySituation) {
  const Coverage covered = CoverAll();
  std::string missing;
  for (const std::string& situation : kSituations) {
    for (size_t i = 0; i < std::variant_size_v<EventBody>; ++i) {
      const std::string event(EventTypeName(i));
      if (IsImpossible(situation, event) ||
          covered.contains({situation, event})) {
        continue;
      }
      absl::StrAppend(&missing, "  ", situation, " x ", event, "\n");
    }
  }
  EXPECT_EQ(missing, "") << "no scenario covers these pairs; add one, or say "
                            "in kImpossible why they cannot be";
}

TEST(ScenarioCoverageTest, NothingImpossibleHappens) {
  for (const auto& [situation, event] : CoverAll()) {
    EXPECT_FALSE(IsImpossible(situation, event))
        << situation << " x " << event << " did happen";
    EXPECT_THAT(kSituations, ::testing::Contains(situation));
  }
}

}  // namespace
}  // namespace ringmaster::coordinator
