#include "common/transport/frame_stream.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checksum/crc32c.h"
#include "common/status/status_macros.h"

namespace ringmaster {

void FrameWriter::AddHeader(FrameHeader header, const std::byte* payload) {
  if (!has_held_) head_.clear();
  header.integrity = integrity_;
  const FrameHeaderBytes bytes = EncodeFrameHeader(header);
  head_.insert(head_.end(), bytes.begin(), bytes.end());
  if (integrity_ == FrameIntegrity::kNone) return;
  const FrameChecksumBytes checksums =
      FrameChecksums(bytes, {payload, header.payload_bytes});
  head_.insert(head_.end(), checksums.begin(), checksums.end());
}

void FrameWriter::Begin(const FrameHeader& header, const std::byte* payload) {
  AddHeader(header, payload);
  has_held_ = false;
  payload_ = payload;
  sent_ = 0;
  total_ = head_.size() + header.payload_bytes;
}

void FrameWriter::Hold(const FrameHeader& header, const std::byte* payload) {
  AddHeader(header, payload);
  has_held_ = true;
  head_.insert(head_.end(), payload, payload + header.payload_bytes);
}

absl::StatusOr<size_t> FrameWriter::Advance(Link& link) {
  std::array<iovec, 2> parts;
  size_t used = 0;
  if (sent_ < head_.size())
    parts[used++] = {head_.data() + sent_, head_.size() - sent_};
  const size_t payload_sent = sent_ - std::min(sent_, head_.size());
  const size_t payload_left = total_ - head_.size() - payload_sent;
  if (payload_left > 0) {
    parts[used++] = {const_cast<std::byte*>(payload_) + payload_sent,
                     payload_left};
  }
  ASSIGN_OR_RETURN(const size_t written,
                   link.TryWrite(std::span(parts.data(), used)));
  sent_ += written;
  return written;
}

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
}

absl::Status FrameReader::Damaged(absl::string_view how) const {
  return absl::UnavailableError(
      absl::StrCat("damaged frame of rank ", expected_.source_rank, " to rank ",
                   self_rank_, " at generation ", expected_.generation,
                   ", sequence ", expected_.sequence, ": ", how));
}

absl::Status FrameReader::CheckHeader() {
  if (integrity_ == FrameIntegrity::kCrc32c) {
    const absl::StatusOr<uint32_t> claimed = PayloadChecksumOf(header_);
    if (!claimed.ok()) return Damaged(claimed.status().message());
    claimed_checksum_ = *claimed;
  }
  const absl::StatusOr<FrameHeader> got =
      ParseFrameHeader(std::span(header_).first<kFrameHeaderBytes>());
  if (!got.ok()) {
    return absl::Status(
        got.status().code(),
        absl::StrCat("rank ", self_rank_, " refused bytes of rank ",
                     expected_.source_rank, ": ", got.status().message()));
  }
  RETURN_IF_ERROR(MatchFrame(expected_, *got, self_rank_));
  header_checked_ = true;
  return absl::OkStatus();
}

absl::Status FrameReader::CheckPayload() const {
  if (integrity_ == FrameIntegrity::kNone ||
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
  std::array<iovec, 3> parts;
  size_t used = 0;
  const size_t header_left = head_bytes_ - header_have_;
  const size_t payload_left = expected_.payload_bytes - payload_have_;
  if (header_left > 0)
    parts[used++] = {header_.data() + header_have_, header_left};
  if (header_checked_ || is_scratch_) {
    if (payload_left > 0)
      parts[used++] = {payload_ + payload_have_, payload_left};
    parts[used++] = {next_header_.data() + next_have_,
                     head_bytes_ - next_have_};
  }
  ASSIGN_OR_RETURN(const size_t got,
                   link.TryRead(std::span(parts.data(), used)));
  const size_t to_header = std::min(got, header_left);
  const size_t to_payload = std::min(got - to_header, payload_left);
  if (integrity_ == FrameIntegrity::kCrc32c) {
    payload_checksum_ =
        ExtendCrc32c(payload_checksum_, {payload_ + payload_have_, to_payload});
  }
  header_have_ += to_header;
  payload_have_ += to_payload;
  next_have_ += got - to_header - to_payload;
  if (!header_checked_ && header_have_ == head_bytes_)
    RETURN_IF_ERROR(CheckHeader());
  if (done()) RETURN_IF_ERROR(CheckPayload());
  return got;
}

}  // namespace ringmaster
