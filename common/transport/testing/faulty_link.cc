#include "common/transport/testing/faulty_link.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/little_endian.h"

namespace ringmaster {

absl::StatusOr<size_t> FaultyLink::TryWrite(std::span<const iovec> parts) {
  // One part at a time is a correct, if slow, link: writers go on with the
  // rest.
  absl::StatusOr<size_t> written = header_done_ == kFrameHeaderBytes
                                       ? WriteBody(parts.first(1))
                                       : WriteHeader(parts.first(1));
  if (HasWhole()) {
    header_done_ = 0;
    ++frame_;
  }
  return written;
}

bool FaultyLink::IsDelayed() {
  if (!IsHurt() || fault_.kind != LinkFault::Kind::kDelay) return false;
  if (release_at_ == MonotonicTime()) release_at_ = clock_.Now() + fault_.delay;
  return clock_.Now() < release_at_;
}

absl::StatusOr<size_t> FaultyLink::CloseNow() {
  link_->Close();
  return WithLinkFailure(absl::UnavailableError(absl::StrCat(
                             peer(), " closed its connection (injected)")),
                         LinkFailure::kClosed);
}

absl::StatusOr<size_t> FaultyLink::WriteHeader(std::span<const iovec> parts) {
  if (IsDelayed()) return size_t{0};
  if (IsHurt() && fault_.kind == LinkFault::Kind::kClose) return CloseNow();
  const size_t want =
      std::min(parts[0].iov_len, kFrameHeaderBytes - header_done_);
  std::memcpy(header_.data() + header_done_, parts[0].iov_base, want);
  size_t written = want;
  if (!IsHurt() || fault_.kind != LinkFault::Kind::kDrop) {
    FrameHeaderBytes sent = header_;
    if (IsHurt() && fault_.kind == LinkFault::Kind::kCorrupt &&
        fault_.corrupt_at < sent.size())
      sent[fault_.corrupt_at] ^= std::byte{0xff};
    const iovec part = {sent.data() + header_done_, want};
    ASSIGN_OR_RETURN(written, link_->TryWrite(std::span(&part, 1)));
  }
  header_done_ += written;
  if (header_done_ == kFrameHeaderBytes) {
    const auto integrity =
        static_cast<FrameIntegrity>(std::to_integer<uint8_t>(header_[59]));
    body_done_ = 0;
    const auto payload_bytes = LoadLittleEndian<uint32_t>(header_.data() + 60);
    body_bytes_ = FrameHeadBytes(integrity) - kFrameHeaderBytes +
                  payload_bytes + FrameTailBytes(integrity, payload_bytes);
  }
  return written;
}

absl::StatusOr<size_t> FaultyLink::WriteBody(std::span<const iovec> parts) {
  if (IsHurt() && fault_.kind == LinkFault::Kind::kCloseInPayload)
    return CloseNow();
  const auto* const from = static_cast<const std::byte*>(parts[0].iov_base);
  std::vector<std::byte> sent(
      from, from + std::min(parts[0].iov_len, body_bytes_ - body_done_));
  const size_t hurt = fault_.corrupt_at - kFrameHeaderBytes - body_done_;
  if (IsHurt() && fault_.kind == LinkFault::Kind::kCorrupt &&
      fault_.corrupt_at >= kFrameHeaderBytes + body_done_ && hurt < sent.size())
    sent[hurt] ^= std::byte{0xff};
  const iovec part = {sent.data(), sent.size()};
  size_t written = part.iov_len;
  if (!IsHurt() || fault_.kind != LinkFault::Kind::kDrop) {
    ASSIGN_OR_RETURN(written, link_->TryWrite(std::span(&part, 1)));
  }
  body_done_ += written;
  return written;
}

}  // namespace ringmaster
