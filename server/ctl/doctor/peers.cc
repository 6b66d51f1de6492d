#include "server/ctl/doctor/peers.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/cancel_token.h"
#include "common/transport/reach_peers.h"

namespace ringmaster::ctl {
namespace {

constexpr std::string_view kOpenPorts =
    "see whether it runs, give workers a range of ports (--data_ports) and let "
    "the firewall pass it; on a host with several networks, --data_interface";

}  // namespace

void ReachAll(absl::Duration limit, Clock& clock,
              std::vector<PeerFacts>& peers) {
  std::vector<PeerFacts*> asked;
  std::vector<std::string> addresses;
  for (PeerFacts& peer : peers) {
    if (!peer.status.ok()) continue;
    asked.push_back(&peer);
    addresses.push_back(peer.address);
  }
  const CancelToken none;
  std::vector<absl::Status> reached = ReachPeers(addresses, limit, clock, none);
  for (size_t i = 0; i < asked.size(); ++i)
    asked[i]->status = std::move(reached[i]);
}

Finding PeerFinding(const PeerFacts& peer) {
  const std::string check = absl::StrCat("peer ", peer.name);
  if (peer.status.ok()) return Good(check, "connects");
  const std::string what(peer.status.message());
  if (LinkFailureOf(peer.status) == LinkFailure::kRefused) {
    return Warn(check, what, "its host is reached, but nothing listens there",
                "check again while a worker of that host runs");
  }
  return Fail(check, what,
              "ranks of this host and that one cannot train together",
              std::string(kOpenPorts), ExitCode::kRetryElsewhere);
}

Finding WorkersFinding(const std::vector<PeerFacts>& workers) {
  std::string lost;
  bool are_named = true;  // all that are lost
  size_t reached = 0;
  for (const PeerFacts& worker : workers) {
    if (worker.status.ok()) {
      ++reached;
      continue;
    }
    are_named = are_named && absl::IsFailedPrecondition(worker.status);
    absl::StrAppend(&lost, lost.empty() ? "; not " : ", ", worker.name, " (",
                    std::string(worker.status.message()), ")");
  }
  const std::string what =
      absl::StrCat(reached, " of ", workers.size(), " connect from here", lost);
  if (lost.empty()) return Good("workers' ports", what);
  if (are_named) {
    return Warn("workers' ports", what, "the others were not tried",
                "check them with --peers");
  }
  return Fail("workers' ports", what,
              "ranks of this host and those cannot train together",
              std::string(kOpenPorts), ExitCode::kRetryElsewhere);
}

}  // namespace ringmaster::ctl
