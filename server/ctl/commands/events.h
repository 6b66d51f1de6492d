// `ringctl events`: what happened, and what happens from now on.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_EVENTS_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_EVENTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/config/flags.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct EventsOptions {
  std::string job;  // id or name; "": all
  bool is_followed = false;
  std::string since;              // a duration or an RFC 3339 time; "": all
  std::string severity = "info";  // the least
};

void AddEventsFlags(FlagSet& command, EventsOptions& options);

// Lists events, oldest first. With is_followed goes on with new ones, as JSON a
// line each, until the job of that name has ended; without one, for ever.
//   INVALID_ARGUMENT  --since is neither a duration nor a time
//   UNAVAILABLE       the coordinator ended, or was started again
[[nodiscard]] absl::StatusOr<int> RunEvents(const CommandContext& context,
                                            const EventsOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_EVENTS_H_
