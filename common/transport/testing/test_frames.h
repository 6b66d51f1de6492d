// Frames of bytes for the tests of code that carries frames: one job,
// generation and sender, told apart by their sequence numbers; and how a test
// sends and receives one, asleep while nothing moves.
#ifndef RINGMASTER_COMMON_TRANSPORT_TESTING_TEST_FRAMES_H_
#define RINGMASTER_COMMON_TRANSPORT_TESTING_TEST_FRAMES_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/transport/channel.h"
#include "common/transport/frame.h"

namespace ringmaster {

// Returns the header of a frame of rank 1, at generation 2.
[[nodiscard]] FrameHeader HeaderOf(uint64_t sequence, size_t payload_bytes);

// Bytes that differ from their neighbours, and from those of the next seeds.
[[nodiscard]] std::vector<std::byte> Pattern(size_t size, uint64_t seed);

// Frame `sequence`, its payload the bytes themselves.
[[nodiscard]] OutgoingFrame Outgoing(uint64_t sequence,
                                     std::span<const std::byte> bytes);
[[nodiscard]] IncomingFrame Incoming(uint64_t sequence,
                                     std::span<std::byte> bytes);

// For a channel that polls one descriptor.
[[nodiscard]] bool BeginWait(Channel& channel, bool for_send, bool for_receive,
                             pollfd& polled);
[[nodiscard]] absl::Status EndWait(Channel& channel, const pollfd& polled);

// Long for a poll that somebody must end.
inline constexpr int kTestPollMs = 5000;

// One poll between BeginWait and EndWait. `is_woken`, if not null: whether it
// ended before its timeout.
[[nodiscard]] absl::Status WaitOnce(Channel& channel, bool for_send,
                                    bool for_receive,
                                    int timeout_ms = kTestPollMs,
                                    bool* is_woken = nullptr);

// They return when the frame is complete.
[[nodiscard]] absl::Status SendAll(Channel& channel,
                                   const OutgoingFrame& frame);
[[nodiscard]] absl::Status ReceiveAll(Channel& channel,
                                      const IncomingFrame& frame);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_TESTING_TEST_FRAMES_H_
