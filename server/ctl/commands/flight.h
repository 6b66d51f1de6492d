// `ringctl flight`: what each rank of a job does in collectives, or did when an
// incident interrupted it.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_FLIGHT_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_FLIGHT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/flags.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct FlightOptions {
  int32_t incident = 0;  // 0: what they do now
  int64_t last = 1;      // collectives of each rank, in the table
};

// Adds the flags of `command`.
void AddFlightFlags(FlagSet& command, FlightOptions& options);

// Prints the record. Notes on the error stream of whom there is none.
//   NOT_FOUND  there is no such job, or no record of that incident
[[nodiscard]] absl::StatusOr<int> RunFlight(const CommandContext& context,
                                            const std::string& job,
                                            const FlightOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_FLIGHT_H_
