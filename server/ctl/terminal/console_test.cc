#include "server/ctl/terminal/console.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>
#include <vector>

namespace ringmaster::ctl {
namespace {

// The abilities of a terminal of 60 columns, as a process finds them that has these
// variables.
struct Abilities {
  bool is_terminal = false;
  bool color = false;
  bool unicode = false;
  bool is_width_known = false;

  friend bool operator==(const Abilities&, const Abilities&) = default;
};

Abilities AbilitiesWith(
    const std::vector<std::pair<const char*, const char*>>& variables) {
  winsize size{};
  size.ws_row = 20;
  size.ws_col = 60;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    for (const char* const name :
         {"TERM", "NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG"})
      unsetenv(name);
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    const SystemConsole console;
    const Style style = console.GetStyle();
    _exit((console.IsTerminal() ? 1 : 0) | (style.color ? 2 : 0) |
          (style.unicode ? 4 : 0) | (style.width == 60 ? 8 : 0));
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  close(terminal);
  EXPECT_TRUE(WIFEXITED(status));
  const int bits = WEXITSTATUS(status);
  return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
}

TEST(SystemConsoleTest, KnowsWhatATerminalCanShow) {
  EXPECT_EQ(AbilitiesWith({{"TERM", "xterm"}, {"LANG", "en_US.UTF-8"}}),
            (Abilities{true, true, true, true}));
  EXPECT_EQ(AbilitiesWith({{"TERM", "xterm"}, {"LC_ALL", "C"}}),
            (Abilities{true, true, false, true}));
}

TEST(SystemConsoleTest, NoColorIsHonoured) {
  EXPECT_EQ(AbilitiesWith({{"TERM", "xterm"}, {"NO_COLOR", "1"}}),
            (Abilities{true, false, false, true}));
  // An empty one says nothing (https://no-color.org).
  EXPECT_EQ(AbilitiesWith({{"TERM", "xterm"}, {"NO_COLOR", ""}}),
            (Abilities{true, true, false, true}));
}

// Nothing can be redrawn on it, so lines are as for a pipe.
TEST(SystemConsoleTest, ADumbTerminalIsNone) {
  EXPECT_EQ(AbilitiesWith({{"TERM", "dumb"}}), Abilities{});
}

}  // namespace
}  // namespace ringmaster::ctl
