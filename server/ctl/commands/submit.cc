#include "server/ctl/commands/submit.h"

#include "absl/strings/str_cat.h"
#include "common/job/job_spec.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/client/job_watch.h"
#include "server/ctl/commands/job_file.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/commands/warnings.h"
#include "server/ctl/render/job_view.h"

namespace ringmaster::ctl {
namespace {

void PrintSpec(const CommandContext& context, const v1::JobSpec& spec) {
  context.console.Write(context.format == OutputFormat::kJson
                            ? ToJsonLine(spec, /*is_indented=*/true)
                            : ToYaml(spec));
}

absl::StatusOr<int> DryRun(const CommandContext& context,
                           const v1::JobSpec& spec,
                           const std::string& job_file) {
  const absl::StatusOr<v1::Job> job =
      context.client.SubmitJob(spec, /*validate_only=*/true, "");
  if (job.ok()) {
    WarnOf(job->spec(), context.console);
    PrintSpec(context, job->spec());
    return 0;
  }
  if (ExitCodeOf(job.status()) != ExitCode::kRetryElsewhere)
    return Annotate(job.status(), job_file);
  absl::StatusOr<v1::JobSpec> with_defaults = ValidateAndDefault(spec);
  if (!with_defaults.ok()) return Annotate(with_defaults.status(), job_file);
  context.console.WriteError(
      absl::StrCat("note: checked by ringctl itself only: ",
                   std::string(job.status().message()), "\n"));
  PrintSpec(context, *with_defaults);
  return 0;
}

}  // namespace

absl::StatusOr<int> RunSubmit(const CommandContext& context,
                              const SubmitOptions& options) {
  ASSIGN_OR_RETURN(const v1::JobSpec spec,
                   LoadJobFile(options.job_file, options.assignments));
  if (options.is_dry_run)
    return DryRun(context, spec, JobFileName(options.job_file));
  const absl::StatusOr<v1::Job> job = context.client.SubmitJob(
      spec, /*validate_only=*/false, options.request_id);
  if (!job.ok()) {
    // A mistake in the job is reported for its file; other errors name the
    // coordinator already.
    return absl::IsInvalidArgument(job.status())
               ? Annotate(job.status(), JobFileName(options.job_file))
               : job.status();
  }
  WarnOf(job->spec(), context.console);
  if (options.is_watched) return RunWatch(context, job->id());
  if (context.format == OutputFormat::kJson) {
    context.console.Write(ToJsonLine(*job, /*is_indented=*/true));
  } else {
    context.console.Write(absl::StrCat(StateLine(*job), "\n"));
  }
  return 0;
}

absl::StatusOr<int> RunWatch(const CommandContext& context,
                             const std::string& job) {
  Bell bell;
  JobDisplay display(context.console, context.format, context.clock);
  JobWatch watch(context.client.Share(), job, {}, context.clock, bell);
  ASSIGN_OR_RETURN(const v1::Job ended,
                   Follow(watch, display, bell, context.clock,
                          [] { return absl::OkStatus(); }));
  NoteWarnings(context.client, ended.id(), display);
  return ExitCodeOfJob(ended);
}

}  // namespace ringmaster::ctl
