#include "common/transport/frame_cipher.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/transport/testing/test_frames.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

FrameKey KeyOf(uint8_t seed) {
  FrameKey key;
  key.fill(std::byte{seed});
  return key;
}

std::string Hex(std::span<const std::byte> bytes) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// A header's tag, and a payload with its tag, as they are sealed one after the
// other.
struct Sealed {
  FrameHeaderBytes header;
  FrameTag header_tag;
  std::vector<std::byte> payload;
  FrameTag payload_tag;
};

Sealed Seal(FrameCipher& cipher, uint64_t sequence, size_t size) {
  Sealed sealed;
  sealed.header = EncodeFrameHeader(HeaderOf(sequence, size));
  sealed.header_tag = cipher.SealHeader(sealed.header);
  sealed.payload = Pattern(size, sequence);
  cipher.BeginPayload();
  cipher.Pass(sealed.payload, sealed.payload.data());
  sealed.payload_tag = cipher.EndSeal();
  return sealed;
}

bool OpenPayload(FrameCipher& cipher, Sealed& sealed) {
  cipher.BeginPayload();
  cipher.Pass(sealed.payload, sealed.payload.data());
  return cipher.EndOpen(sealed.payload_tag);
}

TEST(FrameCipherTest, IsAes256Gcm) {
  // Test case 14 of "The Galois/Counter Mode of Operation", McGrew and Viega.
  FrameCipher cipher(CipherSide::kSeal, KeyOf(0));
  std::vector<std::byte> bytes(16);
  cipher.BeginPayload();
  cipher.Pass(bytes, bytes.data());
  EXPECT_EQ(Hex(bytes), "cea7403d4d606b6e074ec5d3baf39d18");
  EXPECT_EQ(Hex(cipher.EndSeal()), "d0d1c8a799996bf0265b98b5d48ab919");
}

TEST(FrameCipherTest, OpensInOtherPiecesThanItWasSealedIn) {
  FrameCipher sealer(CipherSide::kSeal, KeyOf(1));
  FrameCipher opener(CipherSide::kOpen, KeyOf(1));
  for (const size_t size : {1u, 15u, 16u, 17u, 1000u, 100'000u}) {
    Sealed sealed = Seal(sealer, size, size);
    EXPECT_NE(sealed.payload, Pattern(size, size)) << size;
    ASSERT_TRUE(opener.OpenHeader(sealed.header, sealed.header_tag)) << size;
    std::vector<std::byte> opened(size);
    opener.BeginPayload();
    for (size_t at = 0, step = 1; at < size; at += step, step = 3 * step + 1) {
      step = std::min(step, size - at);
      opener.Pass(std::span(sealed.payload).subspan(at, step),
                  opened.data() + at);
    }
    ASSERT_TRUE(opener.EndOpen(sealed.payload_tag)) << size;
    EXPECT_EQ(opened, Pattern(size, size));
  }
}

TEST(FrameCipherTest, RefusesAnotherKey) {
  FrameCipher sealer(CipherSide::kSeal, KeyOf(1));
  FrameCipher opener(CipherSide::kOpen, KeyOf(2));
  Sealed sealed = Seal(sealer, 1, 100);
  EXPECT_FALSE(opener.OpenHeader(sealed.header, sealed.header_tag));
  EXPECT_FALSE(OpenPayload(opener, sealed));
}

TEST(FrameCipherTest, RefusesMessagesInAnotherOrder) {
  FrameCipher sealer(CipherSide::kSeal, KeyOf(1));
  Sealed first = Seal(sealer, 1, 100);
  Sealed second = Seal(sealer, 1, 100);
  EXPECT_NE(first.header_tag, second.header_tag);
  EXPECT_NE(first.payload, second.payload);
  FrameCipher left_out(CipherSide::kOpen, KeyOf(1));
  EXPECT_FALSE(left_out.OpenHeader(second.header, second.header_tag));
  FrameCipher again(CipherSide::kOpen, KeyOf(1));
  Sealed copy = first;
  EXPECT_TRUE(again.OpenHeader(first.header, first.header_tag));
  EXPECT_TRUE(OpenPayload(again, first));
  EXPECT_FALSE(again.OpenHeader(copy.header, copy.header_tag));
  EXPECT_FALSE(OpenPayload(again, copy));
}

TEST(FrameCipherTest, IsSpentBeforeANonceComesAgain) {
  FrameCipher cipher(CipherSide::kSeal, KeyOf(1), kMaxSealedMessages - 1);
  EXPECT_FALSE(cipher.is_spent());
  (void)cipher.SealHeader(EncodeFrameHeader(HeaderOf(1, 0)));
  EXPECT_TRUE(cipher.is_spent());
}

}  // namespace
}  // namespace ringmaster
