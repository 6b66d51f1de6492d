// FrameCipher seals or opens the frames of one connection in one direction:
// AES-256-GCM (NIST SP 800-38D), by OpenSSL.
//
// A header is authenticated and stays readable; a payload is encrypted, in
// pieces of any size, the same or others on both sides. Each is a message with a
// tag of its own. The nonce is the message's number, so an opener finds out what
// was changed, left out, repeated or moved, and a key serves one connection and
// direction only.
// Thread-compatible.
#ifndef RINGMASTER_COMMON_TRANSPORT_FRAME_CIPHER_H_
#define RINGMASTER_COMMON_TRANSPORT_FRAME_CIPHER_H_

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/transport/frame.h"

namespace ringmaster {

using FrameKey = std::array<std::byte, 32>;
using FrameTag = std::array<std::byte, kFrameTagBytes>;

// The keys of one side of a connection.
struct FrameKeys {
  FrameKey send;
  FrameKey receive;
};

// The messages that one key may seal. The next frame ends the connection, far
// before a nonce could come again.
inline constexpr uint64_t kMaxSealedMessages = uint64_t{1} << 48;

enum class CipherSide { kSeal, kOpen };

class FrameCipher {
 public:
  // `first_message` is the number of the first message: 0 but in tests.
  FrameCipher(CipherSide side, const FrameKey& key, uint64_t first_message = 0);

  // True if no frame more may be sealed or opened.
  [[nodiscard]] bool is_spent() const { return next_ >= kMaxSealedMessages; }

  // The header as a message: its tag, on the sealing side.
  [[nodiscard]] FrameTag SealHeader(const FrameHeaderBytes& header);
  // True if `tag` is the header's; on the opening side.
  [[nodiscard]] bool OpenHeader(
      std::span<const std::byte, kFrameHeaderBytes> header,
      std::span<const std::byte, kFrameTagBytes> tag);

  // A payload: begun, passed through piece by piece, and ended. `to` may be
  // where `from` is; else they may not overlap. Opened bytes may be used only
  // once EndOpen has returned true.
  void BeginPayload();
  void Pass(std::span<const std::byte> from, std::byte* to);
  [[nodiscard]] FrameTag EndSeal();
  [[nodiscard]] bool EndOpen(std::span<const std::byte, kFrameTagBytes> tag);

 private:
  void BeginMessage();
  void Authenticate(std::span<const std::byte> bytes);

  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const {
      EVP_CIPHER_CTX_free(context);
    }
  };
  const std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
  uint64_t next_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_FRAME_CIPHER_H_
