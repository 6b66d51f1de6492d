#include "common/transport/share_message.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/little_endian.h"

namespace ringmaster {
namespace {
constexpr size_t kReasonAt = kShareMessageBytes - kMaxShareReasonBytes;
constexpr size_t kMaxFds = 2;  // a segment and an arena
// With room for more than that, so that more is noticed.
constexpr size_t kFdsRoom = kMaxFds + 2;

struct ControlBuffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(kFdsRoom * sizeof(int))] = {};
};

void TakeFds(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
      continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
}

absl::Status PeerGone(int error) {
  return LinkError("it", "the connection", error);
}

}  // namespace

ShareMessageBytes EncodeShareMessage(const ShareMessage& message) {
  ShareMessageBytes bytes = {};
  std::byte* const to = bytes.data();
  StoreLittleEndian(kShareMagic, to);
  StoreLittleEndian(kShareVersion, to + 4);
  StoreLittleEndian(static_cast<uint8_t>(message.kind), to + 6);
  StoreLittleEndian(static_cast<uint8_t>(message.is_yes), to + 7);
  StoreLittleEndian(message.slots.count, to + 8);
  StoreLittleEndian(message.slots.payload_bytes, to + 12);
  StoreLittleEndian(message.segment_bytes, to + 16);
  StoreLittleEndian(message.arena_bytes, to + 24);
  std::memcpy(to + kReasonAt, message.reason.data(),
              std::min(message.reason.size(), kMaxShareReasonBytes));
  return bytes;
}

absl::StatusOr<ShareMessage> ParseShareMessage(
    std::span<const std::byte, kShareMessageBytes> bytes) {
  const std::byte* const from = bytes.data();
  const auto magic = LoadLittleEndian<uint32_t>(from);
  const auto version = LoadLittleEndian<uint16_t>(from + 4);
  const auto kind = LoadLittleEndian<uint8_t>(from + 6);
  if (magic != kShareMagic || version != kShareVersion ||
      (kind != static_cast<uint8_t>(ShareMessage::Kind::kOffer) &&
       kind != static_cast<uint8_t>(ShareMessage::Kind::kAnswer))) {
    return absl::FailedPreconditionError(
        absl::StrFormat("it said not a word about shared memory: 0x%08x, "
                        "version %d, kind %d, where "
                        "0x%08x, version %d is expected",
                        magic, version, kind, kShareMagic, kShareVersion));
  }
  ShareMessage message;
  message.kind = static_cast<ShareMessage::Kind>(kind);
  message.is_yes = LoadLittleEndian<uint8_t>(from + 7) != 0;
  message.slots.count = LoadLittleEndian<uint32_t>(from + 8);
  message.slots.payload_bytes = LoadLittleEndian<uint32_t>(from + 12);
  message.segment_bytes = LoadLittleEndian<uint64_t>(from + 16);
  message.arena_bytes = LoadLittleEndian<uint64_t>(from + 24);
  for (size_t i = kReasonAt; i < bytes.size() && bytes[i] != std::byte{0};
       ++i) {
    const auto c = std::to_integer<char>(bytes[i]);
    message.reason += c >= ' ' && c <= '~' ? c : '?';
  }
  if (message.kind == ShareMessage::Kind::kOffer && message.is_yes &&
      (!IsValid(message.slots) ||
       message.segment_bytes != SegmentBytes(message.slots))) {
    return absl::FailedPreconditionError(
        absl::StrCat("it made an offer of ", message.slots.count, " slots of ",
                     message.slots.payload_bytes, " bytes in a segment of ",
                     message.segment_bytes, ", which cannot be"));
  }
  return message;
}

absl::StatusOr<bool> SendShareMessage(int socket, const ShareMessage& message,
                                      std::span<const int> fds) {
  ShareMessageBytes bytes = EncodeShareMessage(message);
  iovec part = {bytes.data(), bytes.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  ControlBuffer control;
  if (!fds.empty()) {
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  const ssize_t sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(bytes.size())) return true;
  // So few bytes are one packet of a Unix socket, sent whole or not at all.
  if (sent >= 0) return PeerGone(0);
  const int error = errno;
  if (error == EAGAIN || error == EINTR) return false;
  if (!fds.empty() && error != EPIPE && error != ECONNRESET) {
    return absl::ResourceExhaustedError(
        absl::StrCat("passing descriptors on failed: ", strerror(error)));
  }
  return PeerGone(error);
}

absl::StatusOr<bool> ShareMessageReader::Advance(int socket) {
  iovec part = {received_.bytes.data() + have_, kShareMessageBytes - have_};
  ControlBuffer control;
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof control.bytes;
  const ssize_t got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) return PeerGone(got < 0 ? errno : 0);
  TakeFds(header, received_.fds);
  if (received_.fds.size() > kMaxFds) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it sent more descriptors than the ", kMaxFds, " that may be offered"));
  }
  received_.is_short_of_fds |= (header.msg_flags & MSG_CTRUNC) != 0;
  have_ += static_cast<size_t>(got);
  return have_ == kShareMessageBytes;
}

ShareMessageReader::Received ShareMessageReader::Take() {
  have_ = 0;
  return std::exchange(received_, Received());
}

}  // namespace ringmaster
