#include "server/ctl/commands/top.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status/status_macros.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/client/job_watch.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/top_view.h"
#include "server/ctl/terminal/screen.h"

namespace ringmaster::ctl {

void AddTopCommand(FlagSet& flags, TopOptions& options) {
  FlagSet& command = flags.AddCommand(
      "top",
      "The pool, its jobs and their ranks on one screen, as they change: ranks "
      "that the others of their job wait for come first.");
  command.Add({.name = "every",
               .unit = "DURATION",
               .help = "Time from one update to the next.",
               .min = 0.1,
               .max = 3600},
              &options.every);
  command.Add({.name = "updates",
               .unit = "N",
               .help = "End after so many; 0: never on a terminal, after one "
                       "elsewhere.",
               .min = 0},
              &options.updates);
  AddStatusFlags(command, options.shown);
}

absl::StatusOr<int> RunTop(const CommandContext& context,
                           const TopOptions& options) {
  Console& console = context.console;
  const bool is_live =
      console.IsTerminal() && context.format == OutputFormat::kTable;
  const int64_t updates = options.updates > 0 || is_live ? options.updates : 1;
  const v1::StatusFilter filter = FilterOf(options.shown);
  Screen screen(console);
  Bell bell;  // Nobody rings it.
  v1::Status shown;
  RankTimes times;
  for (int64_t update = 1;; ++update) {
    const MonotonicTime next = context.clock.Now() + options.every;
    absl::StatusOr<v1::Status> status = context.client.GetStatus(filter);
    if (!status.ok() &&
        (!is_live || update == 1 || !IsWorthARetry(status.status())))
      return status.status();
    std::string notice;
    if (status.ok()) {
      shown = *std::move(status);
      times.Add(shown);
    } else {
      notice = absl::StrCat("no news: ", status.status().message());
    }
    if (context.format == OutputFormat::kJson) {
      console.Write(ToJsonLine(shown));
    } else {
      Style style = console.GetStyle();
      // A screen that scrolls away has room for every rank.
      if (!is_live) style.height = 1 << 20;
      const std::vector<std::string> lines =
          TopLines(shown, times, notice, absl::Now(), style);
      if (is_live) {
        screen.Draw(lines);
      } else {
        for (const std::string& line : lines)
          console.Write(absl::StrCat(line, "\n"));
      }
    }
    if (update == updates) return 0;
    (void)bell.Await(context.clock, next);
  }
}

}  // namespace ringmaster::ctl
