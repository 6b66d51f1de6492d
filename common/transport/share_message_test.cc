#include "common/transport/share_message.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <random>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

ShareMessage SomeOffer() {
  ShareMessage offer;
  offer.is_yes = true;
  offer.slots = {.count = 3, .payload_bytes = 128};
  offer.segment_bytes = SegmentBytes(offer.slots);
  offer.arena_bytes = 1 << 20;
  return offer;
}

std::pair<UniqueFd, UniqueFd> Sockets() {
  int sockets[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                       sockets),
            0);
  return {UniqueFd(sockets[0]), UniqueFd(sockets[1])};
}

TEST(ShareMessageTest, ComesBackAsItWas) {
  ShareMessage answer;
  answer.kind = ShareMessage::Kind::kAnswer;
  answer.reason = "no memory";
  for (const ShareMessage& message : {SomeOffer(), answer}) {
    const auto parsed = ParseShareMessage(EncodeShareMessage(message));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, message);
  }
}

TEST(ShareMessageTest, CutsALongReasonAndCleansIt) {
  ShareMessage no;
  no.reason = "a\nb" + std::string(200, 'x');
  const auto parsed = ParseShareMessage(EncodeShareMessage(no));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->reason, "a?b" + std::string(kMaxShareReasonBytes - 3, 'x'));
}

TEST(ShareMessageTest, RefusesAnythingElse) {
  for (const size_t at : {0u, 4u, 6u, 8u, 12u, 16u}) {
    ShareMessageBytes bytes = EncodeShareMessage(SomeOffer());
    bytes[at] ^= std::byte{0x40};
    EXPECT_TRUE(absl::IsFailedPrecondition(ParseShareMessage(bytes).status()))
        << at;
  }
  EXPECT_THAT(ParseShareMessage(ShareMessageBytes{}).status().message(),
              HasSubstr("not a word about shared memory: 0x00000000"));
  std::mt19937 random(3);
  for (int i = 0; i < 10000; ++i) {
    ShareMessageBytes bytes = EncodeShareMessage(SomeOffer());
    for (int change = 0; change < 3; ++change)
      bytes[random() % 32] = static_cast<std::byte>(random());
    const auto parsed = ParseShareMessage(bytes);
    if (parsed.ok() && parsed->is_yes &&
        parsed->kind == ShareMessage::Kind::kOffer) {
      EXPECT_TRUE(IsValid(parsed->slots));
      EXPECT_EQ(parsed->segment_bytes, SegmentBytes(parsed->slots));
    }
  }
}

TEST(ShareMessageTest, PassesDescriptorsAndReadsNoByteMore) {
  auto [from, to] = Sockets();
  const int fds[] = {from.get(), to.get()};
  ASSERT_TRUE(*SendShareMessage(from.get(), SomeOffer(), fds));
  ASSERT_EQ(send(from.get(), "next", 4, 0), 4);
  ShareMessageReader reader;
  const absl::StatusOr<bool> complete = reader.Advance(to.get());
  ASSERT_TRUE(complete.ok() && *complete) << complete.status();
  const ShareMessageReader::Received received = reader.Take();
  EXPECT_EQ(received.fds.size(), 2u);
  EXPECT_FALSE(received.is_short_of_fds);
  for (const UniqueFd& fd : received.fds)
    EXPECT_EQ(fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
  char next[8];
  EXPECT_EQ(recv(to.get(), next, sizeof next, 0), 4);
}

TEST(ShareMessageTest, TakesAMessageInPieces) {
  auto [from, to] = Sockets();
  const ShareMessageBytes bytes = EncodeShareMessage(SomeOffer());
  ShareMessageReader reader;
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(*reader.Advance(to.get()));
    ASSERT_EQ(send(from.get(), &bytes[i], 1, 0), 1);
    EXPECT_EQ(*reader.Advance(to.get()), i + 1 == bytes.size());
  }
  EXPECT_EQ(reader.Take().bytes, bytes);
}

TEST(ShareMessageTest, RefusesMoreDescriptorsThanAreEverOffered) {
  auto [from, to] = Sockets();
  const int fds[] = {from.get(), to.get(), from.get()};
  ASSERT_TRUE(*SendShareMessage(from.get(), SomeOffer(), fds));
  ShareMessageReader reader;
  const absl::Status status = reader.Advance(to.get()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("more descriptors than the 2"));
}

TEST(ShareMessageTest, SaysThatThisProcessHasNoDescriptorLeft) {
  auto [from, to] = Sockets();
  const int fds[] = {from.get()};
  ASSERT_TRUE(*SendShareMessage(from.get(), SomeOffer(), fds));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const UniqueFd next(fcntl(to.get(), F_DUPFD_CLOEXEC, 0));
  const rlimit none = {static_cast<rlim_t>(next.get()), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  ShareMessageReader reader;
  const absl::StatusOr<bool> complete = reader.Advance(to.get());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(complete.ok() && *complete) << complete.status();
  const ShareMessageReader::Received received = reader.Take();
  EXPECT_TRUE(received.is_short_of_fds);
  EXPECT_TRUE(received.fds.empty());
}

TEST(ShareMessageTest, SaysThatThePeerIsGone) {
  auto [from, to] = Sockets();
  from.Reset();
  ShareMessageReader reader;
  EXPECT_TRUE(absl::IsUnavailable(reader.Advance(to.get()).status()));
  EXPECT_TRUE(absl::IsUnavailable(
      SendShareMessage(to.get(), SomeOffer(), {}).status()));
}

}  // namespace
}  // namespace ringmaster
