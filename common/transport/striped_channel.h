// StripedChannel spreads the frames of one pair over several channels, for
// networks that give one connection less than all: clouds limit each flow, and
// routers choose a path by flow.
//
// Frame i goes over channel i mod n, in each direction, so both sides know where
// to look and order is kept without a word about it. Both must have the same
// number of channels, in the same order.
// Thread-safety: as Channel.
#ifndef RINGMASTER_COMMON_TRANSPORT_STRIPED_CHANNEL_H_
#define RINGMASTER_COMMON_TRANSPORT_STRIPED_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/channel.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

class StripedChannel final : public Channel {
 public:
  // Takes at least one channel.
  //   RESOURCE_EXHAUSTED  this process can open no more descriptors
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Channel>> Create(
      std::vector<std::unique_ptr<Channel>> channels);

  [[nodiscard]] absl::StatusOr<Progress> TrySend(
      const OutgoingFrame& frame) override;
  [[nodiscard]] absl::StatusOr<Progress> TryReceive(
      const IncomingFrame& frame) override;
  [[nodiscard]] bool sends_taken() const override;
  [[nodiscard]] bool BeginWait(bool for_send, bool for_receive,
                               pollfd& polled) override;
  [[nodiscard]] absl::Status EndWait(const pollfd& polled) override;
  [[nodiscard]] absl::Status CheckPeer(MonotonicTime now) override;
  void Close() override { CloseBecauseOf(-1); }
  void CloseBecauseOf(int rank) override;
  [[nodiscard]] int peer_closed_because_of() const override {
    return stripes_.front().channel->peer_closed_because_of();
  }
  [[nodiscard]] const std::string& peer() const override {
    return stripes_.front().channel->peer();
  }
  [[nodiscard]] Transport transport() const override {
    return stripes_.front().channel->transport();
  }

 private:
  struct Stripe {
    std::unique_ptr<Channel> channel;
    // Of the wait that has begun.
    bool is_awaited = false;
    pollfd polled = {-1, 0, 0};
    int watched_fd = -1;  // what the epoll instance watches
    short watched_events = 0;
  };

  StripedChannel(std::vector<Stripe> stripes, UniqueFd epoll)
      : stripes_(std::move(stripes)), epoll_(std::move(epoll)) {}
  // Lets the epoll instance watch what the stripe's wait is for.
  void Watch(size_t index);

  std::vector<Stripe> stripes_;
  // One descriptor for the waits of all stripes: epoll(7).
  const UniqueFd epoll_;
  size_t sending_ = 0;    // the stripe of the next frame
  size_t receiving_ = 0;  // likewise
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_STRIPED_CHANNEL_H_
