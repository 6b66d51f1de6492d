#include "tests/fuzz/frames_target.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/checksum/crc32c.h"
#include "common/status/check.h"
#include "common/transport/frame_cipher.h"
#include "common/transport/frame_stream.h"
#include "common/transport/link.h"
#include "common/transport/little_endian.h"
#include "tests/fuzz/wire_input.h"

namespace ringmaster::fuzz {
namespace {

// One frame that is expected at a place of the stream.
struct Expected {
  FrameHeader header;
  bool is_scratch = false;
  size_t at = 0;  // in the stream
  Bytes payload;
  // Only of a sealed frame: whether its header's tag fits, and what its payload
  // is if that one's fits.
  bool is_header_sealed = false;
  std::optional<Bytes> opened = {};

  [[nodiscard]] size_t payload_at() const {
    return at + FrameHeadBytes(header.integrity);
  }
  [[nodiscard]] size_t payload_end() const {
    return payload_at() + payload.size();
  }
  [[nodiscard]] size_t end() const {
    return payload_end() + FrameTailBytes(header.integrity, payload.size());
  }
  // True if a header has come that fits its checksum, be it another frame's.
  [[nodiscard]] bool HasSoundHeaderIn(std::span<const std::byte> stream) const {
    if (stream.size() < payload_at()) return false;
    if (header.integrity == FrameIntegrity::kNone) return true;
    if (header.integrity == FrameIntegrity::kAes256Gcm) return is_header_sealed;
    const auto head = stream.subspan(at).first<kCheckedHeadBytes>();
    return Crc32c(head.first<68>()) ==
           LoadLittleEndian<uint32_t>(head.data() + 68);
  }
  [[nodiscard]] bool HasHeaderIn(std::span<const std::byte> stream) const {
    const FrameHeaderBytes bytes = EncodeFrameHeader(header);
    return HasSoundHeaderIn(stream) &&
           std::equal(bytes.begin(), bytes.end(), stream.begin() + at);
  }
  [[nodiscard]] bool HasSoundPayloadIn(
      std::span<const std::byte> stream) const {
    if (stream.size() < end()) return false;
    if (header.integrity == FrameIntegrity::kNone) return true;
    if (header.integrity == FrameIntegrity::kAes256Gcm)
      return opened.has_value();
    return Crc32c(stream.subspan(payload_at(), payload.size())) ==
           LoadLittleEndian<uint32_t>(stream.data() + at + 64);
  }
};

// Opens what `stream` has of the frame, whose header is message `number`, in one
// go; the reader under test does it in pieces.
void Open(std::span<const std::byte> stream, uint64_t number, Expected& frame) {
  if (stream.size() < frame.payload_at()) return;
  FrameCipher cipher(CipherSide::kOpen, SealedKey(), number);
  const auto head =
      stream.subspan(frame.at).first<kFrameHeaderBytes + kFrameTagBytes>();
  frame.is_header_sealed = cipher.OpenHeader(head.first<kFrameHeaderBytes>(),
                                             head.last<kFrameTagBytes>());
  if (stream.size() < frame.end()) return;
  Bytes payload(frame.payload.size());
  if (!payload.empty()) {
    cipher.BeginPayload();
    cipher.Pass(stream.subspan(frame.payload_at(), payload.size()),
                payload.data());
    if (!cipher.EndOpen(
            stream.subspan(frame.payload_end()).first<kFrameTagBytes>()))
      return;
  }
  frame.opened = std::move(payload);
}

// A payload is a message of its own.
void OpenAll(std::span<const std::byte> stream,
             std::vector<Expected>& expected) {
  uint64_t number = 0;
  for (Expected& frame : expected) {
    Open(stream, number, frame);
    number += frame.payload.empty() ? 1 : 2;
  }
}

// A stream that comes in chunks of given sizes and then ends. It sees where the
// reader would have it place the bytes.
class ChunkedLink final : public Link {
 public:
  ChunkedLink(std::span<const std::byte> stream,
              std::span<const std::byte, kChunks> chunks,
              const std::vector<Expected>& expected)
      : stream_(stream), chunks_(chunks), expected_(expected) {}

  [[nodiscard]] absl::StatusOr<size_t> TryRead(
      std::span<const iovec> parts) override;
  [[nodiscard]] absl::StatusOr<size_t> TryWrite(
      std::span<const iovec>) override {
    return absl::InternalError("nobody writes here");
  }
  [[nodiscard]] int fd() const override { return -1; }
  void Close() override {}
  [[nodiscard]] const std::string& peer() const override { return peer_; }

  // The frame that the reader was given last.
  void Await(size_t index) { awaited_ = index; }
  [[nodiscard]] bool is_over() const { return is_over_; }
  // The bytes read so far.
  [[nodiscard]] std::span<const std::byte> read() const {
    return stream_.first(position_);
  }

 private:
  void CheckPlaces(std::span<const iovec> parts) const;
  [[nodiscard]] size_t NextChunk();

