#include "worker/torch/point_to_point.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/transport/socket_link.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(30); }

MessageKey Tag(uint32_t tag) { return {MessageKey::Kind::kUser, tag}; }

std::span<const std::byte> Read(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
std::span<std::byte> Write(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), text.size()};
}

// `count` ranks in this process.
std::vector<std::unique_ptr<PointToPoint>> RanksOf(int count) {
  const auto size = static_cast<size_t>(count);
  std::vector<std::vector<std::unique_ptr<Link>>> links(size);
  for (auto& of_rank : links) of_rank.resize(size);
  for (size_t a = 0; a < size; ++a) {
    for (size_t b = a + 1; b < size; ++b) {
      std::tie(links[a][b], links[b][a]) =
          *LoopbackPair(absl::StrCat("rank ", b), absl::StrCat("rank ", a));
    }
  }
  std::vector<std::unique_ptr<PointToPoint>> ranks;
  for (int rank = 0; rank < count; ++rank) {
    ranks.push_back(std::make_unique<PointToPoint>(
        rank, std::move(links[static_cast<size_t>(rank)]), Clock::Real()));
  }
  return ranks;
}

TEST(PointToPointTest, CarriesMessagesOfAnySizeBothWays) {
  const auto ranks = RanksOf(2);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5 << 20}}) {
    const std::string to_first(bytes, 'a');
    const std::string to_second(bytes, 'b');
    std::string at_first(bytes, ' ');
    std::string at_second(bytes, ' ');
    const auto sent_up = ranks[0]->Send(1, Tag(0), Read(to_second));
    const auto sent_down = ranks[1]->Send(0, Tag(0), Read(to_first));
    const auto up = ranks[1]->Receive(0, Tag(0), Write(at_second));
    const auto down = ranks[0]->Receive(1, Tag(0), Write(at_first));
    EXPECT_TRUE(ranks[0]->Wait(*sent_up, Soon()).ok());
    EXPECT_TRUE(ranks[1]->Wait(*sent_down, Soon()).ok());
    EXPECT_TRUE(ranks[1]->Wait(*up, Soon()).ok());
    EXPECT_TRUE(ranks[0]->Wait(*down, Soon()).ok());
    EXPECT_EQ(at_first, to_first);
    EXPECT_EQ(at_second, to_second);
    EXPECT_TRUE(ranks[0]->IsOver(*down));
    EXPECT_EQ(ranks[0]->SourceOf(*down), 1);
  }
}

TEST(PointToPointTest, KeepsTheOrderOfATagAndNotAmongTags) {
  const auto ranks = RanksOf(2);
  const std::vector<std::string> texts = {"one", "two", "odd", "six"};
  const std::vector<uint32_t> tags = {1, 1, 7, 1};
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(
        ranks[0]
            ->Wait(*ranks[0]->Send(1, Tag(tags[i]), Read(texts[i])), Soon())
            .ok());
  }
  const auto receive = [&](uint32_t tag) {
    std::string text(3, ' ');
    EXPECT_TRUE(ranks[1]
                    ->Wait(*ranks[1]->Receive(0, Tag(tag), Write(text)), Soon())
                    .ok());
    return text;
  };
  EXPECT_EQ(receive(7), "odd");
  EXPECT_EQ(receive(1), "one");
  EXPECT_EQ(receive(1), "two");
  EXPECT_EQ(receive(1), "six");
}

TEST(PointToPointTest, AMessageMayComeFromAnyRank) {
  const auto ranks = RanksOf(3);
  std::string first(2, ' ');
  std::string second(2, ' ');
  const auto early =
      ranks[0]->Receive(PointToPoint::kAnyRank, Tag(3), Write(first));
  const std::string text = "hi";
  EXPECT_TRUE(
      ranks[2]->Wait(*ranks[2]->Send(0, Tag(3), Read(text)), Soon()).ok());
  EXPECT_TRUE(ranks[0]->Wait(*early, Soon()).ok());
  EXPECT_EQ(ranks[0]->SourceOf(*early), 2);
  EXPECT_TRUE(
      ranks[1]->Wait(*ranks[1]->Send(0, Tag(3), Read(text)), Soon()).ok());
  const auto late =
      ranks[0]->Receive(PointToPoint::kAnyRank, Tag(3), Write(second));
  EXPECT_TRUE(ranks[0]->Wait(*late, Soon()).ok());
  EXPECT_EQ(ranks[0]->SourceOf(*late), 1);
  EXPECT_EQ(first + second, "hihi");
}

