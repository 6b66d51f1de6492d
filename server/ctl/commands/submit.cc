#include "server/ctl/commands/submit.h"

#include <cstdint>
#include <string>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job_spec.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/reason.h"
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

// An id that no other submission has, so that this one can be repeated.
std::string NewRequestId() {
  absl::BitGen random;
  return absl::StrFormat("ringctl-%016x", absl::Uniform<uint64_t>(random));
}

// Says of a submission that got no answer whether the job was queued.
absl::Status ExplainOutcome(const absl::Status& status,
                            const SubmitOptions& options,
                            const std::string& request_id) {
  // A mistake in the job is reported for its file; other errors name the
  // coordinator already.
  if (absl::IsInvalidArgument(status))
    return Annotate(status, JobFileName(options.job_file));
  const std::string reason = ReasonOf(status);
  if (reason == reason::kNotConnected)
    return Annotate(status, "the job was not queued");
  const bool is_unknown = absl::IsDeadlineExceeded(status) ||
                          reason == reason::kConnectionBroke ||
                          reason == reason::kShuttingDown;
  if (!is_unknown) return status;
  const absl::Status outcome =
      Annotate(status, "it is not known whether the job was queued");
  return absl::Status(
      outcome.code(),
      absl::StrCat(std::string(outcome.message()),
                   "; `ringctl jobs -o wide` shows it if it was, and "
                   "submitting it again with --request_id=",
                   request_id, " queues it only if it was not"));
}

}  // namespace

absl::StatusOr<int> RunSubmit(const CommandContext& context,
                              const SubmitOptions& options) {
  ASSIGN_OR_RETURN(const v1::JobSpec spec,
                   LoadJobFile(options.job_file, options.assignments));
  if (options.is_dry_run)
    return DryRun(context, spec, JobFileName(options.job_file));
  const std::string request_id =
      options.request_id.empty() ? NewRequestId() : options.request_id;
  const absl::StatusOr<v1::Job> job =
      context.client.SubmitJob(spec, /*validate_only=*/false, request_id);
  if (!job.ok()) return ExplainOutcome(job.status(), options, request_id);
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
