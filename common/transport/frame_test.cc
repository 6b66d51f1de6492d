#include "common/transport/frame.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

FrameHeader SomeHeader() {
  FrameHeader header;
  header.job = 0x0102030405060708;
  header.generation = 7;
  header.sequence = 42;
  header.count = 1'000'003;
  header.offset = 262144;
  header.source_rank = 3;
  header.step = 5;
  header.root = 1;
  header.payload_bytes = 4096;
  header.op = 1;
  header.dtype = 6;
  header.wire = 4;
  header.reduction = 2;
  header.algorithm = 3;
  return header;
}

TEST(FrameTest, ComesBackFromItsEncoding) {
  const absl::StatusOr<FrameHeader> parsed =
      ParseFrameHeader(EncodeFrameHeader(SomeHeader()));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, SomeHeader());
}

TEST(FrameTest, IsLittleEndianAtFixedPlaces) {
  const FrameHeaderBytes bytes = EncodeFrameHeader(SomeHeader());
  EXPECT_EQ(bytes[0], std::byte{'R'});
  EXPECT_EQ(bytes[3], std::byte{'F'});
  EXPECT_EQ(bytes[4], std::byte{2});
  EXPECT_EQ(bytes[8], std::byte{0x08});
  EXPECT_EQ(bytes[15], std::byte{0x01});
  EXPECT_EQ(bytes[16], std::byte{7});
  EXPECT_EQ(bytes[24], std::byte{42});
  EXPECT_EQ(bytes[48], std::byte{3});
  EXPECT_EQ(bytes[56], std::byte{3});
  EXPECT_EQ(bytes[57], std::byte{2});
  EXPECT_EQ(bytes[58], std::byte{4});
  EXPECT_EQ(bytes[61], std::byte{0x10});
}

TEST(FrameTest, RefusesAnotherMagicAndVersion) {
  FrameHeaderBytes bytes = EncodeFrameHeader(SomeHeader());
  bytes[0] = std::byte{'G'};
  absl::Status status = ParseFrameHeader(bytes).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("not a frame"));

  bytes = EncodeFrameHeader(SomeHeader());
  bytes[4] = std::byte{1};
  status = ParseFrameHeader(bytes).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("version 1"));
}

TEST(FrameTest, RefusesAnOversizedPayload) {
  FrameHeader header = SomeHeader();
  header.payload_bytes = kMaxFramePayloadBytes;
  EXPECT_TRUE(ParseFrameHeader(EncodeFrameHeader(header)).ok());
  header.payload_bytes = kMaxFramePayloadBytes + 1;
  EXPECT_TRUE(absl::IsFailedPrecondition(
      ParseFrameHeader(EncodeFrameHeader(header)).status()));
}

TEST(FrameTest, MatchNamesBothRanksAndTheFirstFieldThatDiffers) {
  const FrameHeader expected = SomeHeader();
  EXPECT_TRUE(MatchFrame(expected, expected, 4).ok());
  FrameHeader stale = expected;
  stale.generation = 6;
  stale.sequence = 1;
  const absl::Status status = MatchFrame(expected, stale, 4);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("rank 4 refused a frame of rank 3"));
  EXPECT_THAT(status.message(), HasSubstr("generation is 6, expected 7"));
}

TEST(FrameTest, MatchSeesEveryField) {
  const FrameHeader expected = SomeHeader();
  const FrameHeaderBytes bytes = EncodeFrameHeader(expected);
  for (size_t at = 6; at < kFrameHeaderBytes; ++at) {
    FrameHeaderBytes damaged = bytes;
    damaged[at] ^= std::byte{1};
    const absl::StatusOr<FrameHeader> got = ParseFrameHeader(damaged);
    const absl::Status status =
        got.ok() ? MatchFrame(expected, *got, 0) : got.status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << "byte " << at;
  }
}

// A checked frame's bytes before its payload.
std::array<std::byte, kCheckedHeadBytes> HeadOf(
    const FrameHeader& header, std::span<const std::byte> payload) {
  std::array<std::byte, kCheckedHeadBytes> head;
  const FrameHeaderBytes bytes = EncodeFrameHeader(header);
  const FrameChecksumBytes checksums = FrameChecksums(bytes, payload);
  std::copy(bytes.begin(), bytes.end(), head.begin());
  std::copy(checksums.begin(), checksums.end(),
            head.begin() + kFrameHeaderBytes);
  return head;
}

FrameHeader CheckedHeader() {
  FrameHeader header = SomeHeader();
  header.integrity = FrameIntegrity::kCrc32c;
  return header;
}

TEST(FrameTest, ItsIntegrityIsPartOfTheHeader) {
  const FrameHeaderBytes bytes = EncodeFrameHeader(CheckedHeader());
  EXPECT_EQ(bytes[59], std::byte{1});
  const absl::StatusOr<FrameHeader> parsed = ParseFrameHeader(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, CheckedHeader());
  const absl::Status status = MatchFrame(SomeHeader(), *parsed, 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("integrity is 1, expected 0"));

  FrameHeaderBytes later = bytes;
  later[59] = std::byte{2};
  EXPECT_EQ(ParseFrameHeader(later)->integrity, FrameIntegrity::kAes256Gcm);
  later[59] = std::byte{3};
  EXPECT_THAT(ParseFrameHeader(later).status().message(),
              HasSubstr("frame of integrity 3"));
}

TEST(FrameTest, ChecksumsAreThoseOfHeaderAndPayload) {
  const std::string text = "123456789";
  const auto payload = std::as_bytes(std::span(text.data(), text.size()));
  const auto head = HeadOf(CheckedHeader(), payload);
  EXPECT_EQ(head[64], std::byte{0x83});
  EXPECT_EQ(head[67], std::byte{0xE3});
  const absl::StatusOr<uint32_t> claimed = PayloadChecksumOf(head);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(*claimed, 0xE3069283u);
  EXPECT_EQ(*PayloadChecksumOf(HeadOf(CheckedHeader(), {})), 0u);
}

TEST(FrameTest, EveryFlippedBitBeforeThePayloadIsDamage) {
  const auto head = HeadOf(CheckedHeader(), {});
  for (size_t bit = 0; bit < 8 * head.size(); ++bit) {
    auto damaged = head;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_TRUE(absl::IsUnavailable(PayloadChecksumOf(damaged).status()))
        << bit;
  }
}

}  // namespace
}  // namespace ringmaster
