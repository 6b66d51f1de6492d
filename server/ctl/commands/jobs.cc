#include "server/ctl/commands/jobs.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status/status_macros.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/job_table.h"
#include "server/ctl/render/names.h"

namespace ringmaster::ctl {
namespace {

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int state = v1::JOB_STATE_QUEUED; state <= v1::JobState_MAX; ++state)
    names.push_back(
        absl::AsciiStrToLower(NameOf(static_cast<v1::JobState>(state))));
  return names;
}

}  // namespace

void AddJobsFlags(FlagSet& command, JobsOptions& options) {
  command.Add({.name = "state",
               .help = "Only jobs in this state; may be repeated.",
               .choices = StateNames()},
              &options.states);
}

absl::StatusOr<int> RunJobs(const CommandContext& context,
                            const JobsOptions& options) {
  const std::set<std::string> wanted(options.states.begin(),
                                     options.states.end());
  ASSIGN_OR_RETURN(const v1::ListJobsResponse all, context.client.AllJobs());
  v1::ListJobsResponse shown;
  for (const v1::Job& job : all.jobs()) {
    if (wanted.empty() ||
        wanted.contains(absl::AsciiStrToLower(NameOf(job.state())))) {
      *shown.add_jobs() = job;
    }
  }
  if (context.format == OutputFormat::kJson) {
    context.console.Write(ToJsonLine(shown, /*is_indented=*/true));
    return 0;
  }
  if (shown.jobs().empty()) context.console.WriteError("no jobs\n");
  for (const std::string& line :
       JobTable(shown.jobs(), options.is_wide, absl::Now(),
                context.console.GetStyle()))
    context.console.Write(absl::StrCat(line, "\n"));
  return 0;
}

}  // namespace ringmaster::ctl
