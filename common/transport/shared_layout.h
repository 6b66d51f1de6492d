// The layout of the segment of a SharedChannel.
//
// A control block, then the slots: a header of 64 bytes and a payload each.
// A header is a FrameHeader's bytes (frame.h) with byte 59 in another role: 0,
// the payload stands in the slot; 1, it stands in the sender's arena, at the
// offset (u64, little endian) in the first 8 bytes of the slot.
// The peer may change its segment at any time, so no field that is read is
// trusted.
#ifndef RINGMASTER_COMMON_TRANSPORT_SHARED_LAYOUT_H_
#define RINGMASTER_COMMON_TRANSPORT_SHARED_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/transport/frame.h"

namespace ringmaster {

// Each field on a cache line of its own: each has its own readers.
struct SharedControl {
  // Frames this side has published; frame i, from 0, is in slot i % count.
  alignas(64) std::atomic<uint64_t> published;
  // Frames of the peer that this side has taken: their slots are free again.
  alignas(64) std::atomic<uint64_t> taken;
  // 0: awake. Else 4 * (number of the sleep, from 1) + what wakes it.
  alignas(64) std::atomic<uint64_t> sleep;
  // Not 0 once this side publishes and takes no more, and its arena may change.
  alignas(64) std::atomic<uint64_t> is_closed;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(SharedControl) == 256);

inline constexpr uint64_t kWakeOnPublished = 1;
inline constexpr uint64_t kWakeOnTaken = 2;

inline constexpr size_t kPlaceByte = 59;
inline constexpr std::byte kInSlot{0};
inline constexpr std::byte kInArena{1};

// The number of frames that may be under way in one direction, and their
// largest payload.
struct SharedSlots {
  uint32_t count = 4;
  uint32_t payload_bytes = 256 << 10;

  friend bool operator==(const SharedSlots&, const SharedSlots&) = default;
};

inline constexpr uint32_t kMaxSlots = 64;

// Returns true if a channel can have them: at most kMaxSlots, of 64 bytes to
// kMaxFramePayloadBytes in whole cache lines.
[[nodiscard]] constexpr bool IsValid(SharedSlots slots) {
  return slots.count >= 1 && slots.count <= kMaxSlots &&
         slots.payload_bytes >= 64 && slots.payload_bytes % 64 == 0 &&
         slots.payload_bytes <= kMaxFramePayloadBytes;
}

// Bytes from the segment's start to slot `index`.
[[nodiscard]] constexpr size_t SlotOffset(SharedSlots slots, uint64_t index) {
  return sizeof(SharedControl) +
         index * (kFrameHeaderBytes + size_t{slots.payload_bytes});
}

[[nodiscard]] constexpr size_t SegmentBytes(SharedSlots slots) {
  return SlotOffset(slots, slots.count);
}

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_SHARED_LAYOUT_H_
