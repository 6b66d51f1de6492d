#include "server/coordinator/core/account/flight.h"

#include <algorithm>
#include <utility>

namespace ringmaster::coordinator {
namespace {

bool Records(const State& state, const MemberLife& member) {
  const Worker* const worker = state.FindWorker(member.worker);
  return worker != nullptr && worker->incarnation == member.incarnation &&
         worker->session != 0 && worker->records_collectives;
}

}  // namespace

void OweFlight(const Turn& turn, Job& job, const v1::Incident& incident) {
  // Commands have collectives of their own, which workers do not see.
  if (incident.is_wanted() || job.runs_commands) return;
  IncidentFlight& flight = job.last_flight.emplace();
  flight.incident = incident.number();
  flight.generation = job.generation;
  for (const Member& member : job.members) {
    const MemberIdentity& identity = member.identity;
    if (identity.role != v1::ROLE_WORKER) break;
    flight.members.push_back(
        {identity.rank, identity.worker, identity.incarnation});
  }
  flight.world_size = static_cast<int>(flight.members.size());
  job.flight_deadline = turn.now + kFlightPatience;
}

void AskForFlight(Turn& turn, Job& job) {
  job.flight_deadline = MonotonicTime::InfiniteFuture();
  if (!job.last_flight.has_value()) return;
  IncidentFlight& flight = *job.last_flight;
  std::vector<MemberLife> members = std::exchange(flight.members, {});
  const bool is_any_there = std::any_of(
      members.begin(), members.end(),
      [&](const MemberLife& member) { return Records(turn.state, member); });
  if (!is_any_there) return;
  turn.Do(GatherFlight{job.id, flight.incident, flight.generation,
                       std::move(members)});
}

void OnFlightGathered(Turn& turn, const FlightGathered& gathered) {
  Job* const job = turn.state.FindJob(gathered.job_id);
  if (job == nullptr || gathered.hold_ups.empty()) return;
  const auto incident =
      std::find_if(job->incidents.begin(), job->incidents.end(),
                   [&](const v1::Incident& one) {
                     return one.number() == gathered.incident;
                   });
  if (incident == job->incidents.end()) return;
  incident->mutable_hold_ups()->Assign(gathered.hold_ups.begin(),
                                       gathered.hold_ups.end());
  turn.Touch(*job);
  for (const v1::HoldUp& hold_up : gathered.hold_ups) {
    turn.Emit(v1::EVENT_SEVERITY_INFO, "job.held_up", *job, hold_up.worker(),
              hold_up.summary(), nullptr, hold_up.step());
  }
}

}  // namespace ringmaster::coordinator
