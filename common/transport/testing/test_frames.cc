#include "common/transport/testing/test_frames.h"

#include "absl/status/statusor.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"

namespace ringmaster {

FrameHeader HeaderOf(uint64_t sequence, size_t payload_bytes) {
  FrameHeader header;
  header.job = 9;
  header.generation = 2;
  header.sequence = sequence;
  header.source_rank = 1;
  header.payload_bytes = static_cast<uint32_t>(payload_bytes);
  return header;
}

std::vector<std::byte> Pattern(size_t size, uint64_t seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + seed);
  return bytes;
}

OutgoingFrame Outgoing(uint64_t sequence, std::span<const std::byte> bytes) {
  OutgoingFrame frame;
  frame.header = HeaderOf(sequence, bytes.size());
  frame.elements = bytes.data();
  frame.count = static_cast<int64_t>(bytes.size());
  return frame;
}

IncomingFrame Incoming(uint64_t sequence, std::span<std::byte> bytes) {
  IncomingFrame frame;
  frame.expected = HeaderOf(sequence, bytes.size());
  frame.elements = bytes.data();
  frame.count = static_cast<int64_t>(bytes.size());
  return frame;
}

bool BeginWait(Channel& channel, bool for_send, bool for_receive,
               pollfd& polled) {
  std::vector<pollfd> all;
  const bool may_sleep = channel.BeginWait(for_send, for_receive, all);
  RM_CHECK(all.size() == 1, "the channel polls one descriptor");
  polled = all.front();
  return may_sleep;
}

absl::Status EndWait(Channel& channel, const pollfd& polled) {
  return channel.EndWait(std::span(&polled, 1));
}

absl::Status WaitOnce(Channel& channel, bool for_send, bool for_receive,
                      int timeout_ms, bool* is_woken) {
  std::vector<pollfd> polled;
  int ready = 1;
  if (channel.BeginWait(for_send, for_receive, polled))
    ready = poll(polled.data(), polled.size(), timeout_ms);
  if (is_woken != nullptr) *is_woken = ready > 0;
  return channel.EndWait(polled);
}

absl::Status SendAll(Channel& channel, const OutgoingFrame& frame) {
  while (true) {
    ASSIGN_OR_RETURN(const Channel::Progress progress, channel.TrySend(frame));
    if (progress == Channel::Progress::kDone) return absl::OkStatus();
    if (progress == Channel::Progress::kMoved) continue;
    RETURN_IF_ERROR(WaitOnce(channel, /*for_send=*/true, false));
  }
}

absl::Status ReceiveAll(Channel& channel, const IncomingFrame& frame) {
  while (true) {
    ASSIGN_OR_RETURN(const Channel::Progress progress,
                     channel.TryReceive(frame));
    if (progress == Channel::Progress::kDone) return absl::OkStatus();
    if (progress == Channel::Progress::kMoved) continue;
    RETURN_IF_ERROR(WaitOnce(channel, false, /*for_receive=*/true));
  }
}

}  // namespace ringmaster
