// The findings of `ringctl doctor` about the ways to other hosts' workers.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_PEERS_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_PEERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "server/ctl/doctor/finding.h"

namespace ringmaster::ctl {

struct PeerFacts {
  std::string name;     // how it is shown: an address, or a worker's name
  std::string address;  // HOST:PORT, of the listener
  bool is_tried = true;
  absl::Status status = {};  // of connecting to it
};

// Connects, as ReachPeers, to those that are to be tried, and fills in their
// status. A name, not a numeric host, waits for the resolver first.
void ReachAll(absl::Duration limit, Clock& clock,
              std::vector<PeerFacts>& peers);

// Pure. A peer that refuses is reached: nothing listens there yet.
[[nodiscard]] Finding PeerFinding(const PeerFacts& peer);

// One finding for the workers that a coordinator knows, which all listen. Pure.
[[nodiscard]] Finding WorkersFinding(const std::vector<PeerFacts>& workers);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_PEERS_H_
