// Tests NcclCommunicator between processes, 2 and 3 ranks on one GPU, as hosts
// of their own: their results, and how the others end when one is killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/transport/unique_fd.h"
#include "worker/collective/nccl/nccl_settings.h"
#include "worker/collective/nccl/testing/rank_program.h"

namespace ringmaster {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kRankFlag[] = "--rank-program";
constexpr absl::Duration kPatience = absl::Seconds(40);
#ifdef RINGMASTER_NCCL_EMULATED
constexpr absl::Duration kFreedWithin = absl::Seconds(1);
#else
// Ranks that share a GPU take turns on it, which no ranks that train do.
constexpr absl::Duration kFreedWithin = absl::Seconds(5);
#endif

class RankProcess {
 public:
  // With `variables` ("NAME=value") in its environment.
  explicit RankProcess(const std::vector<std::string>& variables) {
    int to_child[2];
    int from_child[2];
    if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0) {
      abort();
    }
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(to_child[0], STDIN_FILENO);
      dup2(from_child[1], STDOUT_FILENO);
      for (const std::string& variable : variables) {
        putenv(const_cast<char*>(variable.c_str()));
      }
      execl("/proc/self/exe", "rank", kRankFlag, nullptr);
      _exit(127);
    }
    input_ = UniqueFd(to_child[1]);
    output_ = UniqueFd(from_child[0]);
    close(to_child[0]);
    close(from_child[1]);
  }
  ~RankProcess() { Kill(); }

  void Say(const std::string& command) {
    const std::string line = absl::StrCat(command, "\n");
    if (write(input_.get(), line.data(), line.size()) !=
        static_cast<ssize_t>(line.size())) {
      ADD_FAILURE() << "a rank does not listen";
    }
  }
  // The next line; "silence" if there is none in time, "gone" after the last.
  std::string Hear(absl::Duration patience = kPatience) {
    const absl::Time deadline = absl::Now() + patience;
    while (true) {
      const size_t end = heard_.find('\n');
      if (end != std::string::npos) {
        std::string line = heard_.substr(0, end);
        heard_.erase(0, end + 1);
        return line;
      }
      const absl::Duration left = deadline - absl::Now();
      pollfd fd = {output_.get(), POLLIN, 0};
      if (left <= absl::ZeroDuration() ||
          poll(&fd, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) ==
              0) {
        return "silence";
      }
      char bytes[512];
      const ssize_t got = read(output_.get(), bytes, sizeof(bytes));
      if (got <= 0) return "gone";
      heard_.append(bytes, static_cast<size_t>(got));
    }
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    AwaitExitCode();
  }
  // -1 if it did not exit by itself.
  int AwaitExitCode() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd input_;
  UniqueFd output_;
  std::string heard_;
};

const std::string& Shared() {
  static const auto& variable =
      *new std::string(absl::StrCat(kShareGpuVariable, "=1"));
  return variable;
}

class NcclProcessTest : public ::testing::Test {
 protected:
  // Ranks with these variables in their environments.
  void Start(const std::vector<std::vector<std::string>>& ranks) {
    for (const std::vector<std::string>& variables : ranks) {
      ranks_.push_back(std::make_unique<RankProcess>(variables));
    }
    for (const auto& rank : ranks_) {
      const std::string first = rank->Hear();
      if (absl::StartsWith(first, "skip ")) GTEST_SKIP() << first;
      ASSERT_THAT(first, StartsWith("address "));
      addresses_.push_back(first.substr(8));
    }
  }
  RankProcess& rank(int i) { return *ranks_[static_cast<size_t>(i)]; }

  // Forms a generation of the processes `members`, in this order; returns their
  // answers.
  std::vector<std::string> Connect(int generation,
                                   const std::vector<int>& members) {
    std::string addresses;
    for (const int member : members) {
      absl::StrAppend(&addresses, " ", addresses_[static_cast<size_t>(member)]);
    }
    for (size_t i = 0; i < members.size(); ++i) {
      rank(members[i])
          .Say(absl::StrCat("connect ", generation, " ", i, addresses));
    }
    return HearAll(members);
  }
  std::vector<std::string> Ask(const std::vector<int>& members,
                               const std::string& command) {
    for (const int member : members) rank(member).Say(command);
    return HearAll(members);
  }
  std::vector<std::string> HearAll(const std::vector<int>& members) {
    std::vector<std::string> answers;
    for (const int member : members) answers.push_back(rank(member).Hear());
    return answers;
  }
  // Forms a generation and checks its results.
  void ConnectAndCheck(int generation, const std::vector<int>& members) {
    for (const std::string& answer : Connect(generation, members)) {
      ASSERT_THAT(answer, StartsWith("ok "));
      std::cout << "generation " << generation << " connected: " << answer
                << " s" << std::endl;
    }
    for (const std::string& answer : Ask(members, "check")) {
      ASSERT_THAT(answer, StartsWith("ok "));
    }
  }

  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::vector<std::string> addresses_;
};

