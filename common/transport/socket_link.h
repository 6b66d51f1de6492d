// SocketLink is a Link over a connected stream socket; LoopbackPair makes two
// that are connected to each other.
//
// A peer's death is seen as the end of its socket, so no other process may hold
// that socket open. All descriptors of the data plane are closed by exec(2); a
// child that a worker forked without exec (multiprocessing's way to load data,
// say) would keep them and hide the worker's death from its peers. Nothing in a
// worker forks: only its supervisor does, before there are such descriptors,
// and it calls exec at once.
#ifndef RINGMASTER_COMMON_TRANSPORT_SOCKET_LINK_H_
#define RINGMASTER_COMMON_TRANSPORT_SOCKET_LINK_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "common/transport/channel.h"
#include "common/transport/link.h"
#include "common/transport/link_rate.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

class SocketLink final : public Link {
 public:
  // Takes a connected, non-blocking stream socket; `peer` is the other side's
  // name in messages. CheckPeer gives up a peer whose host has answered nothing
  // for `silence_limit`; over kTcp only: inside a host nothing is lost.
  SocketLink(UniqueFd socket, std::string peer,
             absl::Duration silence_limit = absl::InfiniteDuration(),
             Transport transport = Transport::kTcp);

  // Over TCP: holds it to `rate`, which outlives it; null for none. By default
  // that of the process.
  void HoldTo(LinkRate* rate) { rate_ = rate; }

  [[nodiscard]] absl::StatusOr<size_t> TryWrite(
      std::span<const iovec> parts) override;
  [[nodiscard]] absl::StatusOr<size_t> TryRead(
      std::span<const iovec> parts) override;
  [[nodiscard]] absl::Status CheckPeer(MonotonicTime now) override;
  [[nodiscard]] int fd() const override { return socket_.get(); }
  [[nodiscard]] int HeldFd(bool is_send) override;
  void Close() override;
  [[nodiscard]] const std::string& peer() const override { return peer_; }
  [[nodiscard]] Transport transport() const { return transport_; }
  // Returns true if the other side has closed, or the connection has failed;
  // bytes that it sent before may still be unread.
  [[nodiscard]] bool HasHungUp() const;

 private:
  // A direction that a rate may hold back.
  struct Hold {
    bool is_held = false;
    UniqueFd timer;  // made when it is first held
  };

  [[nodiscard]] absl::Status Failed(const char* what, int error) const;
  // The first bytes of `parts` that may pass now; all without a rate. Empty: it
  // is held.
  std::span<const iovec> Allowed(LinkRate::Direction direction,
                                 std::span<const iovec> parts);
  void Pass(LinkRate::Direction direction, size_t bytes);

  const UniqueFd socket_;
  const std::string peer_;
  const Transport transport_;
  const absl::Duration silence_limit_;
  LinkRate* rate_;
  Hold holds_[2];           // by direction
  std::vector<iovec> cut_;  // scratch
  // CheckPeer's: the earliest time of the next look, and the time since when
  // all looks found the peer silent; InfiniteFuture: the last did not.
  MonotonicTime look_at_;
  MonotonicTime silent_since_ = MonotonicTime::InfiniteFuture();
};

// The loopback transport: two ends of one stream inside this process, for rings
// of threads. Each end knows the other under the given name. RESOURCE_EXHAUSTED
// if the process has no descriptors left.
[[nodiscard]] absl::StatusOr<
    std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>>>
LoopbackPair(std::string first_peer, std::string second_peer);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_SOCKET_LINK_H_
