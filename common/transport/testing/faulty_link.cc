#include "common/transport/testing/faulty_link.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/transport/little_endian.h"

namespace ringmaster {

absl::StatusOr<size_t> FaultyLink::TryWrite(std::span<const iovec> parts) {
  // One part at a time is a correct, if slow, link: writers go on with the
  // rest.
  absl::StatusOr<size_t> written = payload_left_ > 0
                                       ? WritePayload(parts.first(1))
                                       : WriteHeader(parts.first(1));
  if (header_done_ == kFrameHeaderBytes && payload_left_ == 0) {
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
  return absl::UnavailableError(
      absl::StrCat(peer(), " closed its connection (injected)"));
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
    if (IsHurt() && fault_.kind == LinkFault::Kind::kCorrupt)
      sent[fault_.corrupt_at] ^= std::byte{0xff};
    const iovec part = {sent.data() + header_done_, want};
    ASSIGN_OR_RETURN(written, link_->TryWrite(std::span(&part, 1)));
  }
  header_done_ += written;
  if (header_done_ == kFrameHeaderBytes) {
    payload_left_ = LoadLittleEndian<uint32_t>(header_.data() + 60);
  }
  return written;
}

absl::StatusOr<size_t> FaultyLink::WritePayload(std::span<const iovec> parts) {
  if (IsHurt() && fault_.kind == LinkFault::Kind::kCloseInPayload)
    return CloseNow();
  const iovec part = {parts[0].iov_base,
                      std::min(parts[0].iov_len, payload_left_)};
  size_t written = part.iov_len;
  if (!IsHurt() || fault_.kind != LinkFault::Kind::kDrop) {
    ASSIGN_OR_RETURN(written, link_->TryWrite(std::span(&part, 1)));
  }
  payload_left_ -= written;
  return written;
}

}  // namespace ringmaster
