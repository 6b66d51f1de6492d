#include "common/transport/frame_stream.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/clock/testing/fake_clock.h"
#include "common/transport/socket_link.h"
#include "common/transport/testing/faulty_link.h"
#include "common/transport/testing/test_frames.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

class FrameStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = LoopbackPair("rank 0", "rank 1");
    ASSERT_TRUE(pair.ok()) << pair.status();
    out_ = std::move(pair->first);
    in_ = std::move(pair->second);
  }

  // Moves one frame from writer to reader; gives up after many fruitless
  // rounds.
  absl::Status Pass(FrameWriter& writer, FrameReader& reader) {
    for (int round = 0; round < 100000; ++round) {
      if (!writer.idle()) {
        const absl::StatusOr<size_t> written = writer.Advance(*out_);
        if (!written.ok()) return written.status();
      }
      if (reader.done()) return absl::OkStatus();
      const absl::StatusOr<size_t> got = reader.Advance(*in_);
      if (!got.ok()) return got.status();
    }
    return absl::DeadlineExceededError("the frame never arrived");
  }

  std::unique_ptr<Link> out_;
  std::unique_ptr<Link> in_;
};

TEST_F(FrameStreamTest, CarriesFramesOfAnySizeInEitherMode) {
  FrameWriter writer;
  FrameReader reader(0);
  uint64_t sequence = 0;
  for (const size_t size : {0u, 1u, 63u, 64u, 65u, 4096u, 1u << 20, 4u << 20}) {
    for (const bool is_scratch : {false, true}) {
      const std::vector<std::byte> sent = Pattern(size, ++sequence);
      std::vector<std::byte> got(size);
      writer.Begin(HeaderOf(sequence, size), sent.data());
      reader.Begin(HeaderOf(sequence, size), got.data(), is_scratch);
      ASSERT_TRUE(Pass(writer, reader).ok()) << size;
      EXPECT_TRUE(writer.idle());
      EXPECT_EQ(got, sent) << size;
    }
  }
}

TEST_F(FrameStreamTest, HeldFramesGoBeforeTheNextOne) {
  const std::vector<std::byte> small = Pattern(48, 1);
  const std::vector<std::byte> large = Pattern(1 << 20, 2);
  FrameWriter writer;
  FrameReader reader(0);
  uint64_t sequence = 0;
  for (const int held : {1, 0, 2}) {
    for (int i = 0; i < held; ++i) {
      // The frame that is held is a copy.
      std::vector<std::byte> gone = small;
      writer.Hold(HeaderOf(sequence + 1 + static_cast<uint64_t>(i), 48),
                  gone.data());
      EXPECT_TRUE(writer.idle());
      std::fill(gone.begin(), gone.end(), std::byte{0});
    }
    const auto last = sequence + static_cast<uint64_t>(held) + 1;
    writer.Begin(HeaderOf(last, large.size()), large.data());
    while (sequence < last) {
      std::vector<std::byte> got(++sequence == last ? large.size() : 48);
      reader.Begin(HeaderOf(sequence, got.size()), got.data(), false);
      ASSERT_TRUE(Pass(writer, reader).ok()) << sequence;
      EXPECT_EQ(got, sequence == last ? large : small) << sequence;
    }
    EXPECT_TRUE(writer.idle());
  }
}

TEST_F(FrameStreamTest, TakesTheNextHeaderWithAPayload) {
  const std::vector<std::byte> sent = Pattern(1000, 3);
  std::vector<std::byte> got(1000);
  FrameWriter writer;
  for (const uint64_t sequence : {1, 2, 3}) {
    writer.Begin(HeaderOf(sequence, sequence == 3 ? 0 : sent.size()),
                 sent.data());
    while (!writer.idle()) ASSERT_TRUE(writer.Advance(*out_).ok());
  }
  FrameReader reader(0);
  for (const uint64_t sequence : {1, 2, 3}) {
    reader.Begin(HeaderOf(sequence, sequence == 3 ? 0 : sent.size()),
                 got.data(), sequence == 2);
    ASSERT_TRUE(Pass(writer, reader).ok()) << sequence;
    EXPECT_EQ(got, sent);
  }
}

TEST_F(FrameStreamTest, RefusesAStaleFrameBeforeItsPayloadIsPlaced) {
  const std::vector<std::byte> sent = Pattern(100, 1);
  std::vector<std::byte> got(100);
  FrameWriter writer;
  FrameReader reader(0);
  FrameHeader stale = HeaderOf(1, sent.size());
  stale.generation = 1;
  writer.Begin(stale, sent.data());
  reader.Begin(HeaderOf(1, sent.size()), got.data(), /*is_scratch=*/false);
  const absl::Status status = Pass(writer, reader);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("rank 0 refused a frame of rank 1"));
  EXPECT_EQ(got, std::vector<std::byte>(100));
}

