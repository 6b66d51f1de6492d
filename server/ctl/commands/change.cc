#include "server/ctl/commands/change.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/job_view.h"

namespace ringmaster::ctl {

void AddChangeCommands(FlagSet& flags, ChangeOptions& options) {
  const auto add = [&](const char* name, const char* summary) -> FlagSet& {
    FlagSet& command = flags.AddCommand(name, summary);
    command.AddArgument("JOB", "Id of the job, or its name.",
                        /*is_required=*/true, &options.job);
    command.Add({.name = "reason",
                 .unit = "TEXT",
                 .help = "Shown in the job's events."},
                &options.reason);
    return command;
  };
  add("priority",
      "Let a job come before those with a lower priority, or after those with "
      "a higher one.")
      .AddArgument("PRIORITY", "A number from -1000 to 1000.",
                   /*is_required=*/true, &options.priority);
  add("suspend",
      "Let a job give its workers back and wait, without losing a step, until "
      "it is resumed.");
  add("resume", "Let a job that was suspended go on.");
}

bool IsChange(std::string_view command) {
  return command == "priority" || command == "suspend" || command == "resume";
}

absl::StatusOr<int> RunChange(const CommandContext& context,
                              const std::string& command,
                              const ChangeOptions& options) {
  v1::ChangeJobRequest request;
  request.set_job(options.job);
  request.set_reason(options.reason);
  if (command == "priority") {
    int32_t priority = 0;
    if (!absl::SimpleAtoi(options.priority, &priority)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "PRIORITY must be a whole number, got ", Quoted(options.priority)));
    }
    request.set_priority(priority);
  } else {
    request.set_suspended(command == "suspend");
  }
  ASSIGN_OR_RETURN(const v1::Job changed, context.client.ChangeJob(request));
  context.console.Write(context.format == OutputFormat::kJson
                            ? ToJsonLine(changed, /*is_indented=*/true)
                            : absl::StrCat(StateLine(changed), "\n"));
  return 0;
}

}  // namespace ringmaster::ctl
