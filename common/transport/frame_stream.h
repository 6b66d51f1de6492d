// FrameWriter and FrameReader move frames over a Link, a piece at a time,
// without copying payloads.
//
// The reader is given the header of the next frame: on the data plane every
// receiver knows it in advance. It compares the header before it places any
// payload, and fetches the header of the frame after it in the same read.
// Readers and writers do not remember failures: after an error the stream's
// position is lost, so close the link.
// Where frames carry checksums, the writer goes over a payload once before its
// first byte leaves, and the reader over each piece as it arrives, while that is
// in the processor's cache. A frame is done only once its checksums are right;
// the place of a damaged payload may hold any bytes.
// Where frames are encrypted, the writer seals a payload piece by piece into a
// buffer of its own, so that the kernel sends one while the next is sealed; the
// reader opens each piece where it has arrived.
// Thread-compatible.
#ifndef RINGMASTER_COMMON_TRANSPORT_FRAME_STREAM_H_
#define RINGMASTER_COMMON_TRANSPORT_FRAME_STREAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/transport/frame.h"
#include "common/transport/frame_cipher.h"
#include "common/transport/link.h"

namespace ringmaster {

class FrameWriter {
 public:
  // Its frames carry `integrity`, whatever their headers say. With kAes256Gcm
  // there must be a `key`, which nothing else has sealed with.
  explicit FrameWriter(FrameIntegrity integrity = FrameIntegrity::kNone,
                       const FrameKey* key = nullptr);

  // Begins `header` followed by header.payload_bytes at `payload`, which must
  // stay unchanged until idle(). Requires idle().
  void Begin(const FrameHeader& header, const std::byte* payload);

  // Keeps a copy of a small frame, which goes before the one that is begun
  // next: one system call in place of two, and the peer is woken once. Requires
  // idle(), and leaves it so.
  void Hold(const FrameHeader& header, const std::byte* payload);

  // True when nothing is left of the frame begun last.
  [[nodiscard]] bool idle() const { return sent_ == total_; }

  // Writes what fits. Returns the number of bytes, 0 if the link is full.
  //   UNAVAILABLE  from the link; or the key is used up (kMaxSealedMessages)
  [[nodiscard]] absl::StatusOr<size_t> Advance(Link& link);

 private:
  // Adds the header of a frame to hold or to begin.
  void AddHeader(FrameHeader header, const std::byte* payload);
  // Seals the next piece of the payload into sealed_, and after the last the
  // tag.
  void SealPiece();
  // The rest to send of the payload, or of its sealed piece.
  [[nodiscard]] std::span<const std::byte> BodyLeft();

  const FrameIntegrity integrity_;
  std::optional<FrameCipher> cipher_;
  // The bytes before the payload: frames that were held, and its header.
  std::vector<std::byte> head_;
  bool has_held_ = false;  // head_ waits for the next frame
  const std::byte* payload_ = nullptr;
  size_t sent_ = 0;  // of head, payload and tag together
  size_t total_ = 0;
  size_t payload_bytes_ = 0;
  // The sealed piece on its way, which lies in [piece_begin_, piece_end_) of
  // head, payload and tag, and the payload's bytes sealed so far.
  std::vector<std::byte> sealed_;
  size_t piece_begin_ = 0;
  size_t piece_end_ = 0;
  size_t sealed_bytes_ = 0;
};

class FrameReader {
 public:
  // `self_rank` appears in the message about a refused frame; all of them must
  // carry `integrity`. With kAes256Gcm there must be a `key`, the writer's.
  explicit FrameReader(int self_rank,
                       FrameIntegrity integrity = FrameIntegrity::kNone,
                       const FrameKey* key = nullptr);

  // Expects the frame `expected`, whose payload goes to `payload`. With
  // `is_scratch`, payload bytes may be placed there before the header was
  // compared (one read instead of two); without, never.
  void Begin(const FrameHeader& expected, std::byte* payload, bool is_scratch);

  // True when the frame begun last has arrived completely.
  [[nodiscard]] bool done() const {
    return header_checked_ && payload_have_ == expected_.payload_bytes &&
           tail_have_ == tail_bytes_;
  }

  // True if the header of the next frame has come, in part or whole, with the
  // frame begun last.
  [[nodiscard]] bool holds_next() const { return next_have_ > 0; }

  // Reads what has arrived. Returns the number of bytes, 0 if nothing came
  // (done() may still have become true, when the header had come before).
  //   FAILED_PRECONDITION  the header is not the expected one
  //   UNAVAILABLE  from the link; or the frame was damaged on its way: begins
  //   with "damaged frame" and names both ranks
  [[nodiscard]] absl::StatusOr<size_t> Advance(Link& link);

 private:
  [[nodiscard]] absl::Status CheckHeader();
  [[nodiscard]] absl::Status CheckSender();
  void TakePayload(size_t bytes);
  [[nodiscard]] absl::Status CheckPayload();
  [[nodiscard]] absl::Status Damaged(absl::string_view how) const;

  const int self_rank_;
  const FrameIntegrity integrity_;
  std::optional<FrameCipher> cipher_;
  const size_t head_bytes_;
  FrameHeader expected_;
  std::byte* payload_ = nullptr;
  bool is_scratch_ = false;
  bool header_checked_ = true;
  std::array<std::byte, kMaxFrameHeadBytes> header_;  // of the current frame
  size_t header_have_ = 0;
  size_t payload_have_ = 0;
  uint32_t claimed_checksum_ = 0;  // of the payload; with the header
  uint32_t payload_checksum_ = 0;  // of what has come of it
  FrameTag tail_;                  // of an encrypted payload
  size_t tail_bytes_ = 0;
  size_t tail_have_ = 0;
  // The header of the frame after it, as far as it came with this payload.
  std::array<std::byte, kMaxFrameHeadBytes> next_header_;
  size_t next_have_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_FRAME_STREAM_H_
