// Link is one connected, non-blocking byte stream to a peer, in both
// directions.
//
// Guarantees: bytes arrive complete and in order, or the link fails. Not
// guaranteed: that written bytes ever arrive. FrameWriter and FrameReader
// (frame_stream.h) put frames on it.
// Thread-safety: TryWrite and TryRead from one thread at a time each; Close and
// peer() from any thread.
#ifndef RINGMASTER_COMMON_TRANSPORT_LINK_H_
#define RINGMASTER_COMMON_TRANSPORT_LINK_H_

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/monotonic_time.h"

namespace ringmaster {

class Link {
 public:
  virtual ~Link() = default;

  // Writes from the start of `parts` what fits; returns the number of bytes, 0
  // if the link is full now.
  //   UNAVAILABLE  the peer closed or reset the connection, or Close was
  //   called; the message names the peer
  [[nodiscard]] virtual absl::StatusOr<size_t> TryWrite(
      std::span<const iovec> parts) = 0;

  // Reads into `parts`, in order, what has arrived; returns the number of
  // bytes, 0 if nothing has.
  //   UNAVAILABLE  as above; bytes that arrived before the end of the stream
  //   are returned first
  [[nodiscard]] virtual absl::StatusOr<size_t> TryRead(
      std::span<const iovec> parts) = 0;

  // Checks at `now` whether the peer's host still answers. Call it now and then
  // while waiting for the link; from the thread that writes.
  //   UNAVAILABLE  what was sent, or a probe, has been unanswered for too long:
  //   the network drops packets in one direction or both, or the host is gone.
  //   Never returned for a live peer that reads nothing.
  [[nodiscard]] virtual absl::Status CheckPeer(MonotonicTime now) {
    (void)now;
    return absl::OkStatus();
  }

  // For poll(2): POLLIN and POLLOUT say that TryRead and TryWrite may make
  // progress. Valid for the link's life.
  [[nodiscard]] virtual int fd() const = 0;

  // If a rate, and not the peer, held back the last TryWrite (`is_send`) or
  // TryRead: returns a descriptor to poll in place of fd(), which becomes
  // readable once more may pass; else -1.
  [[nodiscard]] virtual int HeldFd(bool is_send) {
    (void)is_send;
    return -1;
  }

  // Ends both directions at once; a thread in poll on fd() wakes up.
  // Idempotent, from any thread.
  virtual void Close() = 0;

  // "rank 3 at 10.0.0.7:40312": for messages.
  [[nodiscard]] virtual const std::string& peer() const = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_LINK_H_
