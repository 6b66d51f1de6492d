#include "worker/agent/core/agent_core.h"

#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "worker/agent/core/testing/scenario.h"

namespace ringmaster::agent {
namespace {

struct ImpossiblePair {
  const char* state;
  const char* event;
  const char* reason;
};

constexpr const char* kNoJobYet =
    "the session gives messages on only after the welcome";
constexpr const char* kNotAsked = "the trainer answers only what it was asked";
constexpr const char* kOtherAsked = "the trainer was asked something else";

// Pairs that no scenario can reach, and why. `exited` ignores everything.
constexpr ImpossiblePair kImpossible[] = {
    {"connecting", "assign", kNoJobYet},
    {"connecting", "start", kNoJobYet},
    {"connecting", "halt", kNoJobYet},
    {"connecting", "stop", kNoJobYet},
    {"connecting", "pause", kNoJobYet},
    {"connecting", "advice", kNoJobYet},
    {"connecting", "release", kNoJobYet},
    {"connecting", "trace", kNoJobYet},
    {"connecting", "log", kNoJobYet},
    {"connecting", "probe", kNoJobYet},
    {"connecting", "prepared", kNotAsked},
    {"connecting", "prepare-failed", kNotAsked},
    {"connecting", "ended", kNotAsked},
    {"idle", "prepared", kNotAsked},
    {"idle", "prepare-failed", kNotAsked},
    {"idle", "ended", kNotAsked},
    {"prepared", "prepared", kNotAsked},
    {"prepared", "prepare-failed", kNotAsked},
    {"prepared", "ended", kNotAsked},
    {"running", "prepared", kOtherAsked},
    {"running", "prepare-failed", kOtherAsked},
    {"paused", "prepared", kNotAsked},
    {"paused", "prepare-failed", kNotAsked},
    {"paused", "ended", kNotAsked},
    {"halted", "prepared", kNotAsked},
    {"halted", "prepare-failed", kNotAsked},
    {"halted", "ended", kNotAsked},
};

const std::vector<std::string> kStates = {"connecting", "idle",    "preparing",
                                          "prepared",   "running", "paused",
                                          "halting",    "halted",  "leaving"};
const std::vector<std::string> kEvents = {
    "session-up", "session-down",   "assign",  "start",  "halt",     "stop",
    "pause",      "advice",         "release", "trace",  "log",      "probe",
    "prepared",   "prepare-failed", "ended",   "notice", "advanced", "signal",
    "tick"};

ScenarioResult RunFile(const std::string& name) {
  const std::string path = "worker/agent/core/testdata/" + name;
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return RunScenarios(name, text.str());
}

TEST(AgentCoreTest, DoesWhatTheScenariosSayInEveryPairOfStateAndEvent) {
  std::set<std::pair<std::string, std::string>> covered;
  for (const char* name : {"session.txt", "generations.txt", "leaving.txt",
                           "recovery.txt", "rehearsal.txt"}) {
    const ScenarioResult result = RunFile(name);
    EXPECT_GT(result.scenario_count, 4) << name;
    for (const std::string& failure : result.failures) ADD_FAILURE() << failure;
    covered.insert(result.covered.begin(), result.covered.end());
  }
  std::set<std::pair<std::string, std::string>> impossible;
  for (const ImpossiblePair& pair : kImpossible) {
    impossible.emplace(pair.state, pair.event);
    EXPECT_FALSE(covered.contains({pair.state, pair.event}))
        << pair.state << " and " << pair.event << ": possible after all";
  }
  for (const std::string& state : kStates) {
    for (const std::string& event : kEvents) {
      EXPECT_TRUE(covered.contains({state, event}) ||
                  impossible.contains({state, event}))
          << "no scenario has the event " << event << " in the state " << state;
    }
  }
}

TEST(AgentCoreTest, ScenariosThatExpectTheWrongActionsFail) {
  const ScenarioResult result =
      RunScenarios("x", "scenario x\ntick => run g=1\nstate idle\nsays joined");
  ASSERT_EQ(result.failures.size(), 3u);
  EXPECT_EQ(result.failures[0],
            "x:2: expected: run g=1\n    got: open-session g=0");
  EXPECT_EQ(result.failures[1], "x:3: state is connecting");
}

TEST(AgentCoreTest, WaitsForNothingOnceItHasExited) {
  AgentCore core(AgentConfig{}, MonotonicTime());
  EXPECT_EQ(core.NextDeadline(), MonotonicTime());
  EXPECT_EQ(core.Handle(TerminateSignal{"SIGINT"}, MonotonicTime()).size(), 2u);
  EXPECT_EQ(core.state(), AgentState::kExited);
  EXPECT_EQ(core.NextDeadline(), MonotonicTime::InfiniteFuture());
}

TEST(AgentCoreTest, CountsItsSessions) {
  MonotonicTime now = MonotonicTime::FromNanos(1);
  AgentCore core(AgentConfig(), now);
  for (uint64_t attempt = 1; attempt <= 3; ++attempt) {
    const std::vector<Action> actions = core.Handle(Tick{}, now);
    ASSERT_EQ(actions.size(), 1u);
    EXPECT_EQ(std::get<OpenSession>(actions[0]).attempt, attempt);
    (void)core.Handle(SessionDown{}, now);
    now = core.NextDeadline();
  }
}

}  // namespace
}  // namespace ringmaster::agent
