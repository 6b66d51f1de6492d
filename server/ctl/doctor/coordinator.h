// The findings of `ringctl doctor` about the coordinator, as this host sees it.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_COORDINATOR_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_COORDINATOR_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "server/ctl/client/client.h"
#include "server/ctl/doctor/finding.h"

namespace ringmaster::ctl {

struct CoordinatorFacts {
  absl::Status status;  // of asking it; the rest is valid if OK
  std::string address;
  bool is_encrypted = false;
  std::string version;
  std::string journal_error;
  std::string other_coordinator = {};
  v1::Status pool = {};  // what it knows
  absl::Duration round_trip;
  // By how much its wall clock is ahead of ours, give or take the round trip.
  absl::Duration clock_offset;
};

// Asks twice: the first call connects, the second one is timed. Within two
// timeouts of the client.
[[nodiscard]] CoordinatorFacts GatherCoordinatorFacts(Client& client,
                                                      bool is_encrypted,
                                                      Clock& clock);

// `own_version` is ringctl's. Pure.
[[nodiscard]] std::vector<Finding> CoordinatorFindings(
    const CoordinatorFacts& facts, const std::string& own_version);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_COORDINATOR_H_
