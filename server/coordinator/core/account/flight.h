// Flight records: what the ranks of a generation did in collectives when an
// incident ended it.
//
// They are asked once the job has made its first step after the incident, or has
// ended, or after kFlightPatience: so recovery never waits for it. Then the ranks
// that others waited for are noted in the incident.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_FLIGHT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_FLIGHT_H_

#include "absl/time/time.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// A job that has not recovered by then waits for workers, or for data.
inline constexpr absl::Duration kFlightPatience = absl::Seconds(2);

// The present generation of `job`, which is halting, was ended by `incident`.
void OweFlight(const Turn& turn, Job& job, const v1::Incident& incident);
// Asks its members, once; none if nobody of them records collectives.
void AskForFlight(Turn& turn, Job& job);

// Notes in the incident who held the others up, and tells of it.
void OnFlightGathered(Turn& turn, const FlightGathered& gathered);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_FLIGHT_H_
