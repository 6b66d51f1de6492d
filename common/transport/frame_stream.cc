#include "common/transport/frame_stream.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checksum/crc32c.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// The payload that is sealed at once: few enough bytes to stay in a cache until
// the kernel copies them, enough that a system call for each costs little.
constexpr size_t kPieceBytes = 64 << 10;

constexpr char kUnfit[] =
    " does not fit its AES-256-GCM tag: it was changed on its way, or sealed "
    "with another key";

std::optional<FrameCipher> CipherOf(CipherSide side, FrameIntegrity integrity,
                                    const FrameKey* key) {
  if (integrity != FrameIntegrity::kAes256Gcm) return std::nullopt;
  RM_CHECK(key != nullptr, "encrypted frames have a key");
  return std::optional<FrameCipher>(std::in_place, side, *key);
}

}  // namespace

FrameWriter::FrameWriter(FrameIntegrity integrity, const FrameKey* key)
    : integrity_(integrity),
      cipher_(CipherOf(CipherSide::kSeal, integrity, key)) {}

void FrameWriter::AddHeader(FrameHeader header, const std::byte* payload) {
  if (!has_held_) head_.clear();
  header.integrity = integrity_;
  const FrameHeaderBytes bytes = EncodeFrameHeader(header);
  head_.insert(head_.end(), bytes.begin(), bytes.end());
  if (integrity_ == FrameIntegrity::kNone) return;
  if (cipher_.has_value()) {
    const FrameTag tag = cipher_->SealHeader(bytes);
    head_.insert(head_.end(), tag.begin(), tag.end());
    return;
  }
  const FrameChecksumBytes checksums =
      FrameChecksums(bytes, {payload, header.payload_bytes});
  head_.insert(head_.end(), checksums.begin(), checksums.end());
}

void FrameWriter::Begin(const FrameHeader& header, const std::byte* payload) {
  AddHeader(header, payload);
  has_held_ = false;
  payload_ = payload;
  sent_ = 0;
  total_ = head_.size() + header.payload_bytes +
           FrameTailBytes(integrity_, header.payload_bytes);
  payload_bytes_ = header.payload_bytes;
  piece_begin_ = piece_end_ = head_.size();
  sealed_bytes_ = 0;
}

void FrameWriter::Hold(const FrameHeader& header, const std::byte* payload) {
  AddHeader(header, payload);
  has_held_ = true;
  const size_t at = head_.size();
  head_.insert(head_.end(), payload, payload + header.payload_bytes);
  if (!cipher_.has_value() || header.payload_bytes == 0) return;
  cipher_->BeginPayload();
  cipher_->Pass(std::span(head_).subspan(at), head_.data() + at);
  const FrameTag tag = cipher_->EndSeal();
  head_.insert(head_.end(), tag.begin(), tag.end());
}

void FrameWriter::SealPiece() {
  const size_t bytes = std::min(kPieceBytes, payload_bytes_ - sealed_bytes_);
  if (sealed_.empty()) sealed_.resize(kPieceBytes + kFrameTagBytes);
  if (sealed_bytes_ == 0) cipher_->BeginPayload();
  cipher_->Pass({payload_ + sealed_bytes_, bytes}, sealed_.data());
  sealed_bytes_ += bytes;
  piece_begin_ = piece_end_;
  piece_end_ += bytes;
  if (sealed_bytes_ < payload_bytes_) return;
  const FrameTag tag = cipher_->EndSeal();
  std::copy(tag.begin(), tag.end(), sealed_.data() + bytes);
  piece_end_ += tag.size();
}

std::span<const std::byte> FrameWriter::BodyLeft() {
  if (!cipher_.has_value()) {
    const size_t sent = sent_ - std::min(sent_, head_.size());
    return {payload_ + sent, total_ - head_.size() - sent};
  }
  // The first piece leaves with the header.
  if (sealed_bytes_ < payload_bytes_ &&
      (sealed_bytes_ == 0 || sent_ == piece_end_)) {
    SealPiece();
  }
  const size_t sent = std::max(sent_, piece_begin_);
  return {sealed_.data() + (sent - piece_begin_), piece_end_ - sent};
}

absl::StatusOr<size_t> FrameWriter::Advance(Link& link) {
  if (cipher_.has_value() && cipher_->is_spent()) [[unlikely]] {
    return absl::UnavailableError(
        absl::StrCat("the key of the connection to ", link.peer(),
                     " is used up; another connection has another"));
  }
  std::array<iovec, 2> parts;
  size_t used = 0;
  if (sent_ < head_.size())
    parts[used++] = {head_.data() + sent_, head_.size() - sent_};
  const std::span<const std::byte> body = BodyLeft();
  if (!body.empty())
    parts[used++] = {const_cast<std::byte*>(body.data()), body.size()};
  ASSIGN_OR_RETURN(const size_t written,
                   link.TryWrite(std::span(parts.data(), used)));
  sent_ += written;
  return written;
}

