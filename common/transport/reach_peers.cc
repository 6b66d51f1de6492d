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
  size_t failed = 0;        // attempts
  absl::Status last_error;  // that decides nothing by itself
  std::optional<absl::Status> outcome;

  void Decide(absl::Status status) {
    outcome = status.ok() ? status : Annotate(status, name);
    attempts.clear();
  }
  // An attempt that cannot even begin, for want of descriptors say, asks nobody.
  void Dial(size_t attempt) {
    if (outcome.has_value()) return;
    absl::StatusOr<UniqueFd> socket =
        BeginConnect(addresses[attempt % addresses.size()]);
    if (socket.ok()) {
      attempts.push_back(*std::move(socket));
    } else {
      last_error = socket.status();
    }
  }
  // The attempt over `fd` has succeeded or failed. Every address is asked before
  // the peer is given up.
  void OnReady(int fd) {
    const absl::Status result = ConnectResult(fd);
    std::erase_if(attempts,
                  [fd](const UniqueFd& each) { return each.get() == fd; });
    if (result.ok() || ++failed >= addresses.size()) {
      Decide(result);
    } else {
      Dial(failed);
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

// Tells the one of `targets` whose attempt `fd` is.
void OnReady(std::vector<Target>& targets, int fd) {
  for (Target& target : targets) {
    const auto is_fd = [fd](const UniqueFd& each) { return each.get() == fd; };
    if (std::any_of(target.attempts.begin(), target.attempts.end(), is_fd)) {
      target.OnReady(fd);
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
  std::vector<Target> targets;
  for (const std::string& address : addresses)
    targets.push_back(TargetAt(address));
  const MonotonicTime begin = clock.Now();
  const MonotonicTime deadline = begin + timeout;
  size_t dials = 0;
  absl::Status end = absl::DeadlineExceededError(
      absl::StrCat("no connection within ", absl::FormatDuration(timeout)));
  while (!AreDecided(targets) && clock.Now() < deadline) {
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
    if (!target.outcome.has_value()) {
      // Where nothing was sent, its silence is no answer.
      const bool was_asked = target.failed > 0 || !target.attempts.empty();
      target.Decide(was_asked || target.last_error.ok() ? end
                                                        : target.last_error);
    }
    outcomes.push_back(*std::move(target.outcome));
  }
  return outcomes;
}

}  // namespace ringmaster
