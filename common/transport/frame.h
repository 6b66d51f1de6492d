// FrameHeader: what stands before every payload on the data plane, and how it
// looks on the wire.
//
// Every frame says which collective of which generation it belongs to, so that
// a receiver can refuse a stale or mismatched one before its payload reaches a
// buffer. 64 bytes, little endian, no padding:
//   0 magic u32 | 4 version u16 | 6 op u8 | 7 dtype u8 | 8 job u64 | 16
//   generation u64 | 24 sequence u64 | 32 count u64 | 40 offset u64 | 48
//   source_rank u32 | 52 step u16 | 54 root u16 | 56 algorithm u8 | 57
//   reduction u8 | 58 wire u8 | 59 integrity u8 | 60 payload_bytes u32
// On a stream, a frame whose integrity is CRC32C has 8 bytes more before its
// payload:
//   64 checksum of the payload u32 | 68 checksum of the 68 bytes before u32
// One whose integrity is AES-256-GCM has the tag of its header there, 16 bytes,
// and the tag of its payload, if it has one, after the payload, which is
// encrypted (frame_cipher.h).
// A receiver knows each field of the next frame in advance, so a damaged header
// never matches. The checksum, or the tag, tells damage, after which the same
// members may begin again, from a frame that another program or plan sent on
// purpose.
//
// Pure; encode and parse are total: any 64 bytes give a header or a Status.
#ifndef RINGMASTER_COMMON_TRANSPORT_FRAME_H_
#define RINGMASTER_COMMON_TRANSPORT_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ringmaster {

inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr uint32_t kFrameMagic = 0x46524D52;  // "RMRF"
inline constexpr uint16_t kFrameVersion = 2;
// No frame of ours carries more; a larger claim is refused before anything is
// read.
inline constexpr uint32_t kMaxFramePayloadBytes = 4u << 20;

// The means by which a receiver finds damage in a frame. The numbers are those on
// the wire, and those of the protocol (ringmaster.v1.FrameIntegrity).
enum class FrameIntegrity : uint8_t { kNone = 0, kCrc32c = 1, kAes256Gcm = 2 };

inline constexpr size_t kFrameChecksumBytes = 8;
inline constexpr size_t kCheckedHeadBytes =
    kFrameHeaderBytes + kFrameChecksumBytes;
inline constexpr size_t kFrameTagBytes = 16;
inline constexpr size_t kMaxFrameHeadBytes = kFrameHeaderBytes + kFrameTagBytes;

// Returns the bytes of a frame on a stream before its payload.
[[nodiscard]] constexpr size_t FrameHeadBytes(FrameIntegrity integrity) {
  switch (integrity) {
    case FrameIntegrity::kCrc32c:
      return kCheckedHeadBytes;
    case FrameIntegrity::kAes256Gcm:
      return kMaxFrameHeadBytes;
    case FrameIntegrity::kNone:
      break;
  }
  return kFrameHeaderBytes;
}

// Returns its bytes after the payload.
[[nodiscard]] constexpr size_t FrameTailBytes(FrameIntegrity integrity,
                                              uint32_t payload_bytes) {
  return integrity == FrameIntegrity::kAes256Gcm && payload_bytes > 0
             ? kFrameTagBytes
             : 0;
}

using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

struct FrameHeader {
  uint64_t job = 0;  // JobHash of the job's id
  uint64_t generation = 0;
  uint64_t sequence =
      0;                // position of the collective in the generation, from 1
  uint64_t count = 0;   // elements in the whole buffer
  uint64_t offset = 0;  // bytes from the buffer's start to this payload
  uint32_t source_rank = 0;  // who sends it
  uint16_t step = 0;         // of the schedule
  uint16_t root = 0;         // broadcast only
  uint32_t payload_bytes = 0;
  uint8_t op = 0;         // CollectiveOp, or another user's own code
  uint8_t dtype = 0;      // DType of the buffer
  uint8_t wire = 0;       // DType of the payload
  uint8_t reduction = 0;  // Reduction
  uint8_t algorithm = 0;  // Algorithm
  // Set by the channel that carries the frame.
  FrameIntegrity integrity = FrameIntegrity::kNone;

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

[[nodiscard]] FrameHeaderBytes EncodeFrameHeader(const FrameHeader& header);

// FAILED_PRECONDITION for a wrong magic or version, an unknown integrity, or a
// payload above kMaxFramePayloadBytes.
[[nodiscard]] absl::StatusOr<FrameHeader> ParseFrameHeader(
    std::span<const std::byte, kFrameHeaderBytes> bytes);

// The two checksums of a frame with integrity kCrc32c, as they follow its header.
using FrameChecksumBytes = std::array<std::byte, kFrameChecksumBytes>;
[[nodiscard]] FrameChecksumBytes FrameChecksums(
    const FrameHeaderBytes& header, std::span<const std::byte> payload);

// Returns the payload's checksum according to `head`. UNAVAILABLE: `head` is
// damaged; the message says how, and names no rank.
[[nodiscard]] absl::StatusOr<uint32_t> PayloadChecksumOf(
    std::span<const std::byte, kCheckedHeadBytes> head);

// OK iff `got` equals `expected` in every field. Otherwise FAILED_PRECONDITION
// that names the sender and `self_rank`, the first field that differs in the
// order of blame (job, generation, sequence, op, ...), and the expected and
// actual values.
[[nodiscard]] absl::Status MatchFrame(const FrameHeader& expected,
                                      const FrameHeader& got, int self_rank);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_FRAME_H_
