#include "server/ctl/doctor/peers.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/socket_address.h"
#include "common/transport/tcp.h"
#include "common/transport/unique_fd.h"
#include "common/transport/wait_io.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

constexpr std::string_view kOpenPorts =
    "see whether it runs, give workers a range of ports (--data_ports) and let "
    "the firewall pass it; on a host with several networks, --data_interface";

struct Attempt {
  PeerFacts* peer = nullptr;
  UniqueFd socket;
};

// The first address alone, as a worker connects to a peer.
void Begin(PeerFacts& peer, std::vector<Attempt>& attempts) {
  const auto addresses = Resolve(peer.address);
  if (!addresses.ok()) {
    peer.status = addresses.status();
    return;
  }
  absl::StatusOr<UniqueFd> socket = BeginConnect(addresses->front());
  peer.status = socket.status();
  if (socket.ok()) attempts.push_back({&peer, *std::move(socket)});
}

}  // namespace

void ConnectToPeers(absl::Duration limit, const CancelToken& cancel,
                    Clock& clock, std::vector<PeerFacts>& peers) {
  std::vector<Attempt> attempts;
  for (PeerFacts& peer : peers) Begin(peer, attempts);
  const MonotonicTime start = clock.Now();
  const MonotonicTime deadline = start + limit;
  while (!attempts.empty() && !cancel.is_cancelled() &&
         clock.Now() < deadline) {
    std::vector<pollfd> polled;
    for (const Attempt& attempt : attempts)
      polled.push_back({attempt.socket.get(), POLLOUT, 0});
    polled.push_back({cancel.fd(), POLLIN, 0});
    const absl::Status waited = WaitIo(polled, deadline - clock.Now());
    for (size_t i = attempts.size(); i-- > 0;) {
      if (waited.ok() && polled[i].revents == 0) continue;
      PeerFacts& peer = *attempts[i].peer;
      peer.status =
          waited.ok() ? ConnectResult(attempts[i].socket.get()) : waited;
      peer.took = clock.Now() - start;
      attempts.erase(attempts.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  for (const Attempt& attempt : attempts) {
    attempt.peer->status =
        cancel.is_cancelled()
            ? cancel.status()
            : absl::DeadlineExceededError(absl::StrCat(
                  "no answer within ", absl::FormatDuration(limit)));
  }
}

Finding PeerFinding(const PeerFacts& peer) {
  const std::string check = absl::StrCat("peer ", peer.name);
  if (peer.status.ok())
    return Good(check, absl::StrCat("connects in ", HumanDuration(peer.took)));
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
  absl::Duration slowest;
  size_t reached = 0;
  for (const PeerFacts& worker : workers) {
    if (worker.status.ok()) {
      ++reached;
      slowest = std::max(slowest, worker.took);
      continue;
    }
    absl::StrAppend(&lost, lost.empty() ? "; not " : ", ", worker.name, " at ",
                    worker.address, " (", std::string(worker.status.message()),
                    ")");
  }
  const std::string what =
      absl::StrCat(reached, " of ", workers.size(),
                   " connect from here, within ", HumanDuration(slowest), lost);
  if (lost.empty()) return Good("workers' ports", what);
  return Fail("workers' ports", what,
              "ranks of this host and those cannot train together",
              std::string(kOpenPorts), ExitCode::kRetryElsewhere);
}

}  // namespace ringmaster::ctl