TEST_F(FrameStreamTest, RefusesGarbageAndOversizedClaims) {
  std::vector<std::byte> got(100);
  const std::vector<std::byte> garbage = Pattern(100, 1);
  const iovec part = {const_cast<std::byte*>(garbage.data()), garbage.size()};
  ASSERT_TRUE(out_->TryWrite(std::span(&part, 1)).ok());
  FrameReader reader(0);
  reader.Begin(HeaderOf(1, 100), got.data(), false);
  EXPECT_TRUE(absl::IsFailedPrecondition(reader.Advance(*in_).status()));

  SetUp();
  FrameHeaderBytes oversized = EncodeFrameHeader(HeaderOf(1, 100));
  oversized[63] = std::byte{0xff};
  const iovec claim = {oversized.data(), oversized.size()};
  ASSERT_TRUE(out_->TryWrite(std::span(&claim, 1)).ok());
  FrameReader other(0);
  other.Begin(HeaderOf(1, 100), got.data(), false);
  EXPECT_TRUE(absl::IsFailedPrecondition(other.Advance(*in_).status()));
}

TEST_F(FrameStreamTest, NamesThePeerThatCloses) {
  FrameReader reader(0);
  std::byte payload;
  reader.Begin(HeaderOf(1, 1), &payload, false);
  out_->Close();
  const absl::Status status = reader.Advance(*in_).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(), HasSubstr("rank 1 closed its connection"));
  FrameWriter writer;
  writer.Begin(HeaderOf(1, 1), &payload);
  EXPECT_TRUE(absl::IsUnavailable(writer.Advance(*in_).status()));
}

TEST_F(FrameStreamTest, FaultyLinkHurtsTheChosenFrameOnly) {
  FakeClock clock;
  LinkFault fault;
  fault.kind = LinkFault::Kind::kCorrupt;
  fault.at_frame = 2;
  fault.corrupt_at = 24;
  out_ = std::make_unique<FaultyLink>(std::move(out_), fault, clock);
  const std::vector<std::byte> sent = Pattern(5000, 1);
  std::vector<std::byte> got(5000);
  FrameWriter writer;
  FrameReader reader(0);
  writer.Begin(HeaderOf(1, sent.size()), sent.data());
  reader.Begin(HeaderOf(1, sent.size()), got.data(), true);
  ASSERT_TRUE(Pass(writer, reader).ok());
  EXPECT_EQ(got, sent);
  writer.Begin(HeaderOf(2, 0), nullptr);
  reader.Begin(HeaderOf(2, 0), nullptr, true);
  EXPECT_TRUE(absl::IsFailedPrecondition(Pass(writer, reader)));
}

TEST_F(FrameStreamTest, FaultyLinkHoldsADelayedFrameBack) {
  FakeClock clock;
  LinkFault fault;
  fault.kind = LinkFault::Kind::kDelay;
  fault.delay = absl::Seconds(1);
  out_ = std::make_unique<FaultyLink>(std::move(out_), fault, clock);
  FrameWriter writer;
  writer.Begin(HeaderOf(1, 0), nullptr);
  EXPECT_EQ(*writer.Advance(*out_), 0u);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(*writer.Advance(*out_), kFrameHeaderBytes);
}

// With the integrity of its parameter.
class CheckedFrameStreamTest
    : public FrameStreamTest,
      public ::testing::WithParamInterface<FrameIntegrity> {
 protected:
  static constexpr FrameKey kKey = {std::byte{7}};

  [[nodiscard]] static FrameWriter Writer() {
    return FrameWriter(GetParam(), &kKey);
  }
  [[nodiscard]] static FrameReader Reader() {
    return FrameReader(0, GetParam(), &kKey);
  }
  [[nodiscard]] static size_t HeadBytes() { return FrameHeadBytes(GetParam()); }

  // Passes a frame of which byte `corrupt_at` is changed on its way, after one
  // that is not.
  absl::Status PassDamaged(size_t corrupt_at, size_t size) {
    SetUp();
    LinkFault fault;
    fault.kind = LinkFault::Kind::kCorrupt;
    fault.at_frame = 2;
    fault.corrupt_at = corrupt_at;
    out_ = std::make_unique<FaultyLink>(std::move(out_), fault, clock_);
    const std::vector<std::byte> sent = Pattern(size, 1);
    std::vector<std::byte> got(size);
    FrameWriter writer = Writer();
    FrameReader reader = Reader();
    absl::Status status;
    for (const uint64_t sequence : {1, 2}) {
      EXPECT_TRUE(status.ok()) << status;
      writer.Begin(HeaderOf(sequence, size), sent.data());
      reader.Begin(HeaderOf(sequence, size), got.data(), size < 1000);
      status = Pass(writer, reader);
    }
    return status;
  }

  FakeClock clock_;
};

