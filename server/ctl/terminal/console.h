// Console: where a command's text goes, and what the reader can see there.
//
// Thread-compatible. SystemConsole writes to this process's stdout and stderr;
// tests use FakeConsole.
#ifndef RINGMASTER_SERVER_CTL_TERMINAL_CONSOLE_H_
#define RINGMASTER_SERVER_CTL_TERMINAL_CONSOLE_H_

#include <string>
#include <string_view>

#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

class Console {
 public:
  virtual ~Console() = default;

  // Writes `text` to stdout at once.
  virtual void Write(std::string_view text) = 0;
  // Writes `text` to stderr at once.
  virtual void WriteError(std::string_view text) = 0;

  // Returns true if stdout is a terminal that a table can be redrawn on.
  [[nodiscard]] virtual bool IsTerminal() const = 0;
  // Size and abilities of stdout now: a window may have changed its size. Text
  // for a file or a pipe has no colours and is never cut.
  [[nodiscard]] virtual Style GetStyle() const = 0;
};

// Colours need a terminal and no NO_COLOR (https://no-color.org); Unicode needs
// a UTF-8 locale; TERM=dumb is no terminal to redraw on.
class SystemConsole final : public Console {
 public:
  SystemConsole();
  void Write(std::string_view text) override;
  void WriteError(std::string_view text) override;
  bool IsTerminal() const override { return is_terminal_; }
  Style GetStyle() const override;

 private:
  const bool is_terminal_;
};

// Collects what is written; by default neither a terminal nor coloured.
class FakeConsole final : public Console {
 public:
  void Write(std::string_view text) override { out.append(text); }
  void WriteError(std::string_view text) override { error.append(text); }
  bool IsTerminal() const override { return is_terminal; }
  Style GetStyle() const override { return style; }

  std::string out;
  std::string error;
  bool is_terminal = false;
  Style style{.width = 200};
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_TERMINAL_CONSOLE_H_
