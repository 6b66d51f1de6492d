#include "common/transport/reach_peers.h"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/annotate.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/socket_address.h"
#include "common/transport/tcp.h"
#include "common/transport/unique_fd.h"
#include "common/transport/wait_io.h"

namespace ringmaster {
namespace {

// A connection is tried so often within the timeout.
constexpr int kAttempts = 4;

struct Target {
  std::string name;
  std::vector<SocketAddress> addresses;
  std::vector<UniqueFd> attempts;
  std::optional<absl::Status> outcome;

  void Decide(absl::Status status) {
    outcome = status.ok() ? status : Annotate(status, name);
    attempts.clear();
  }
  void Dial(size_t attempt) {
    if (outcome.has_value()) return;
    absl::StatusOr<UniqueFd> socket =
        BeginConnect(addresses[attempt % addresses.size()]);
    if (socket.ok()) {
      attempts.push_back(*std::move(socket));
    } else {
      Decide(socket.status());
    }
  }
};

Target TargetAt(const std::string& address) {
  Target target;
  target.name = address;
  absl::StatusOr<std::vector<SocketAddress>> addresses = Resolve(address);
  if (addresses.ok()) {
    target.addresses = *std::move(addresses);
  } else {
    target.Decide(addresses.status());
  }
  return target;
}

// Takes the outcome of the attempt over `fd`, if it is one of `targets`.
void OnReady(std::vector<Target>& targets, int fd) {
  for (Target& target : targets) {
    for (const UniqueFd& attempt : target.attempts) {
      if (attempt.get() != fd) continue;
      target.Decide(ConnectResult(fd));
      return;
    }
  }
}

}  // namespace

std::vector<absl::Status> ReachPeers(std::span<const std::string> addresses,
                                     absl::Duration timeout, Clock& clock,
                                     const CancelToken& cancel) {
  std::vector<Target> targets;
  for (const std::string& address : addresses)
    targets.push_back(TargetAt(address));
  const MonotonicTime begin = clock.Now();
  const MonotonicTime deadline = begin + timeout;
  size_t dials = 0;
  absl::Status end = WithLinkFailure(
      absl::DeadlineExceededError(
          absl::StrCat("no connection within ", absl::FormatDuration(timeout))),
      LinkFailure::kNoAnswer);
  while (clock.Now() < deadline) {
    if (cancel.is_cancelled()) {
      end = cancel.status();
      break;
    }
    const MonotonicTime next_dial =
        begin + timeout / kAttempts * static_cast<int>(dials);
    if (dials < kAttempts && clock.Now() >= next_dial) {
      for (Target& target : targets) target.Dial(dials);
      ++dials;
      continue;
    }
    std::vector<pollfd> polled;
    for (const Target& target : targets) {
      for (const UniqueFd& attempt : target.attempts)
        polled.push_back({attempt.get(), POLLOUT, 0});
    }
    if (polled.empty()) break;  // all is decided
    polled.push_back({cancel.fd(), POLLIN, 0});
    const MonotonicTime wake =
        dials < kAttempts ? std::min(next_dial, deadline) : deadline;
    if (absl::Status waited = WaitIo(polled, wake - clock.Now());
        !waited.ok()) {
      end = std::move(waited);
      break;
    }
    for (const pollfd& ready : polled) {
      if (ready.revents != 0) OnReady(targets, ready.fd);
    }
  }
  std::vector<absl::Status> outcomes;
  for (Target& target : targets) {
    if (!target.outcome.has_value()) target.Decide(end);
    outcomes.push_back(*std::move(target.outcome));
  }
  return outcomes;
}

}  // namespace ringmaster
