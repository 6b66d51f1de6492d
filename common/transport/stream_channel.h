// StreamChannel is a Channel over a Link: frames on one byte stream.
//
// Payloads that need no conversion go between the socket and the elements
// without a copy, except short ones, which are received together with their
// header and copied. All others pass through a buffer of the channel's own, one
// for each direction, as large as the largest such frame so far. A payload that
// is decoded (IncomingFrame::decode) is complete by then and, if frames carry
// checksums or are encrypted, verified. A payload that replaces elements may have been placed by
// the time its frame turns out to be damaged.
#ifndef RINGMASTER_COMMON_TRANSPORT_STREAM_CHANNEL_H_
#define RINGMASTER_COMMON_TRANSPORT_STREAM_CHANNEL_H_

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "common/transport/channel.h"
#include "common/transport/frame_cipher.h"
#include "common/transport/frame_stream.h"
#include "common/transport/link.h"

namespace ringmaster {

class StreamChannel final : public Channel {
 public:
  // `self_rank` appears in the message about a refused frame; `transport` says
  // what `link` runs over. Frames carry `integrity` both ways: the peer's
  // channel must have the same. With kAes256Gcm there must be `keys`, which no
  // other channel has or had.
  StreamChannel(int self_rank, std::unique_ptr<Link> link, Transport transport,
                FrameIntegrity integrity = FrameIntegrity::kNone,
                const FrameKeys* keys = nullptr);

  [[nodiscard]] absl::StatusOr<Progress> TrySend(
      const OutgoingFrame& frame) override;
  [[nodiscard]] absl::StatusOr<Progress> TryReceive(
      const IncomingFrame& frame) override;

  // With neither `for_send` nor `for_receive` the wait is for the peer's end
  // alone: use it for channels that are still needed later. Bytes that a peer
  // sent before its end stay readable: a wait for it, or for nothing, fails
  // only once all of it has been received; a wait to send fails at once, since
  // nobody will take it.
  [[nodiscard]] bool BeginWait(bool for_send, bool for_receive,
                               std::vector<pollfd>& polled) override;
  [[nodiscard]] absl::Status EndWait(std::span<const pollfd> polled) override;

  [[nodiscard]] absl::Status CheckPeer(MonotonicTime now) override {
    return link_->CheckPeer(now);
  }
  void Close() override;
  [[nodiscard]] const std::string& peer() const override {
    return link_->peer();
  }
  [[nodiscard]] Transport transport() const override { return transport_; }
  [[nodiscard]] FrameIntegrity integrity() const override { return integrity_; }

 private:
  [[nodiscard]] absl::Status BeginSend(const OutgoingFrame& frame);
  void Count(const OutgoingFrame& frame) const;
  void BeginReceive(const IncomingFrame& frame);
  void Place(const IncomingFrame& frame) const;
  [[nodiscard]] bool HasUnread() const;
  // Returns why the stream is over, once nothing more can come.
  [[nodiscard]] absl::Status Fate();
  [[nodiscard]] absl::Status ClosedHere() const;

  const std::unique_ptr<Link> link_;
  const Transport transport_;
  const FrameIntegrity integrity_;
  std::atomic<bool> is_closed_{false};

  FrameWriter writer_;
  std::vector<std::byte> encoded_;
  bool is_sending_ = false;

  FrameReader reader_;
  std::vector<std::byte> staged_;
  bool is_receiving_ = false;
  bool is_staged_ = false;  // the frame being received goes through staged_

  // The wait under way.
  bool waits_for_send_ = false;
  bool waits_for_receive_ = false;
  bool has_peer_ended_ = false;  // seen by a wait; there was more to read
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_STREAM_CHANNEL_H_
