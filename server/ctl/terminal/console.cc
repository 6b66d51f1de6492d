#include "server/ctl/terminal/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "absl/strings/match.h"

namespace ringmaster::ctl {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The first of the variables that is set decides (POSIX, "Internationalization
// Variables").
bool HasUtf8Locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = Environment(name);
    if (!value.empty())
      return absl::StrContains(value, "UTF-8") ||
             absl::StrContains(value, "utf8");
  }
  return false;
}

// A failed write cannot be reported; a closed pipe ends the process by SIGPIPE.
void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace

SystemConsole::SystemConsole()
    : is_terminal_(::isatty(STDOUT_FILENO) == 1 &&
                   Environment("TERM") != "dumb") {}

void SystemConsole::Write(std::string_view text) {
  WriteAll(STDOUT_FILENO, text);
}

void SystemConsole::WriteError(std::string_view text) {
  WriteAll(STDERR_FILENO, text);
}

Style SystemConsole::GetStyle() const {
  Style style{.width = INT_MAX,
              .height = INT_MAX,
              .color = false,
              .unicode = HasUtf8Locale(),
              .zone = absl::LocalTimeZone()};
  if (!is_terminal_) return style;
  style.color = Environment("NO_COLOR").empty();
  style.width = 80;
  style.height = 24;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 &&
      size.ws_row > 0) {
    style.width = size.ws_col;
    style.height = size.ws_row;
  }
  return style;
}

}  // namespace ringmaster::ctl
