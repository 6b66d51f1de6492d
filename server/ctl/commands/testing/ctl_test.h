// CtlTest: a fixture in which ringctl's command line runs in this process, against
// a coordinator whose answers the test sets.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_TESTING_CTL_TEST_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_TESTING_CTL_TEST_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ctl/client/testing/fake_coordinator.h"
#include "server/ctl/commands/command_line.h"
#include "server/ctl/terminal/console.h"
#include "server/ctl/terminal/interrupts.h"

namespace ringmaster::ctl {

// Before main, and so before any thread.
inline const bool kIsBlocked = [] {
  Interrupts::Block();
  return true;
}();

struct Outcome {
  int code;
  std::string out;
  std::string error;
};

inline Outcome RunCtl(const std::vector<std::string>& args,
                      bool is_terminal = false) {
  EXPECT_TRUE(kIsBlocked);
  FakeConsole console;
  console.is_terminal = is_terminal;
  const int code = RunCommandLine(args, console, Clock::Real());
  return {code, console.out, console.error};
}

// One line, as every error should be.
inline void ExpectError(const Outcome& outcome, ExitCode code,
                        const std::string& text) {
  EXPECT_EQ(outcome.code, static_cast<int>(code));
  EXPECT_THAT(outcome.error, ::testing::AllOf(::testing::StartsWith("error: "),
                                              ::testing::HasSubstr(text)));
  EXPECT_EQ(outcome.error.find('\n'), outcome.error.size() - 1)
      << outcome.error;
  EXPECT_THAT(outcome.out, ::testing::IsEmpty());
}

class CtlTest : public ::testing::Test {
 protected:
  Outcome RunThere(std::vector<std::string> args, bool is_terminal = false) {
    args.push_back(absl::StrCat("--coordinator=", coordinator_.address()));
    args.push_back("--timeout=20s");
    return RunCtl(args, is_terminal);
  }

  FakeCoordinator coordinator_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_TESTING_CTL_TEST_H_