class NcclProcessesTest : public NcclProcessTest,
                          public ::testing::WithParamInterface<int> {};

TEST_P(NcclProcessesTest, ComputeOnOneGpu) {
  Start(std::vector<std::vector<std::string>>(static_cast<size_t>(GetParam()),
                                              {Shared()}));
  if (IsSkipped() || HasFatalFailure()) return;
  std::vector<int> all;
  for (int i = 0; i < GetParam(); ++i) all.push_back(i);
  ConnectAndCheck(1, all);
  // This is what follows the orderly end of a generation.
  ConnectAndCheck(2, all);
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, NcclProcessesTest,
                         ::testing::Values(2, 3));

class NcclKillTest : public NcclProcessTest,
                     public ::testing::WithParamInterface<int> {};

// The parameter is the number of the rank, of three, that is killed while the
// others wait for it.
TEST_P(NcclKillTest, FreesTheOthersWhoGoOn) {
  Start({{Shared()}, {Shared()}, {Shared()}});
  if (IsSkipped() || HasFatalFailure()) return;
  ConnectAndCheck(1, {0, 1, 2});
  const int killed = GetParam();
  std::vector<int> others;
  for (const int i : {0, 1, 2}) {
    if (i != killed) others.push_back(i);
  }
  for (const int i : others) rank(i).Say("reduce 100000");
  EXPECT_EQ(rank(others[0]).Hear(absl::Milliseconds(200)), "silence");
  const absl::Time begin = absl::Now();
  rank(killed).Kill();
  for (const std::string& answer : HearAll(others)) {
    EXPECT_THAT(answer,
                AnyOf(StartsWith("UNAVAILABLE"), StartsWith("ABORTED")));
  }
  const absl::Duration freed = absl::Now() - begin;
  std::cout << "freed after " << freed << std::endl;
  EXPECT_LT(freed, kFreedWithin);
  ConnectAndCheck(2, others);
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclKillTest, ::testing::Values(0, 1, 2));

TEST_F(NcclProcessTest, RefusesOneGpuForTwoUnlessItIsShared) {
  Start({{}, {}});
  if (IsSkipped() || HasFatalFailure()) return;
  for (const std::string& answer : Connect(1, {0, 1})) {
    EXPECT_THAT(answer, StartsWith("INVALID_ARGUMENT: rank 0 ("));
    EXPECT_THAT(answer, HasSubstr("and rank 1 ("));
    EXPECT_THAT(answer, HasSubstr("both use GPU-"));
  }
}

TEST_F(NcclProcessTest, RingsAreForAllRanksOrNone) {
  const std::vector<std::string> ring = {Shared(),
                                         absl::StrCat(kRingVariable, "=1")};
  Start({ring, ring, {Shared()}});
  if (IsSkipped() || HasFatalFailure()) return;
  ConnectAndCheck(1, {0, 1});
  for (const std::string& answer : Connect(2, {0, 1, 2})) {
    EXPECT_THAT(answer, StartsWith("FAILED_PRECONDITION: rank 0 ("));
    EXPECT_THAT(answer, HasSubstr("has the NCCL settings ring=1 share_gpu=1 "
                                  "and rank 2 ("));
  }
}

#ifdef RINGMASTER_NCCL_EMULATED
TEST_F(NcclProcessTest, AProcessWhoseAbortHangsEndsWithAVerdict) {
  const std::vector<std::string> hangs = {
      Shared(), "RINGMASTER_EMULATED_NCCL_ABORT=hang"};
  Start({hangs, hangs});
  if (IsSkipped() || HasFatalFailure()) return;
  ConnectAndCheck(1, {0, 1});
  rank(0).Say("reduce 1000");
  EXPECT_EQ(rank(0).Hear(absl::Milliseconds(100)), "silence");
  rank(1).Kill();
  EXPECT_EQ(rank(0).Hear(), "gone");
  EXPECT_EQ(rank(0).AwaitExitCode(), 138);
}
#endif

}  // namespace
}  // namespace ringmaster

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == ringmaster::kRankFlag) {
    return ringmaster::RunRankProgram();
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
