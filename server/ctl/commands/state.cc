#include "server/ctl/commands/state.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/coordinator/journal/backup.h"
#include "server/coordinator/journal/journal.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kBackup[] = "state backup";

// "12 records, 2 jobs, generations up to 7, 24.0 KiB".
std::string Text(const coordinator::StateContents& contents) {
  return absl::StrCat(
      contents.records, contents.records == 1 ? " record, " : " records, ",
      contents.jobs, contents.jobs == 1 ? " job, " : " jobs, ",
      contents.generation == 0
          ? "no generation"
          : absl::StrCat("generations up to ", contents.generation),
      ", ", FormatBytes(contents.size_bytes));
}

std::string JsonText(const char* done, const StateCommandOptions& options,
                     const coordinator::StateContents& contents) {
  // Integers as protobuf's mapping writes them, see docs/json.md.
  const Json json = {{done, options.state_dir},
                     {"backup", options.backup},
                     {"records", absl::StrCat(contents.records)},
                     {"jobs", absl::StrCat(contents.jobs)},
                     {"generation", absl::StrCat(contents.generation)},
                     {"size_bytes", absl::StrCat(contents.size_bytes)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<int> BackUp(const StateCommandOptions& options, NewFile& file,
                           OutputFormat format, Console& console) {
  ASSIGN_OR_RETURN(const coordinator::StateContents contents,
                   coordinator::BackUpState(options.state_dir, file));
  console.Write(format == OutputFormat::kJson
                    ? JsonText("backed_up", options, contents)
                    : absl::StrCat("backed up ", Printable(options.state_dir),
                                   " to ", Printable(options.backup), ": ",
                                   Text(contents), "\n"));
  return static_cast<int>(ExitCode::kDone);
}

absl::StatusOr<int> Restore(const StateCommandOptions& options, NewFile& file,
                            OutputFormat format, Console& console) {
  ASSIGN_OR_RETURN(const coordinator::StateContents contents,
                   coordinator::RestoreState(options.backup, options.state_dir,
                                             options.may_replace, file));
  if (format == OutputFormat::kJson) {
    console.Write(JsonText("restored", options, contents));
    return static_cast<int>(ExitCode::kDone);
  }
  console.Write(absl::StrCat(
      "restored ", Printable(options.state_dir), " from ",
      Printable(options.backup), ": ", Text(contents),
      "\n"
      "Start its coordinator once with --take_over, which says that no other "
      "coordinator still works with what it\n"
      "decided after the backup. Without the flag, workers in a generation "
      "that the backup does not know are sent\n"
      "away, and no job begins.\n"));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

void AddStateCommand(FlagSet& flags, StateCommandOptions& options) {
  FlagSet& group = flags.AddCommand(
      "state", "Back up and restore a coordinator's --state_dir, here.");
  const auto add_directory = [&](FlagSet& command, const char* help) {
    command.Add({.name = "state_dir",
                 .unit = "DIR",
                 .help = help,
                 .is_required = true,
                 .is_place = true},
                &options.state_dir);
  };
  FlagSet& backup = group.AddCommand(
      "backup",
      "Copies the state as it is now to one file, even while a coordinator is "
      "using it, and reads every record of the copy again.");
  add_directory(backup, "The coordinator's.");
  backup.Add({.name = "out",
              .unit = "FILE",
              .help = "The file to make; only its owner may read it.",
              .is_required = true},
             &options.backup);
  backup.Add({.name = "force", .help = "Replace a file that is there."},
             &options.may_replace);
  FlagSet& restore = group.AddCommand(
      "restore",
      "Makes a backup the state of a coordinator that does not run. Start that "
      "coordinator once with --take_over.");
  restore.AddArgument("FILE", "The backup.", /*is_required=*/true,
                      &options.backup);
  add_directory(restore, "The coordinator's; made if it is missing.");
  restore.Add({.name = "force",
               .help = "Replace the state that is there. One that a "
                       "coordinator is using stays all the same."},
              &options.may_replace);
}

std::string StateFileOf(const std::string& command,
                        const StateCommandOptions& options) {
  return command == kBackup
             ? options.backup
             : absl::StrCat(options.state_dir, "/", coordinator::kJournalFile);
}

absl::StatusOr<int> RunState(const std::string& command,
                             const StateCommandOptions& options, NewFile& file,
                             OutputFormat format, Console& console) {
  if (options.backup.empty() || options.state_dir.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.state_dir.empty() ? "--state_dir"
                     : command == kBackup      ? "--out"
                                               : "FILE",
                     ": the path is empty"));
  }
  return command == kBackup ? BackUp(options, file, format, console)
                            : Restore(options, file, format, console);
}

}  // namespace ringmaster::ctl