TEST_P(CheckedFrameStreamTest, CarriesFramesOfAnySizeInEitherMode) {
  FrameWriter writer = Writer();
  FrameReader reader = Reader();
  uint64_t sequence = 0;
  for (const size_t size : {0u, 1u, 63u, 64u, 65u, 4096u, 1u << 20, 4u << 20}) {
    for (const bool is_scratch : {false, true}) {
      const std::vector<std::byte> sent = Pattern(size, ++sequence);
      std::vector<std::byte> got(size);
      if (is_scratch) {
        writer.Hold(HeaderOf(sequence, size), sent.data());
        writer.Begin(HeaderOf(++sequence, 0), nullptr);
      } else {
        writer.Begin(HeaderOf(sequence, size), sent.data());
      }
      reader.Begin(HeaderOf(is_scratch ? sequence - 1 : sequence, size),
                   got.data(), is_scratch);
      ASSERT_TRUE(Pass(writer, reader).ok()) << size;
      EXPECT_EQ(got, sent) << size;
      if (!is_scratch) continue;
      reader.Begin(HeaderOf(sequence, 0), nullptr, false);
      ASSERT_TRUE(Pass(writer, reader).ok()) << size;
    }
  }
}

TEST_P(CheckedFrameStreamTest, ADamagedHeaderIsNoMismatch) {
  for (size_t at = 0; at < HeadBytes(); ++at) {
    for (const size_t size : {0u, 100u, 5000u}) {
      const absl::Status status = PassDamaged(at, size);
      EXPECT_TRUE(absl::IsUnavailable(status)) << at << ": " << status;
      EXPECT_THAT(status.message(),
                  HasSubstr("damaged frame of rank 1 to rank 0 at generation "
                            "2, sequence 2: its header"))
          << at;
    }
  }
}

TEST_P(CheckedFrameStreamTest, ADamagedPayloadIsNeverDone) {
  for (const size_t size : {1u, 100u, 5000u, 1u << 20}) {
    for (const size_t at : {size_t{0}, size / 2, size - 1}) {
      const absl::Status status = PassDamaged(HeadBytes() + at, size);
      EXPECT_TRUE(absl::IsUnavailable(status)) << at << ": " << status;
      EXPECT_THAT(status.message(),
                  HasSubstr("damaged frame of rank 1 to rank 0"));
      EXPECT_THAT(status.message(), HasSubstr("its payload"));
    }
  }
}

TEST_P(CheckedFrameStreamTest, AnotherFrameIsRefusedAsEver) {
  const std::vector<std::byte> sent = Pattern(100, 1);
  std::vector<std::byte> got(100);
  FrameWriter writer = Writer();
  FrameReader reader = Reader();
  writer.Begin(HeaderOf(7, sent.size()), sent.data());
  reader.Begin(HeaderOf(1, sent.size()), got.data(), /*is_scratch=*/false);
  const absl::Status status = Pass(writer, reader);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("sequence is 7, expected 1"));
  EXPECT_EQ(got, std::vector<std::byte>(100));
}

INSTANTIATE_TEST_SUITE_P(Integrity, CheckedFrameStreamTest,
                         ::testing::Values(FrameIntegrity::kCrc32c,
                                           FrameIntegrity::kAes256Gcm),
                         [](const auto& test) {
                           return test.param == FrameIntegrity::kCrc32c
                                      ? "Crc32c"
                                      : "Aes256Gcm";
                         });

// Keeps what is written, and gives bytes to read.
class BytesLink final : public Link {
 public:
  explicit BytesLink(std::vector<std::byte> to_read = {})
      : bytes_(std::move(to_read)) {}

  [[nodiscard]] absl::StatusOr<size_t> TryWrite(
      std::span<const iovec> parts) override {
    size_t written = 0;
    for (const iovec& part : parts) {
      const auto* const from = static_cast<const std::byte*>(part.iov_base);
      bytes_.insert(bytes_.end(), from, from + part.iov_len);
      written += part.iov_len;
    }
    return written;
  }
  [[nodiscard]] absl::StatusOr<size_t> TryRead(
      std::span<const iovec> parts) override {
    if (read_ == bytes_.size()) return absl::UnavailableError("the end");
    size_t got = 0;
    for (const iovec& part : parts) {
      const size_t size = std::min(part.iov_len, bytes_.size() - read_);
      std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(read_), size,
                  static_cast<std::byte*>(part.iov_base));
      read_ += size;
      got += size;
    }
    return got;
  }
  [[nodiscard]] int fd() const override { return -1; }
  void Close() override {}
  [[nodiscard]] const std::string& peer() const override { return peer_; }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  const std::string peer_ = "rank 1";
  std::vector<std::byte> bytes_;
  size_t read_ = 0;
};

