// Scenario: runs text scenarios on an AgentCore, without clock or thread.
//
// A file holds scenarios, each a line a step; `#` starts a comment:
//   scenario A worker joins and leaves.
//   tick => open-session g=0
//   session-up => send-beat g=0
//   says joined coordinator
//   state idle
//   advance 400ms => send-beat g=0
// A line is an event with its arguments (KEY=VALUE), `=>`, and exactly the
// actions that it must cause, apart by `;`. `advance` moves the time on and
// gives the core the ticks that come due. `says TEXT` looks for TEXT in what
// the step before logged or exited with (`says nothing`: it did not); `state S`
// compares the core's state; `config` sets coordinator_timeout,
// drain_timeout, answer_timeout or name_wait. A line that begins with a blank
// continues the line before.
#ifndef RINGMASTER_WORKER_AGENT_CORE_TESTING_SCENARIO_H_
#define RINGMASTER_WORKER_AGENT_CORE_TESTING_SCENARIO_H_

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/agent/core/agent_action.h"

namespace ringmaster::agent {

struct ScenarioResult {
  // The differences from the expectation: "FILE:LINE: ...".
  std::vector<std::string> failures;
  int scenario_count = 0;
  // (state, event) pairs that were met. While the worker leaves, the pair
  // ("leaving", event) is met as well.
  std::set<std::pair<std::string, std::string>> covered;
};

// Runs the scenarios in `text`; `file` names it in failures.
[[nodiscard]] ScenarioResult RunScenarios(std::string_view file,
                                          std::string_view text);

// `action` as scenarios write it: "send-halted g=7 applied=3 complete=4".
[[nodiscard]] std::string ActionText(const Action& action);

}  // namespace ringmaster::agent

#endif  // RINGMASTER_WORKER_AGENT_CORE_TESTING_SCENARIO_H_
