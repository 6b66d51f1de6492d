// A program with a Supervisor whose children, the program itself, do as told:
//   supervisor_test_program KILL_AFTER[,MAX_CRASHES,DELAY] BEHAVIOUR...
// Children are started again if MAX_CRASHES and DELAY, the one before the second
// start in a row, are given. One child a BEHAVIOUR: `exit:CODE`, `wait` (for
// SIGTERM, then exit 143), `deaf` (to SIGTERM), `crash`, `kill` (itself). Each
// child prints "K PID PREDECESSOR FAIL_POINTS\n" first, "-" for what is not in
// its environment.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/fail_point/environment.h"
#include "worker/agent/rpc/worker_identity.h"
#include "worker/supervisor/signal_pipe.h"
#include "worker/supervisor/supervisor.h"

namespace {

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "-" : value;
}

int RunChild(int slot, const std::string& behaviour) {
  ringmaster::SignalPipe signals({SIGTERM, SIGINT});
  const std::string line = std::to_string(slot) + " " +
                           std::to_string(getpid()) + " " +
                           Variable(ringmaster::kPredecessorVariable) + " " +
                           Variable(ringmaster::kFailPointsVariable) + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) return 1;
  if (behaviour.rfind("exit:", 0) == 0) return std::atoi(&behaviour[5]);
  if (behaviour == "crash") std::abort();
  if (behaviour == "kill") kill(getpid(), SIGKILL);
  if (behaviour == "deaf") {
    for (;;) pause();
  }
  return signals.Next(absl::InfiniteDuration()) ? 143 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  using ringmaster::Supervisor;
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.rfind("--slot=", 0) == 0) {
    const int slot = std::atoi(&first[7]);
    return RunChild(slot, argv[3 + slot]);
  }
  ringmaster::SupervisorOptions options;
  options.arguments.assign(argv + 1, argv + argc);
  options.slot_count = argc - 2;
  options.name = "w";
  const std::vector<std::string> settings = absl::StrSplit(first, ',');
  if (!absl::ParseDuration(settings[0], &options.kill_after)) return 2;
  options.restart.reset();
  if (settings.size() == 3) {
    options.restart.emplace();
    if (!absl::SimpleAtoi(settings[1], &options.restart->max_crashes) ||
        !absl::ParseDuration(settings[2], &options.restart->delay_initial)) {
      return 2;
    }
    options.restart->delay_max = options.restart->delay_initial;
  }
  if (getenv("RINGMASTER_TEST_NO_PROGRAM") != nullptr) {
    options.program = "/nonexistent";
  }
  return static_cast<int>(Supervisor(ringmaster::Clock::Real(), options).Run());
}
