// ShareMessage is a message between two processes of a host before they share
// memory: an offer, with the memory's descriptors, then an answer.
//
// 128 bytes, little endian, no padding:
//   0 magic u32 | 4 version u16 | 6 kind u8 | 7 is_yes u8 | 8 slot count u32 |
//   12 slot bytes u32 | 16 segment bytes u64 | 24 arena bytes u64 | 32 reason,
//   padded with zeroes
// ShareMessageReader and SendShareMessage put it on a connected, non-blocking
// Unix stream socket and read no byte beyond it.
#ifndef RINGMASTER_COMMON_TRANSPORT_SHARE_MESSAGE_H_
#define RINGMASTER_COMMON_TRANSPORT_SHARE_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/shared_layout.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

inline constexpr size_t kShareMessageBytes = 128;
inline constexpr size_t kMaxShareReasonBytes = 96;
inline constexpr uint32_t kShareMagic = 0x4D534D52;  // "RMSM"
inline constexpr uint16_t kShareVersion = 1;

using ShareMessageBytes = std::array<std::byte, kShareMessageBytes>;

struct ShareMessage {
  enum class Kind : uint8_t { kOffer = 1, kAnswer = 2 };

  Kind kind = Kind::kOffer;
  bool is_yes = false;
  // In an offer that is_yes:
  SharedSlots slots;
  uint64_t segment_bytes = 0;
  uint64_t arena_bytes = 0;  // 0: no arena
  std::string reason;        // of a no; cut to kMaxShareReasonBytes

  friend bool operator==(const ShareMessage&, const ShareMessage&) = default;
};

[[nodiscard]] ShareMessageBytes EncodeShareMessage(const ShareMessage& message);

// FAILED_PRECONDITION for a wrong magic, version or kind, and for an offer of
// slots that cannot be. Unprintable characters of the reason become '?'.
[[nodiscard]] absl::StatusOr<ShareMessage> ParseShareMessage(
    std::span<const std::byte, kShareMessageBytes> bytes);

// Sends all of it, or nothing (false: the socket is full now).
//   UNAVAILABLE         the peer is gone
//   RESOURCE_EXHAUSTED  the kernel does not pass the descriptors on
[[nodiscard]] absl::StatusOr<bool> SendShareMessage(int socket,
                                                    const ShareMessage& message,
                                                    std::span<const int> fds);

// Thread-compatible.
class ShareMessageReader {
 public:
  // Reads what has come; true once the message is complete.
  //   UNAVAILABLE          the peer is gone
  //   FAILED_PRECONDITION  more descriptors came than anybody sends
  [[nodiscard]] absl::StatusOr<bool> Advance(int socket);

  // The complete message; the reader is ready for the next one after Take.
  struct Received {
    ShareMessageBytes bytes;
    std::vector<UniqueFd> fds;
    bool is_short_of_fds = false;  // this process had no room for them all
  };
  [[nodiscard]] Received Take();

 private:
  Received received_;
  size_t have_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_SHARE_MESSAGE_H_
