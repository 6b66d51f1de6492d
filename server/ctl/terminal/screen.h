// Screen redraws a few lines in place at the bottom of a terminal, with the
// cursor hidden meanwhile.
//
// Uses the control sequences of ECMA-48. Thread-compatible. `console` must
// outlive it. The destructor shows the cursor again; a program that a signal
// ends writes kShowCursor itself.
#ifndef RINGMASTER_SERVER_CTL_TERMINAL_SCREEN_H_
#define RINGMASTER_SERVER_CTL_TERMINAL_SCREEN_H_

#include <string>
#include <string_view>
#include <vector>

#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

inline constexpr std::string_view kShowCursor = "\x1b[?25h";

class Screen {
 public:
  explicit Screen(Console& console) : console_(console) {}
  ~Screen() { Finish(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Replaces the lines that the last Draw left by `lines`, which must fit the
  // terminal's width, and be fewer than its height.
  void Draw(const std::vector<std::string>& lines);

  // Writes `line` above the drawn lines, where it stays.
  void PrintAbove(std::string_view line);

  // Leaves what is drawn as it is and shows the cursor.
  void Finish();

 private:
  Console& console_;
  std::vector<std::string> drawn_;
  bool is_cursor_hidden_ = false;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_TERMINAL_SCREEN_H_
