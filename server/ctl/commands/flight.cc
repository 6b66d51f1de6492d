#include "server/ctl/commands/flight.h"

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/flight_view.h"

namespace ringmaster::ctl {

void AddFlightFlags(FlagSet& command, FlightOptions& options) {
  command.Add({.name = "incident",
               .unit = "N",
               .help = "The number of an incident: what the ranks did when it "
                       "interrupted the job. What they do now unless given.",
               .min = 0},
              &options.incident);
  command.Add({.name = "last",
               .unit = "N",
               .help = "How many collectives of each rank the table shows; "
                       "json has all that are recorded.",
               .min = 1},
              &options.last);
}

absl::StatusOr<int> RunFlight(const CommandContext& context,
                              const std::string& job,
                              const FlightOptions& options) {
  ASSIGN_OR_RETURN(const v1::FlightRecord record,
                   context.client.GetFlightRecord(job, options.incident));
  if (context.format == OutputFormat::kJson) {
    context.console.Write(ToJsonLine(record));
    return 0;
  }
  for (const std::string& line :
       FlightLines(record, options.last, context.console.GetStyle())) {
    context.console.Write(absl::StrCat(line, "\n"));
  }
  for (const std::string& line : MissingRankLines(record))
    context.console.WriteError(absl::StrCat(line, "\n"));
  return 0;
}

}  // namespace ringmaster::ctl