TEST(PointToPointTest, RefusesAnotherSizeByBothNumbers) {
  for (const bool is_early : {true, false}) {
    const auto ranks = RanksOf(2);
    std::string small(2, ' ');
    std::string other(3, ' ');
    const std::string text = "four";
    std::shared_ptr<Transfer> receive;
    if (is_early) receive = ranks[1]->Receive(0, Tag(1), Write(small));
    EXPECT_TRUE(
        ranks[0]->Wait(*ranks[0]->Send(1, Tag(1), Read(text)), Soon()).ok());
    if (!is_early) {
      // It is kept until somebody asks, since one behind it was wanted.
      EXPECT_TRUE(absl::IsDeadlineExceeded(
          ranks[1]->Wait(*ranks[1]->Receive(0, Tag(2), Write(other)),
                         Clock::Real().Now() + absl::Milliseconds(50))));
      receive = ranks[1]->Receive(0, Tag(1), Write(small));
    }
    const absl::Status status = ranks[1]->Wait(*receive, Soon());
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(),
                HasSubstr("rank 1 expected 2 bytes of rank 0 to send a message "
                          "with tag 1, but it sent 4"));
  }
}

TEST(PointToPointTest, NamesWhomItWaitedForAndGoesOn) {
  const auto ranks = RanksOf(2);
  std::string text(2, ' ');
  const auto receive = ranks[1]->Receive(0, Tag(9), Write(text));
  const absl::Status status =
      ranks[1]->Wait(*receive, Clock::Real().Now() + absl::Milliseconds(5));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("rank 1 waited for rank 0 to send a "
                                          "message with tag 9"));
  const std::string sent = "ok";
  EXPECT_TRUE(
      ranks[0]->Wait(*ranks[0]->Send(1, Tag(9), Read(sent)), Soon()).ok());
  const auto again = ranks[1]->Receive(0, Tag(9), Write(text));
  EXPECT_TRUE(ranks[1]->Wait(*again, Soon()).ok());
  EXPECT_EQ(text, "ok");
}

TEST(PointToPointTest, APeersEndFailsWhatIsWithIt) {
  auto ranks = RanksOf(3);
  std::string text(2, ' ');
  const auto receive = ranks[0]->Receive(1, Tag(0), Write(text));
  ranks[1].reset();
  const absl::Status status = ranks[0]->Wait(*receive, Soon());
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("rank 1"));
  EXPECT_TRUE(absl::IsUnavailable(
      ranks[0]->Wait(*ranks[0]->Send(1, Tag(0), Read(text)), Soon())));
  // The others are not concerned.
  const std::string hello = "hi";
  EXPECT_TRUE(
      ranks[2]->Wait(*ranks[2]->Send(0, Tag(0), Read(hello)), Soon()).ok());
  EXPECT_TRUE(
      ranks[0]->Wait(*ranks[0]->Receive(2, Tag(0), Write(text)), Soon()).ok());
}

TEST(PointToPointTest, KeepsTheMemoryOfAMessageUntilItIsOver) {
  const auto ranks = RanksOf(2);
  auto text = std::make_shared<std::string>(8 << 20, 'x');
  const std::weak_ptr<std::string> watched = text;
  const auto bytes = Read(*text);
  auto sent = ranks[0]->Send(1, Tag(0), bytes, std::move(text));
  EXPECT_FALSE(watched.expired());
  std::string received(8 << 20, ' ');
  EXPECT_TRUE(ranks[1]
                  ->Wait(*ranks[1]->Receive(0, Tag(0), Write(received)), Soon())
                  .ok());
  EXPECT_TRUE(ranks[0]->Wait(*sent, Soon()).ok());
  const MonotonicTime limit = Soon();
  while (!watched.expired() && Clock::Real().Now() < limit)
    std::this_thread::yield();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(received.back(), 'x');
}

// A link on which nothing comes, until its peer's host counts as gone.
class SilentLink final : public Link {
 public:
  absl::StatusOr<size_t> TryWrite(std::span<const iovec>) override { return 0; }
  absl::StatusOr<size_t> TryRead(std::span<const iovec>) override { return 0; }
  absl::Status CheckPeer(MonotonicTime) override {
    return absl::UnavailableError("rank 1 answers nothing");
  }
  int fd() const override { return pair_->first->fd(); }
  void Close() override {}
  const std::string& peer() const override { return pair_->first->peer(); }

 private:
  const absl::StatusOr<std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>>>
      pair_ = LoopbackPair("rank 1", "rank 0");
};

