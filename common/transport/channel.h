// Channel carries frames to and from one peer of a generation, over a stream
// (StreamChannel) or shared memory (SharedChannel).
//
// The receiver of a frame knows its header in advance; one that differs is
// refused before its payload reaches the buffer. Frames keep their order in
// each direction. Nothing blocks: TrySend and TryReceive do what can be done
// now, and a thread that has nothing left to do sleeps in poll(2) between
// BeginWait and EndWait, for any number of channels at once.
// After an error the positions in the stream are lost: call Close.
// Thread-safety: one thread at a time; Close, peer(), transport() and
// integrity() from any.
#ifndef RINGMASTER_COMMON_TRANSPORT_CHANNEL_H_
#define RINGMASTER_COMMON_TRANSPORT_CHANNEL_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"
#include "common/transport/frame.h"

namespace ringmaster {

// Conversions between elements in memory and the payload of a frame. Pure
// functions of `count` elements; wire bytes need not be aligned.
using EncodeFn = void (*)(std::byte* wire, const std::byte* elements,
                          int64_t count);
// Where a combination saw an infinity or a NaN: among the elements before it,
// or in the bytes from the wire.
struct NonFinite {
  bool in_elements = false;
  bool in_wire = false;

  NonFinite& operator|=(const NonFinite& other) {
    in_elements |= other.in_elements;
    in_wire |= other.in_wire;
    return *this;
  }
  friend bool operator==(const NonFinite&, const NonFinite&) = default;
};

// Decodes into `elements`: replaces them (a copy, a conversion; these see
// nothing) or combines with them (a sum).
using DecodeFn = NonFinite (*)(std::byte* elements, const std::byte* wire,
                               int64_t count);

struct OutgoingFrame {
  FrameHeader header;
  const std::byte* elements = nullptr;
  int64_t count = 0;
  EncodeFn encode = nullptr;  // null: the payload is the elements' bytes
  // Another frame follows at once; a small one may be kept to travel with it.
  bool is_followed = false;
};

struct IncomingFrame {
  FrameHeader expected;
  std::byte* elements = nullptr;
  int64_t count = 0;
  DecodeFn decode = nullptr;  // null: the payload becomes the elements' bytes
  // Collects what `decode` saw; may be null.
  NonFinite* non_finite = nullptr;
};

// Decodes a payload that is complete. Requires frame.decode.
inline void Decode(const IncomingFrame& frame, const std::byte* payload) {
  const NonFinite seen = frame.decode(frame.elements, payload, frame.count);
  if (frame.non_finite != nullptr) *frame.non_finite |= seen;
}

enum class Transport : uint8_t { kLoopback, kTcp, kUnix, kSharedMemory };

// "loopback", "tcp", "unix", "shared_memory".
[[nodiscard]] const char* TransportName(Transport transport);

class Channel {
 public:
  enum class Progress {
    kBlocked,  // nothing could be done
    kMoved,    // some bytes moved; call again with the same frame
    kDone,     // the frame is complete
  };

  virtual ~Channel() = default;

  // Sends `frame`; until kDone, call again with the same frame and no other,
  // and leave its elements alone. After kDone they may change, unless the peer
  // reads them in place: then only once sends_taken().
  //   UNAVAILABLE  the peer is gone, or Close was called; names the peer
  [[nodiscard]] virtual absl::StatusOr<Progress> TrySend(
      const OutgoingFrame& frame) = 0;

  // Receives the frame `frame.expected`; until kDone, as above.
  //   UNAVAILABLE          as above; or the frame was damaged on its way, both
  //   sides are named: where a payload replaces elements, these are undefined
  //   FAILED_PRECONDITION  another frame came: both sides are named
  [[nodiscard]] virtual absl::StatusOr<Progress> TryReceive(
      const IncomingFrame& frame) = 0;

  // Returns true if the peer has read all that it reads in place.
  [[nodiscard]] virtual bool sends_taken() const { return true; }

  // Before a poll(2): appends to `polled` what wakes the thread once a blocked
  // TrySend (`for_send`, also for sends_taken) or TryReceive may go on, or the
  // peer is gone. Returns false if something has changed already: do not sleep.
  // EndWait must follow in either case.
  [[nodiscard]] virtual bool BeginWait(bool for_send, bool for_receive,
                                       std::vector<pollfd>& polled) = 0;
  // After the poll(2), with what BeginWait appended.
  //   UNAVAILABLE  the peer is gone, and with it what the wait was for
  [[nodiscard]] virtual absl::Status EndWait(
      std::span<const pollfd> polled) = 0;

  // Link::CheckPeer.
  [[nodiscard]] virtual absl::Status CheckPeer(MonotonicTime now) = 0;

  // Ends both directions at once, for the peer too; a thread in poll wakes up.
  // Idempotent.
  virtual void Close() = 0;

  // "rank 3 at 10.0.0.7:40312": for messages.
  [[nodiscard]] virtual const std::string& peer() const = 0;
  [[nodiscard]] virtual Transport transport() const = 0;
  // The means by which its frames show damage.
  [[nodiscard]] virtual FrameIntegrity integrity() const {
    return FrameIntegrity::kNone;
  }
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_CHANNEL_H_
