// WarnOf warns of a job's risks when it has been accepted, and WarningOfCores of
// more workers than this machine can run at a time. NoteWarnings lists,
// at its end, problems that did not end it: a checkpoint that could not be
// written, samples that were skipped. No other output would mention them.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_WARNINGS_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_WARNINGS_H_

#include <string>

#include "ringmaster/v1/job.pb.h"
#include "server/ctl/client/client.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

// Warns on the error stream, before a job that was accepted with `spec` begins,
// what a loss will cost it.
void WarnOf(const v1::JobSpec& spec, Console& console);

// What it costs that `workers` processes with `threads` threads each compute on
// `cores` cores; empty if each thread has one. All positive.
[[nodiscard]] std::string WarningOfCores(int workers, int threads, int cores);

// One line for each type of warning that the events of `job` (an id) have, with
// the last one's message and how many there were. Says nothing if the events
// cannot be had: the job's end was shown already.
void NoteWarnings(Client& client, const std::string& job, JobDisplay& display);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_WARNINGS_H_
