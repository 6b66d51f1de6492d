// WarnOf tells, when a job was accepted, what it risks; NoteWarnings, at its end,
// what went wrong beside it: a checkpoint that could not be written, samples
// that were left out. Such things do not end a job, so nothing else of what is
// shown would tell.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_WARNINGS_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_WARNINGS_H_

#include <string>

#include "ringmaster/v1/job.pb.h"
#include "server/ctl/client/client.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

// Says on the error stream what the author of a job, which was accepted with
// `spec`, should know before it begins: what a loss will cost it.
void WarnOf(const v1::JobSpec& spec, Console& console);

// One line for each type of warning that the events of `job` (an id) have, with
// the last one's message and how many there were. Says nothing if the events
// cannot be had: the job's end was shown already.
void NoteWarnings(Client& client, const std::string& job, JobDisplay& display);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_WARNINGS_H_
