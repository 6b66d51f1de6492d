#include "common/transport/frame_cipher.h"

#include "common/status/check.h"
#include "common/transport/little_endian.h"

namespace ringmaster {
namespace {

constexpr size_t kNonceBytes = 12;

const unsigned char* In(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* Out(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}

}  // namespace

FrameCipher::FrameCipher(CipherSide side, const FrameKey& key,
                         uint64_t first_message)
    : context_(EVP_CIPHER_CTX_new()), next_(first_message) {
  // The default length of the nonce is kNonceBytes.
  RM_CHECK(context_ != nullptr &&
               EVP_CipherInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr,
                                 In(key.data()), nullptr,
                                 side == CipherSide::kSeal ? 1 : 0) == 1,
           "OpenSSL has no AES-256-GCM");
}

void FrameCipher::BeginMessage() {
  std::array<std::byte, kNonceBytes> nonce = {};
  StoreLittleEndian(next_++, nonce.data());
  RM_CHECK(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr,
                             In(nonce.data()), /*enc=*/-1) == 1,
           "AES-256-GCM does not take a nonce");
}

void FrameCipher::Authenticate(std::span<const std::byte> bytes) {
  int done = 0;
  RM_CHECK(EVP_CipherUpdate(context_.get(), nullptr, &done, In(bytes.data()),
                            static_cast<int>(bytes.size())) == 1,
           "AES-256-GCM does not authenticate");
}

FrameTag FrameCipher::SealHeader(const FrameHeaderBytes& header) {
  BeginMessage();
  Authenticate(header);
  return EndSeal();
}

bool FrameCipher::OpenHeader(
    std::span<const std::byte, kFrameHeaderBytes> header,
    std::span<const std::byte, kFrameTagBytes> tag) {
  BeginMessage();
  Authenticate(header);
  return EndOpen(tag);
}

void FrameCipher::BeginPayload() { BeginMessage(); }

void FrameCipher::Pass(std::span<const std::byte> from, std::byte* to) {
  if (from.empty()) return;
  int done = 0;
  // A frame's payload has at most kMaxFramePayloadBytes, so it fits an int.
  RM_CHECK(EVP_CipherUpdate(context_.get(), Out(to), &done, In(from.data()),
                            static_cast<int>(from.size())) == 1,
           "AES-256-GCM does not pass a payload");
}

FrameTag FrameCipher::EndSeal() {
  FrameTag tag;
  int done = 0;
  RM_CHECK(EVP_CipherFinal_ex(context_.get(), Out(tag.data()), &done) == 1 &&
               EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG,
                                   kFrameTagBytes, tag.data()) == 1,
           "AES-256-GCM gives no tag");
  return tag;
}

bool FrameCipher::EndOpen(std::span<const std::byte, kFrameTagBytes> tag) {
  std::byte* const claimed = const_cast<std::byte*>(tag.data());
  int done = 0;
  unsigned char none = 0;
  return EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG,
                             kFrameTagBytes, claimed) == 1 &&
         EVP_CipherFinal_ex(context_.get(), &none, &done) == 1;
}

}  // namespace ringmaster
