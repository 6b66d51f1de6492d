// A program with a Supervisor whose children, the program itself, do as told:
//   supervisor_test_program KILL_AFTER BEHAVIOUR...
// One child a BEHAVIOUR: `exit:CODE`, `wait` (for SIGTERM, then exit 143),
// `deaf` (to SIGTERM), `crash`. Each child prints "K PID\n" first.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "worker/supervisor/signal_pipe.h"
#include "worker/supervisor/supervisor.h"

namespace {

int RunChild(int slot, const std::string& behaviour) {
  ringmaster::SignalPipe signals({SIGTERM, SIGINT});
  const std::string line =
      std::to_string(slot) + " " + std::to_string(getpid()) + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) return 1;
  if (behaviour.rfind("exit:", 0) == 0) return std::atoi(&behaviour[5]);
  if (behaviour == "crash") std::abort();
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
  if (!absl::ParseDuration(first, &options.kill_after)) return 2;
  if (getenv("RINGMASTER_TEST_NO_PROGRAM") != nullptr) {
    options.program = "/nonexistent";
  }
  return static_cast<int>(Supervisor(ringmaster::Clock::Real(), options).Run());
}
