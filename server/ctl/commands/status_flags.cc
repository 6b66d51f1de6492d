#include "server/ctl/commands/status_flags.h"

namespace ringmaster::ctl {

void AddStatusFlags(FlagSet& command, StatusOptions& options) {
  command.Add({.name = "job",
               .unit = "JOB",
               .help = "Only this job, by its id or name, and its workers; may "
                       "be repeated, as those below."},
              &options.jobs);
  command.Add({.name = "queue",
               .unit = "QUEUE",
               .help = "Only jobs of this queue, and their workers."},
              &options.queues);
  command.Add({.name = "owner",
               .unit = "NAME",
               .help = "Only jobs that this caller has submitted, and their "
                       "workers."},
              &options.owners);
  command.Add(
      {.name = "host", .unit = "HOST", .help = "Only workers of this host."},
      &options.hosts);
}

v1::StatusFilter FilterOf(const StatusOptions& options) {
  v1::StatusFilter filter;
  filter.mutable_jobs()->Assign(options.jobs.begin(), options.jobs.end());
  filter.mutable_queues()->Assign(options.queues.begin(), options.queues.end());
  filter.mutable_owners()->Assign(options.owners.begin(), options.owners.end());
  filter.mutable_hosts()->Assign(options.hosts.begin(), options.hosts.end());
  return filter;
}

}  // namespace ringmaster::ctl