  const std::span<const std::byte> stream_;
  const std::span<const std::byte, kChunks> chunks_;
  const std::vector<Expected>& expected_;
  const std::string peer_ = "the fuzzer";
  size_t awaited_ = 0;
  size_t position_ = 0;
  size_t reads_ = 0;
  bool is_over_ = false;
};

void ChunkedLink::CheckPlaces(std::span<const iovec> parts) const {
  const Expected& awaited = expected_[awaited_];
  const bool is_whole = position_ >= awaited.payload_at();
  const bool is_good = awaited.HasHeaderIn(read());
  RM_CHECK(is_good || !is_whole, "reads on after a header it must refuse");
  size_t total = 0;
  for (const iovec& part : parts) {
    total += part.iov_len;
    const auto begin = reinterpret_cast<uintptr_t>(part.iov_base);
    const uintptr_t end = begin + part.iov_len;
    for (size_t i = 0; i < expected_.size(); ++i) {
      const Bytes& payload = expected_[i].payload;
      const auto first = reinterpret_cast<uintptr_t>(payload.data());
      const uintptr_t last = first + payload.size();
      if (end <= first || begin >= last) continue;
      RM_CHECK(i == awaited_, "places bytes in another frame's payload");
      RM_CHECK(begin >= first && end <= last, "places bytes past a payload");
      RM_CHECK(is_good || awaited.is_scratch,
               "places a payload before its header is known");
    }
  }
  RM_CHECK(total > 0, "asks for no bytes, for ever");
}

size_t ChunkedLink::NextChunk() {
  const std::byte chunk = chunks_[reads_++ % kChunks];
  if (chunk == std::byte{255}) return std::numeric_limits<size_t>::max();
  // Nothing may come in seven reads of eight, but then something does.
  const size_t least = reads_ % kChunks == 0 ? 1 : 0;
  return std::max(least, std::to_integer<size_t>(chunk));
}

absl::StatusOr<size_t> ChunkedLink::TryRead(std::span<const iovec> parts) {
  CheckPlaces(parts);
  if (position_ == stream_.size()) {
    is_over_ = true;
    return absl::UnavailableError("the stream is over");
  }
  size_t left = std::min(NextChunk(), stream_.size() - position_);
  size_t placed = 0;
  for (const iovec& part : parts) {
    const size_t size = std::min(part.iov_len, left);
    std::copy_n(stream_.begin() + position_, size,
                static_cast<std::byte*>(part.iov_base));
    position_ += size;
    placed += size;
    left -= size;
  }
  return placed;
}

// Empty if `input` is too short for it; else takes it from there.
std::vector<Expected> TakeExpected(std::span<const std::byte>& input,
                                   FrameIntegrity integrity) {
  if (input.empty()) return {};
  const size_t count = std::to_integer<size_t>(input[0]) % kMaxFrames + 1;
  input = input.subspan(1);
  if (input.size() < count * kExpectationBytes + kChunks) return {};
  std::vector<Expected> expected(count);
  size_t at = 0;
  for (Expected& frame : expected) {
    const uint32_t size =
        LoadLittleEndian<uint16_t>(input.data() + 2) % (kMaxPayloadBytes + 1);
    frame.header = ExpectedHeader(std::to_integer<uint8_t>(input[1]), size);
    frame.header.integrity = integrity;
    frame.is_scratch = (input[0] & std::byte{1}) != std::byte{0};
    frame.at = at;
    frame.payload.resize(size);
    at = frame.end();
    input = input.subspan(kExpectationBytes);
  }
  return expected;
}

void CheckRefusal(const absl::Status& status, const Expected& frame,
                  const ChunkedLink& link) {
  if (absl::IsUnavailable(status) && link.is_over()) return;
  RM_CHECK(link.read().size() >= frame.payload_at(),
           "refuses a header that has not come yet");
  if (absl::IsUnavailable(status)) {
    RM_CHECK(!frame.HasSoundHeaderIn(link.read()) ||
                 (frame.HasHeaderIn(link.read()) &&
                  link.read().size() >= frame.end() &&
                  !frame.HasSoundPayloadIn(link.read())),
             "takes a sound frame for a damaged one: " + status.ToString());
    return;
  }
  RM_CHECK(absl::IsFailedPrecondition(status), status.ToString());
  RM_CHECK(frame.HasSoundHeaderIn(link.read()),
           "takes a damaged header for another frame's");
  RM_CHECK(!frame.HasHeaderIn(link.read()), "refuses a good header");
}

}  // namespace

bool TryFrames(std::span<const std::byte> input, FrameIntegrity integrity) {
  std::vector<Expected> expected = TakeExpected(input, integrity);
  if (expected.empty()) return false;
  const auto chunks = input.first<kChunks>();
  const std::span<const std::byte> stream = input.subspan(kChunks);
  if (integrity == FrameIntegrity::kAes256Gcm) OpenAll(stream, expected);
  ChunkedLink link(stream, chunks, expected);
  const FrameKey key = SealedKey();
  FrameReader reader(1, integrity, &key);
  // A byte comes in eight reads, at least; a header that came with the frame
  // before it takes a turn without.
  size_t turns_left = kChunks * (stream.size() + 1) + expected.size();
  for (size_t i = 0; i < expected.size(); ++i) {
    Expected& frame = expected[i];
    link.Await(i);
    reader.Begin(frame.header, frame.payload.data(), frame.is_scratch);
    while (!reader.done()) {
      RM_CHECK(turns_left-- > 0, "gets nowhere");
      const absl::StatusOr<size_t> got = reader.Advance(link);
      if (got.ok()) continue;
      CheckRefusal(got.status(), frame, link);
      return false;
    }
    RM_CHECK(frame.HasHeaderIn(stream), "takes a header that is not expected");
    RM_CHECK(link.read().size() >= frame.end(), "takes what has not come");
    RM_CHECK(frame.HasSoundPayloadIn(stream), "takes a damaged payload");
    RM_CHECK(frame.opened.has_value()
                 ? frame.payload == *frame.opened
                 : std::equal(frame.payload.begin(), frame.payload.end(),
                              stream.begin() + frame.payload_at()),
             "places a payload wrongly");
  }
  return true;
}

}  // namespace ringmaster::fuzz
