#include "worker/bench/forked_ranks.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Returns all messages until the end, and the end in `status`.
std::vector<std::string> Drain(ForkedRanks& ranks, absl::Status& status,
                               int stop_fd = -1) {
  std::vector<std::string> messages;
  while (true) {
    auto next = ranks.Next(stop_fd);
    status = next.status();
    if (!next.ok() || !next->has_value()) return messages;
    messages.push_back(**next);
  }
}

void ExpectGone(const ForkedRanks& ranks, const std::vector<pid_t>& pids) {
  for (size_t rank = 0; rank < pids.size(); ++rank) {
    EXPECT_EQ(ranks.pid(static_cast<int>(rank)), -1);
    EXPECT_EQ(::kill(pids[rank], 0), -1) << "rank " << rank << " is alive";
  }
}

TEST(ForkedRanksTest, BringWhatEveryRankSays) {
  auto ranks = ForkedRanks::Start(3, [](int rank, const auto& send) {
    const absl::Status sent = send(absl::StrCat("first of ", rank));
    return sent.ok() ? send(absl::StrCat("second of ", rank)) : sent;
  });
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  absl::Status status;
  EXPECT_THAT(
      Drain(**ranks, status),
      UnorderedElementsAre("first of 0", "first of 1", "first of 2",
                           "second of 0", "second of 1", "second of 2"));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ForkedRanksTest, NameTheRankThatFailed) {
  auto ranks = ForkedRanks::Start(2, [](int rank, const auto& /*send*/) {
    return rank == 1 ? absl::InvalidArgumentError("no such thing")
                     : absl::OkStatus();
  });
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  absl::Status status;
  EXPECT_THAT(Drain(**ranks, status), IsEmpty());
  EXPECT_EQ(status, absl::InvalidArgumentError("rank 1: no such thing"));
}

TEST(ForkedRanksTest, BlameTheDeathAndNotWhatFollowsFromIt) {
  // Rank 0 fails once rank 1 is dead, as a rank does whose peer is gone; rank 2
  // would stay for ever.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto ranks = ForkedRanks::Start(3, [&](int rank, const auto& send) {
    ::close(ends[rank == 1 ? 0 : 1]);
    if (rank == 1) {
      (void)send("here");
      ::pause();
    }
    if (rank == 2) ::pause();
    char byte = 0;
    (void)!::read(ends[0], &byte, 1);
    return absl::UnavailableError("rank 1 closed its connection");
  });
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  ::close(ends[1]);
  const std::vector<pid_t> pids = {(*ranks)->pid(0), (*ranks)->pid(1),
                                   (*ranks)->pid(2)};
  auto first = (*ranks)->Next(-1);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(**first, "here");
  // Not SIGSEGV: a sanitizer makes an exit of it.
  ASSERT_EQ(::kill(pids[1], SIGTERM), 0);
  absl::Status status;
  EXPECT_THAT(Drain(**ranks, status), IsEmpty());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 1 was killed by signal 15"),
                    HasSubstr("Terminated")));
  ExpectGone(**ranks, pids);
  ::close(ends[0]);
}

TEST(ForkedRanksTest, EndWhenTheyAreStopped) {
  const int stop = ::eventfd(0, EFD_CLOEXEC);
  auto ranks = ForkedRanks::Start(2, [](int, const auto&) {
    ::pause();
    return absl::OkStatus();
  });
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  const std::vector<pid_t> pids = {(*ranks)->pid(0), (*ranks)->pid(1)};
  const uint64_t one = 1;
  ASSERT_EQ(::write(stop, &one, sizeof(one)),
            static_cast<ssize_t>(sizeof(one)));
  absl::Status status;
  EXPECT_THAT(Drain(**ranks, status, stop), IsEmpty());
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  ExpectGone(**ranks, pids);
  ::close(stop);
}

TEST(ForkedRanksTest, AreKilledWithTheirOwner) {
  auto ranks = ForkedRanks::Start(2, [](int, const auto&) {
    ::pause();
    return absl::OkStatus();
  });
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  const pid_t pid = (*ranks)->pid(0);
  ranks->reset();
  EXPECT_EQ(::kill(pid, 0), -1);
}

}  // namespace
}  // namespace ringmaster
