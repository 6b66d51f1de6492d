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
    if (!peer.is_tried) continue;
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
  std::string untried;
  size_t tried = 0;
  size_t reached = 0;
  for (const PeerFacts& worker : workers) {
    if (!worker.is_tried) {
      absl::StrAppend(&untried, untried.empty() ? "; not tried: " : ", ",
                      worker.name, " at ", worker.address);
      continue;
    }
    ++tried;
    if (worker.status.ok()) {
      ++reached;
      continue;
    }
    absl::StrAppend(&lost, lost.empty() ? "; not " : ", ", worker.name, " (",
                    std::string(worker.status.message()), ")");
  }
  const std::string what =
      absl::StrCat(reached, " of ", tried, " connect from here", lost, untried);
  if (lost.empty() && untried.empty()) return Good("workers' ports", what);
  if (lost.empty()) {
    return Warn("workers' ports", what, "a name server is not waited for here",
                "check them with --peers");
  }
  return Fail("workers' ports", what,
              "ranks of this host and those cannot train together",
              std::string(kOpenPorts), ExitCode::kRetryElsewhere);
}

}  // namespace ringmaster::ctl
