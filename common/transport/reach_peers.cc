#include "common/transport/reach_peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/address.h"
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

struct Attempt {
  UniqueFd fd;
  size_t address;
};

struct Target {
  std::string name;
  std::vector<SocketAddress> addresses;
  std::vector<bool> has_failed;  // of each address
  std::vector<Attempt> attempts;
  absl::Status last_error;  // that says nothing about the link
  std::optional<absl::Status> outcome;

  void Decide(absl::Status status) {
    outcome = status.ok() ? status : Annotate(status, name);
    attempts.clear();
  }
  bool IsTried(size_t address) const {
    return has_failed[address] ||
           std::any_of(attempts.begin(), attempts.end(),
                       [&](const Attempt& a) { return a.address == address; });
  }
  // Tries the next address that has not failed; beginning with one that is not
  // under way, so that another attempt is made at one only when all are.
  void Dial() {
    while (!outcome.has_value()) {
      size_t next = 0;
      while (next < addresses.size() && IsTried(next)) ++next;
      if (next == addresses.size()) {
        const auto open =
            std::find(has_failed.begin(), has_failed.end(), false);
        next = static_cast<size_t>(open - has_failed.begin());
      }
      absl::StatusOr<UniqueFd> socket = BeginConnect(addresses[next]);
      if (socket.ok()) {
        attempts.push_back({*std::move(socket), next});
        return;
      }
      // An attempt that cannot even begin, for want of descriptors say.
      if (LinkFailureOf(socket.status()) == LinkFailure::kUnknown) {
        last_error = socket.status();
        return;
      }
      OnFailed(next, socket.status());
    }
  }
  void OnReady(size_t attempt) {
    const absl::Status result = ConnectResult(attempts[attempt].fd.get());
    if (result.ok()) {
      Decide(result);
      return;
    }
    const size_t address = attempts[attempt].address;
    attempts.erase(attempts.begin() + static_cast<ptrdiff_t>(attempt));
    OnFailed(address, result);
    if (attempts.empty()) Dial();
  }
  // Every address is asked before the peer is given up.
  void OnFailed(size_t address, const absl::Status& why) {
    has_failed[address] = true;
    if (std::find(has_failed.begin(), has_failed.end(), false) ==
        has_failed.end()) {
      Decide(why);
    }
  }
};

Target TargetOf(PeerAddresses peer) {
  Target target;
  target.name = std::move(peer.name);
  if (peer.addresses.ok()) {
    target.addresses = *std::move(peer.addresses);
    target.has_failed.resize(target.addresses.size());
  } else {
    target.Decide(peer.addresses.status());
  }
  return target;
}

// Tells the one of `targets` whose attempt `fd` is.
void OnReady(std::vector<Target>& targets, int fd) {
  for (Target& target : targets) {
    for (size_t i = 0; i < target.attempts.size(); ++i) {
      if (target.attempts[i].fd.get() != fd) continue;
      target.OnReady(i);
      return;
    }
  }
}

bool AreDecided(const std::vector<Target>& targets) {
  return std::all_of(targets.begin(), targets.end(), [](const Target& target) {
    return target.outcome.has_value();
  });
}

}  // namespace

bool IsNumeric(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return true;  // nobody is asked about it
  in6_addr any;
  return inet_pton(AF_INET, parsed->host.c_str(), &any) == 1 ||
         inet_pton(AF_INET6, parsed->host.c_str(), &any) == 1;
}

std::vector<absl::Status> ReachPeers(std::span<const std::string> addresses,
                                     absl::Duration timeout, Clock& clock,
                                     const CancelToken& cancel) {
  std::vector<PeerAddresses> peers;
  for (const std::string& address : addresses)
    peers.push_back({address, Resolve(address)});
  return ReachPeers(std::move(peers), timeout, clock, cancel);
}

std::vector<absl::Status> ReachPeers(std::vector<PeerAddresses> peers,
                                     absl::Duration timeout, Clock& clock,
                                     const CancelToken& cancel) {
  std::vector<Target> targets;
  for (PeerAddresses& peer : peers)
    targets.push_back(TargetOf(std::move(peer)));
  for (Target& target : targets) target.Dial();
  size_t dials = 1;
  const MonotonicTime begin = clock.Now();
  const MonotonicTime deadline = begin + timeout;
  bool was_last_look = false;
  absl::Status end = absl::DeadlineExceededError(
      absl::StrCat("no connection within ", absl::FormatDuration(timeout)));
  while (!AreDecided(targets) && !was_last_look) {
    // Where a busy machine has not let this thread run meanwhile, the kernel
    // has connected all the same.
    was_last_look = clock.Now() >= deadline;
    if (cancel.is_cancelled()) {
      end = cancel.status();
      break;
    }
    const MonotonicTime next_dial =
        begin + timeout / kAttempts * static_cast<int>(dials);
    if (dials < kAttempts && clock.Now() >= next_dial && !was_last_look) {
      for (Target& target : targets) target.Dial();
      ++dials;
      continue;
    }
    std::vector<pollfd> polled;
    for (const Target& target : targets) {
      for (const Attempt& attempt : target.attempts)
        polled.push_back({attempt.fd.get(), POLLOUT, 0});
    }
    polled.push_back({cancel.fd(), POLLIN, 0});
    const MonotonicTime wake =
        dials < kAttempts ? std::min(next_dial, deadline) : deadline;
    if (absl::Status waited =
            WaitIo(polled, std::max(wake - clock.Now(), absl::ZeroDuration()));
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
    if (!target.outcome.has_value()) {
      // Where nothing was sent, its silence is no answer.
      const bool was_asked = !target.attempts.empty();
      target.Decide(was_asked || target.last_error.ok() ? end
                                                        : target.last_error);
    }
    outcomes.push_back(*std::move(target.outcome));
  }
  return outcomes;
}

}  // namespace ringmaster
