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
// Thread-compatible.
#ifndef RINGMASTER_COMMON_TRANSPORT_FRAME_STREAM_H_
#define RINGMASTER_COMMON_TRANSPORT_FRAME_STREAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/transport/frame.h"
#include "common/transport/link.h"

namespace ringmaster {

class FrameWriter {
 public:
  // Its frames carry `integrity`, whatever their headers say.
  explicit FrameWriter(FrameIntegrity integrity = FrameIntegrity::kNone)
      : integrity_(integrity) {}

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
  [[nodiscard]] absl::StatusOr<size_t> Advance(Link& link);

 private:
  // Adds the header of a frame to hold or to begin.
  void AddHeader(FrameHeader header, const std::byte* payload);

  const FrameIntegrity integrity_;
  // The bytes before the payload: frames that were held, and its header.
  std::vector<std::byte> head_;
  bool has_held_ = false;  // head_ waits for the next frame
  const std::byte* payload_ = nullptr;
  size_t sent_ = 0;  // of head and payload together
  size_t total_ = 0;
};

class FrameReader {
 public:
  // `self_rank` appears in the message about a refused frame; all of them must
  // carry `integrity`.
  explicit FrameReader(int self_rank,
                       FrameIntegrity integrity = FrameIntegrity::kNone)
      : self_rank_(self_rank),
        integrity_(integrity),
        head_bytes_(FrameHeadBytes(integrity)) {}

  // Expects the frame `expected`, whose payload goes to `payload`. With
  // `is_scratch`, payload bytes may be placed there before the header was
  // compared (one read instead of two); without, never.
  void Begin(const FrameHeader& expected, std::byte* payload, bool is_scratch);

  // True when the frame begun last has arrived completely.
  [[nodiscard]] bool done() const {
    return header_checked_ && payload_have_ == expected_.payload_bytes;
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
  [[nodiscard]] absl::Status CheckPayload() const;
  [[nodiscard]] absl::Status Damaged(absl::string_view how) const;

  const int self_rank_;
  const FrameIntegrity integrity_;
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
  // The header of the frame after it, as far as it came with this payload.
  std::array<std::byte, kMaxFrameHeadBytes> next_header_;
  size_t next_have_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_FRAME_STREAM_H_
