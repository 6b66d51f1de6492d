// StripedChannel spreads the frames of one pair over several channels, for
// networks that give one connection less than their whole bandwidth: clouds
// limit each flow, and routers choose a path by flow.
//
// Frame i goes over channel i mod n, in each direction, so both sides know
// where to look, and order is kept without any coordination. Both must have the
// same number of channels, in the same order.
// Thread-safety: as Channel.
#ifndef RINGMASTER_COMMON_TRANSPORT_STRIPED_CHANNEL_H_
#define RINGMASTER_COMMON_TRANSPORT_STRIPED_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/channel.h"

namespace ringmaster {

class StripedChannel final : public Channel {
 public:
  // Takes at least one channel.
  explicit StripedChannel(std::vector<std::unique_ptr<Channel>> channels);

  [[nodiscard]] absl::StatusOr<Progress> TrySend(
      const OutgoingFrame& frame) override;
  [[nodiscard]] absl::StatusOr<Progress> TryReceive(
      const IncomingFrame& frame) override;
  [[nodiscard]] bool sends_taken() const override;
  [[nodiscard]] bool BeginWait(bool for_send, bool for_receive,
                               std::vector<pollfd>& polled) override;
  [[nodiscard]] absl::Status EndWait(std::span<const pollfd> polled) override;
  [[nodiscard]] absl::Status CheckPeer(MonotonicTime now) override;
  void Close() override;
  [[nodiscard]] const std::string& peer() const override {
    return stripes_.front().channel->peer();
  }
  [[nodiscard]] Transport transport() const override {
    return stripes_.front().channel->transport();
  }
  [[nodiscard]] FrameIntegrity integrity() const override {
    return stripes_.front().channel->integrity();
  }

 private:
  struct Stripe {
    std::unique_ptr<Channel> channel;
    // The descriptors that it polls in the wait that has begun; 0: it is not
    // waited for.
    size_t polled_count = 0;
  };

  std::vector<Stripe> stripes_;
  size_t sending_ = 0;    // the stripe of the next frame
  size_t receiving_ = 0;  // likewise
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_STRIPED_CHANNEL_H_
