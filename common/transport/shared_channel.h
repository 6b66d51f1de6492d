// SharedChannel carries frames through memory that the two processes of a pair
// share; the Unix socket of the pair is its doorbell and shows when the peer
// dies.
//
// Each side writes into its own segment alone and maps the peer's for reading,
// so neither side can damage the other's memory: not a broken peer, nor one of
// an older generation, since each generation has new segments. The peer's
// segment is never trusted: an impossible counter, or a header that is not the
// expected one, is refused; no size or place is used unchecked.
// A frame takes one slot. If both sides spin, no system call is made. A side
// that goes to sleep says so in its segment and looks once more; the other,
// after a change, looks whether the peer sleeps, and if so writes a byte to the
// socket (each writes before it looks, so at least one sees the other).
//
// A large frame whose bytes already lie in the sender's arena is not copied:
// the slot says where it lies, and the receiver reads it there.
// Thread-safety: as Channel.
#ifndef RINGMASTER_COMMON_TRANSPORT_SHARED_CHANNEL_H_
#define RINGMASTER_COMMON_TRANSPORT_SHARED_CHANNEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/channel.h"
#include "common/transport/link.h"
#include "common/transport/shared_layout.h"
#include "common/transport/shared_segment.h"

namespace ringmaster {

// Smaller frames are copied even if they lie in the arena: a copy is cheaper
// than waiting until the peer has read them.
inline constexpr uint32_t kMinInPlaceBytes = 16 << 10;

class SharedChannel final : public Channel {
 public:
  struct Side {
    SharedSegment segment;
    SharedSlots slots;  // IsValid; the segment has SegmentBytes of them
    const SharedSegment* arena = nullptr;  // may be null; outlives the channel
  };
  struct PeerSide {
    PeerSegment segment;
    SharedSlots slots;  // likewise
    std::optional<PeerSegment> arena;
  };

  // `socket` is connected to the peer; all before this has been read from it.
  // `own.segment` is new and used for nothing else, ever. As kLoopback it
  // connects the rank with itself, and its frames do not count as traffic.
  SharedChannel(int self_rank, std::unique_ptr<Link> socket, Side own,
                PeerSide peer, Transport transport = Transport::kSharedMemory);
  ~SharedChannel() override { Close(); }

  // Also INVALID_ARGUMENT: the payload is larger than a slot.
  [[nodiscard]] absl::StatusOr<Progress> TrySend(
      const OutgoingFrame& frame) override;
  // Also FAILED_PRECONDITION: the peer's segment holds nonsense.
  [[nodiscard]] absl::StatusOr<Progress> TryReceive(
      const IncomingFrame& frame) override;
  [[nodiscard]] bool sends_taken() const override;
  // A wait that is not for_send, on a peer that is gone, fails once all that it
  // published has been received.
  [[nodiscard]] bool BeginWait(bool for_send, bool for_receive,
                               std::vector<pollfd>& polled) override;
  // Also FAILED_PRECONDITION: waited for_send, and the peer's count is
  // nonsense.
  [[nodiscard]] absl::Status EndWait(std::span<const pollfd> polled) override;
  // The peer is on the same host: its end is seen on the socket.
  [[nodiscard]] absl::Status CheckPeer(MonotonicTime) override {
    return absl::OkStatus();
  }
  void Close() override;
  [[nodiscard]] const std::string& peer() const override {
    return socket_->peer();
  }
  [[nodiscard]] Transport transport() const override { return transport_; }

 private:
  [[nodiscard]] bool IsInPlace(const OutgoingFrame& frame) const;
  void PutFrame(const OutgoingFrame& frame, bool is_in_place);
  // Returns true if the peer can have taken this many: neither fewer than
  // before nor more than there were.
  [[nodiscard]] bool IsPossible(uint64_t taken) const {
    return published_ - taken <= published_ - peer_taken_;
  }
  // FAILED_PRECONDITION if not.
  [[nodiscard]] absl::Status CheckTaken(uint64_t taken) const;
  // Returns true if there is a free slot; looks at the peer's counter only if
  // it must.
  [[nodiscard]] absl::StatusOr<bool> HasFreeSlot();
  // Returns true if there is a frame to receive; likewise.
  [[nodiscard]] absl::StatusOr<bool> HasFrame();
  // Checks the header of the frame in `slot`, and returns the place of its
  // payload.
  [[nodiscard]] absl::StatusOr<const std::byte*> FindPayload(
      const FrameHeader& expected, const std::byte* slot) const;
  // Wakes the peer if it sleeps until `what`.
  void Ring(uint64_t what);
  // Returns true if what BeginWait was asked for is there, or nonsense is.
  [[nodiscard]] bool IsReady() const;
  // Returns true if it will never be, given that the peer is gone or the
  // channel closed.
  [[nodiscard]] bool IsWaitLost() const;
  [[nodiscard]] bool IsGone() const;
  [[nodiscard]] absl::Status Gone() const;
  [[nodiscard]] absl::Status Nonsense(const char* counter, uint64_t got,
                                      uint64_t low, uint64_t high) const;

  const int self_rank_;
  const Transport transport_;
  const std::unique_ptr<Link> socket_;
  Side own_;
  const PeerSide peer_;
  SharedControl& own_control_;
  const SharedControl& peer_control_;
  std::atomic<bool> is_closed_{false};

  // Only the one thread uses the rest. Counts of frames, as in SharedControl.
  uint64_t published_ = 0;       // ours
  uint64_t taken_ = 0;           // by us
  uint64_t peer_published_ = 0;  // when last looked at
  uint64_t peer_taken_ = 0;
  uint64_t in_place_end_ = 0;  // behind our last frame that is read in place
  bool is_send_blocked_ = false;
  bool is_peer_gone_ = false;  // its socket ended
  uint64_t sleeps_ = 0;
  uint64_t wakes_on_ = 0;   // of the wait that has begun
  uint64_t last_rung_ = 0;  // the peer's sleep that was ended
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_SHARED_CHANNEL_H_