constexpr FrameKey kSealedKey = {std::byte{1}, std::byte{2}};

// Frames 1 to `count` of `size` bytes, as they travel encrypted.
std::vector<std::vector<std::byte>> SealedFrames(
    uint64_t count, const std::vector<std::byte>& payload) {
  std::vector<std::vector<std::byte>> frames;
  FrameWriter writer(FrameIntegrity::kAes256Gcm, &kSealedKey);
  for (uint64_t sequence = 1; sequence <= count; ++sequence) {
    BytesLink link;
    // The same header each time, so that only the order tells them apart.
    writer.Begin(HeaderOf(1, payload.size()), payload.data());
    while (!writer.idle()) EXPECT_TRUE(writer.Advance(link).ok());
    frames.push_back(link.bytes());
  }
  return frames;
}

// Reads `frames`, which lie after one another, as SealedFrames wrote them.
absl::Status ReadSealed(const std::vector<std::vector<std::byte>>& frames,
                        size_t size, bool is_scratch = false) {
  std::vector<std::byte> all;
  for (const auto& frame : frames)
    all.insert(all.end(), frame.begin(), frame.end());
  BytesLink link(std::move(all));
  FrameReader reader(0, FrameIntegrity::kAes256Gcm, &kSealedKey);
  std::vector<std::byte> got(size);
  for (size_t i = 0; i < frames.size(); ++i) {
    reader.Begin(HeaderOf(1, size), got.data(), is_scratch);
    while (!reader.done()) {
      const absl::StatusOr<size_t> read = reader.Advance(link);
      if (!read.ok()) return read.status();
    }
  }
  return absl::OkStatus();
}

TEST(SealedFrameTest, AnyFlippedBitIsRefused) {
  constexpr size_t kSize = 40;
  const std::vector<std::byte> payload = Pattern(kSize, 1);
  const auto frames = SealedFrames(1, payload);
  ASSERT_EQ(frames[0].size(), kMaxFrameHeadBytes + kSize + kFrameTagBytes);
  ASSERT_TRUE(ReadSealed(frames, kSize).ok());
  for (size_t bit = 0; bit < 8 * frames[0].size(); ++bit) {
    auto damaged = frames;
    damaged[0][bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    const absl::Status status = ReadSealed(damaged, kSize, bit % 2 == 0);
    EXPECT_TRUE(absl::IsUnavailable(status)) << bit << ": " << status;
    EXPECT_THAT(status.message(),
                HasSubstr("damaged frame of rank 1 to rank 0"));
    EXPECT_THAT(status.message(),
                HasSubstr("does not fit its AES-256-GCM tag"));
  }
}

TEST(SealedFrameTest, AFrameThatIsRepeatedMovedOrLeftOutIsRefused) {
  constexpr size_t kSize = 100;
  const auto frames = SealedFrames(3, Pattern(kSize, 1));
  EXPECT_TRUE(ReadSealed(frames, kSize).ok());
  for (const auto& order : std::vector<std::vector<size_t>>{
           {0, 0, 1}, {1, 0, 2}, {0, 2, 1}, {0, 2}, {1, 2}}) {
    std::vector<std::vector<std::byte>> sent;
    for (const size_t i : order) sent.push_back(frames[i]);
    const absl::Status status = ReadSealed(sent, kSize);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("damaged frame"));
  }
}

TEST(SealedFrameTest, NoPieceOfAPayloadTravelsInClear) {
  // A frame is written at once, in pieces, or held.
  for (const size_t size : {200u, 300'000u}) {
    const std::vector<std::byte> payload(size, std::byte{'a'});
    BytesLink link;
    FrameWriter writer(FrameIntegrity::kAes256Gcm, &kSealedKey);
    writer.Hold(HeaderOf(1, 200), payload.data());
    writer.Begin(HeaderOf(2, size), payload.data());
    while (!writer.idle()) ASSERT_TRUE(writer.Advance(link).ok());
    EXPECT_EQ(link.bytes().size(),
              200 + size + 2 * (kMaxFrameHeadBytes + kFrameTagBytes));
    const std::vector<std::byte> piece(8, std::byte{'a'});
    EXPECT_EQ(std::search(link.bytes().begin(), link.bytes().end(),
                          piece.begin(), piece.end()),
              link.bytes().end());
  }
}

TEST_F(FrameStreamTest, AReaderWithoutChecksumsNamesWhatItGot) {
  FrameWriter writer(FrameIntegrity::kCrc32c);
  FrameReader reader(0);
  writer.Begin(HeaderOf(1, 0), nullptr);
  reader.Begin(HeaderOf(1, 0), nullptr, false);
  const absl::Status status = Pass(writer, reader);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("integrity is 1, expected 0"));
}

}  // namespace
}  // namespace ringmaster
