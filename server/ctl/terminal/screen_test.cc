#include "server/ctl/terminal/screen.h"

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

TEST(ScreenTest, RedrawsInPlaceAndHidesTheCursor) {
  FakeConsole console;
  Screen screen(console);
  screen.Draw({"a", "b"});
  EXPECT_EQ(console.out, "\x1b[?25l\ra\x1b[K\nb\x1b[K\n\x1b[J");
  console.out.clear();
  screen.Draw({"c"});
  EXPECT_EQ(console.out, "\r\x1b[2Ac\x1b[K\n\x1b[J");
}

TEST(ScreenTest, PrintsLinesThatStayAboveTheDrawnOnes) {
  FakeConsole console;
  Screen screen(console);
  screen.Draw({"a", "b"});
  console.out.clear();
  screen.PrintAbove("note");
  EXPECT_EQ(console.out, "\r\x1b[2A\x1b[Jnote\na\nb\n");
}

TEST(ScreenTest, ShowsTheCursorAtTheEndOnce) {
  FakeConsole console;
  {
    Screen screen(console);
    screen.Draw({"a"});
    console.out.clear();
    screen.Finish();
  }
  EXPECT_EQ(console.out, kShowCursor);
}

TEST(ScreenTest, WritesNothingThatWasNotAskedFor) {
  FakeConsole console;
  { Screen screen(console); }
  EXPECT_EQ(console.out, "");
}

TEST(SystemConsoleTest, HasNeitherColorsNorAWidthWhereStdoutIsNoTerminal) {
  const SystemConsole console;
  if (console.IsTerminal()) GTEST_SKIP() << "stdout is a terminal here";
  EXPECT_FALSE(console.GetStyle().color);
  EXPECT_GT(console.GetStyle().width, 100'000);
}

TEST(SystemConsoleTest, TakesUnicodeFromTheLocale) {
  const SystemConsole console;
  ::setenv("LC_ALL", "en_US.UTF-8", 1);
  EXPECT_TRUE(console.GetStyle().unicode);
  ::setenv("LC_ALL", "C", 1);
  EXPECT_FALSE(console.GetStyle().unicode);
  ::unsetenv("LC_ALL");
  ::unsetenv("LC_CTYPE");
  ::unsetenv("LANG");
  EXPECT_FALSE(console.GetStyle().unicode);
}

}  // namespace
}  // namespace ringmaster::ctl