TEST(PointToPointTest, AHostThatIsCutOffIsFoundOut) {
  std::vector<std::unique_ptr<Link>> links(2);
  links[1] = std::make_unique<SilentLink>();
  PointToPoint rank(0, std::move(links), Clock::Real());
  std::string text(2, ' ');
  const absl::Status status =
      rank.Wait(*rank.Receive(1, Tag(0), Write(text)), Soon());
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST(PointToPointTest, RefusesItselfAndStrangers) {
  const auto ranks = RanksOf(2);
  std::string text = "x";
  for (const int rank : {0, 2, -3}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        ranks[0]->Wait(*ranks[0]->Send(rank, Tag(0), Read(text)), Soon())));
    EXPECT_TRUE(absl::IsInvalidArgument(
        ranks[0]->Wait(*ranks[0]->Receive(rank, Tag(0), Write(text)), Soon())));
  }
}

TEST(PointToPointTest, NobodyIsLeftToSendWhateverItIs) {
  auto ranks = RanksOf(3);
  std::string text(2, ' ');
  const auto early =
      ranks[0]->Receive(PointToPoint::kAnyRank, Tag(0), Write(text));
  ranks[1].reset();
  EXPECT_TRUE(absl::IsDeadlineExceeded(ranks[0]->Wait(
      *ranks[0]->Receive(PointToPoint::kAnyRank, Tag(1), Write(text)),
      Clock::Real().Now() + absl::Milliseconds(50))));
  ranks[2].reset();
  EXPECT_TRUE(absl::IsUnavailable(ranks[0]->Wait(*early, Soon())));
  EXPECT_TRUE(absl::IsUnavailable(ranks[0]->Wait(
      *ranks[0]->Receive(PointToPoint::kAnyRank, Tag(0), Write(text)),
      Soon())));
}

TEST(PointToPointTest, WhatHadComeBeforeAnEndIsNotLost) {
  for (const int from : {1, PointToPoint::kAnyRank}) {
    auto ranks = RanksOf(2);
    std::string text(3, ' ');
    for (const uint32_t tag : {7, 1}) {
      const std::string sent = "tag";
      EXPECT_TRUE(ranks[1]
                      ->Wait(*ranks[1]->Send(0, Tag(tag), Read(sent)), Soon())
                      .ok());
    }
    EXPECT_TRUE(ranks[0]
                    ->Wait(*ranks[0]->Receive(1, Tag(1), Write(text)), Soon())
                    .ok());
    ranks[1].reset();
    EXPECT_TRUE(absl::IsUnavailable(
        ranks[0]->Wait(*ranks[0]->Receive(1, Tag(9), Write(text)), Soon())));
    EXPECT_TRUE(
        ranks[0]
            ->Wait(*ranks[0]->Receive(from, Tag(7), Write(text)), Soon())
            .ok());
  }
}

TEST(PointToPointTest, TellsWhomItWaitsFor) {
  const auto ranks = RanksOf(2);
  EXPECT_EQ(ranks[0]->awaited().rank, PointToPoint::kAnyRank);
  std::string text(2, ' ');
  const auto receive = ranks[0]->Receive(1, Tag(4), Write(text));
  std::thread waiting(
      [&] { EXPECT_TRUE(ranks[0]->Wait(*receive, Soon()).ok()); });
  const MonotonicTime limit = Soon();
  while (ranks[0]->awaited().rank != 1 && Clock::Real().Now() < limit)
    std::this_thread::yield();
  EXPECT_EQ(ranks[0]->awaited().key, Tag(4));
  EXPECT_FALSE(ranks[0]->awaited().is_send);
  const std::string sent = "ok";
  EXPECT_TRUE(
      ranks[1]->Wait(*ranks[1]->Send(0, Tag(4), Read(sent)), Soon()).ok());
  waiting.join();
  EXPECT_EQ(ranks[0]->awaited().rank, PointToPoint::kAnyRank);
  EXPECT_EQ(ranks[0]->awaited().over, 1);
}

TEST(PointToPointTest, AnAbortUnblocks) {
  const auto ranks = RanksOf(2);
  std::string text = "x";
  const auto receive = ranks[0]->Receive(1, Tag(0), Write(text));
  std::thread aborting([&] { ranks[0]->Abort("enough"); });
  const absl::Status status = ranks[0]->Wait(*receive, Soon());
  aborting.join();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_TRUE(absl::IsAborted(
      ranks[0]->Wait(*ranks[0]->Send(1, Tag(0), Read(text)), Soon())));
}

}  // namespace
}  // namespace ringmaster