FrameReader::FrameReader(int self_rank, FrameIntegrity integrity,
                         const FrameKey* key)
    : self_rank_(self_rank),
      integrity_(integrity),
      cipher_(CipherOf(CipherSide::kOpen, integrity, key)),
      head_bytes_(FrameHeadBytes(integrity)) {}

void FrameReader::Begin(const FrameHeader& expected, std::byte* payload,
                        bool is_scratch) {
  expected_ = expected;
  expected_.integrity = integrity_;
  payload_ = payload;
  is_scratch_ = is_scratch;
  header_checked_ = false;
  header_ = next_header_;
  header_have_ = next_have_;
  next_have_ = 0;
  payload_have_ = 0;
  payload_checksum_ = 0;
  tail_bytes_ = FrameTailBytes(integrity_, expected.payload_bytes);
  tail_have_ = 0;
}

absl::Status FrameReader::Damaged(absl::string_view how) const {
  return absl::UnavailableError(
      absl::StrCat("damaged frame of rank ", expected_.source_rank, " to rank ",
                   self_rank_, " at generation ", expected_.generation,
                   ", sequence ", expected_.sequence, ": ", how));
}

absl::Status FrameReader::CheckSender() {
  const std::span header(header_);
  if (integrity_ == FrameIntegrity::kCrc32c) {
    const absl::StatusOr<uint32_t> claimed =
        PayloadChecksumOf(header.first<kCheckedHeadBytes>());
    if (!claimed.ok()) return Damaged(claimed.status().message());
    claimed_checksum_ = *claimed;
  }
  if (cipher_.has_value() &&
      !cipher_->OpenHeader(header.first<kFrameHeaderBytes>(),
                           header.last<kFrameTagBytes>())) {
    return Damaged(absl::StrCat("its header", kUnfit));
  }
  return absl::OkStatus();
}

absl::Status FrameReader::CheckHeader() {
  RETURN_IF_ERROR(CheckSender());
  const absl::StatusOr<FrameHeader> got =
      ParseFrameHeader(std::span(header_).first<kFrameHeaderBytes>());
  if (!got.ok()) {
    return absl::Status(
        got.status().code(),
        absl::StrCat("rank ", self_rank_, " refused bytes of rank ",
                     expected_.source_rank, ": ", got.status().message()));
  }
  RETURN_IF_ERROR(MatchFrame(expected_, *got, self_rank_));
  if (tail_bytes_ > 0) cipher_->BeginPayload();
  header_checked_ = true;
  return absl::OkStatus();
}

void FrameReader::TakePayload(size_t bytes) {
  std::byte* const at = payload_ + payload_have_;
  if (integrity_ == FrameIntegrity::kCrc32c)
    payload_checksum_ = ExtendCrc32c(payload_checksum_, {at, bytes});
  if (cipher_.has_value()) cipher_->Pass({at, bytes}, at);
  payload_have_ += bytes;
}

absl::Status FrameReader::CheckPayload() {
  if (tail_bytes_ > 0 && !cipher_->EndOpen(tail_)) {
    return Damaged(absl::StrCat("its payload of ", expected_.payload_bytes,
                                " bytes", kUnfit));
  }
  if (integrity_ != FrameIntegrity::kCrc32c ||
      payload_checksum_ == claimed_checksum_) [[likely]]
    return absl::OkStatus();
  return Damaged(absl::StrFormat(
      "its payload of %d bytes has the checksum 0x%08x, and was sent with "
      "0x%08x",
      expected_.payload_bytes, payload_checksum_, claimed_checksum_));
}

absl::StatusOr<size_t> FrameReader::Advance(Link& link) {
  if (!header_checked_ && header_have_ == head_bytes_) {
    RETURN_IF_ERROR(CheckHeader());
    if (done()) {
      RETURN_IF_ERROR(CheckPayload());
      return size_t{0};
    }
  }
  std::array<iovec, 4> parts;
  size_t used = 0;
  const size_t header_left = head_bytes_ - header_have_;
  const size_t payload_left = expected_.payload_bytes - payload_have_;
  const size_t tail_left = tail_bytes_ - tail_have_;
  if (header_left > 0)
    parts[used++] = {header_.data() + header_have_, header_left};
  if (header_checked_ || is_scratch_) {
    if (payload_left > 0)
      parts[used++] = {payload_ + payload_have_, payload_left};
    if (tail_left > 0) parts[used++] = {tail_.data() + tail_have_, tail_left};
    parts[used++] = {next_header_.data() + next_have_,
                     head_bytes_ - next_have_};
  }
  ASSIGN_OR_RETURN(const size_t got,
                   link.TryRead(std::span(parts.data(), used)));
  const size_t to_header = std::min(got, header_left);
  const size_t to_payload = std::min(got - to_header, payload_left);
  const size_t to_tail = std::min(got - to_header - to_payload, tail_left);
  header_have_ += to_header;
  if (!header_checked_ && header_have_ == head_bytes_)
    RETURN_IF_ERROR(CheckHeader());
  TakePayload(to_payload);
  tail_have_ += to_tail;
  next_have_ += got - to_header - to_payload - to_tail;
  if (done()) RETURN_IF_ERROR(CheckPayload());
  return got;
}

}  // namespace ringmaster
