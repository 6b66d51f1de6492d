#include "worker/torch/operation_log.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/sync/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/torch/testing/memory_store.h"
#include "worker/views/view_client.h"
#include "worker/views/view_server.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);

// The ranks of a job, each with a group of all of them, and a worker that tells
// those that live of each other's end.
class Job {
 public:
  explicit Job(int size) : states_(static_cast<size_t>(size), State::kLives) {
    for (int rank = 0; rank < size; ++rank) {
      servers_.push_back(ViewServer::Listen(rank, size).value());
      groups_.push_back(nullptr);
    }
    worker_ = std::thread([this] { Serve(); });
  }
  ~Job() {
    is_over_ = true;
    worker_.join();
  }

  // Has `body` run by all ranks, each on a thread.
  using Body =
      std::function<void(int rank, RankGroup& group, OperationLog& log)>;
  void Run(const Body& body) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size(); ++rank)
      ranks.emplace_back([&, rank] { RunRank(rank, body); });
    for (std::thread& rank : ranks) rank.join();
  }

  // Has `body` run by a newcomer in the place of `rank`, once that is gone and its
  // view is over, on this thread.
  void RunNewcomer(int rank, const std::string& group_text, const Body& body) {
    std::string name;
    {
      MutexLock lock(mutex_);
      auto server = ViewServer::Listen(rank, size()).value();
      name = server->name();
      next_servers_[rank] = std::move(server);
    }
    auto client = ViewClient::Connect(name, kLong, Clock::Real());
    ASSERT_TRUE(client.ok()) << client.status();
    auto group = RankGroup::Join(group_text, OptionsOf(rank, **client));
    ASSERT_TRUE(group.ok()) << group.status();
    (*client)->TellJoins((*group)->MemberText());
    RunGroup(rank, **group, body);
    group->reset();
    NoteGone(rank);
  }

  // Ends a rank as a signal does: its connections close. Its own thread finds its
  // group failed.
  void Kill(int rank) {
    {
      MutexLock lock(mutex_);
      states_[static_cast<size_t>(rank)] = State::kKilled;
      if (groups_[static_cast<size_t>(rank)] != nullptr)
        groups_[static_cast<size_t>(rank)]->Abort("killed");
    }
  }
  [[nodiscard]] bool IsKilled(int rank) {
    MutexLock lock(mutex_);
    return states_[static_cast<size_t>(rank)] != State::kLives;
  }

 private:
  enum class State { kLives, kKilled, kGone };
  [[nodiscard]] int size() const { return static_cast<int>(servers_.size()); }

  void RunRank(int rank, const Body& body) {
    auto client = ViewClient::Connect(
        servers_[static_cast<size_t>(rank)]->name(), kLong, Clock::Real());
    ASSERT_TRUE(client.ok()) << client.status();
    auto group = RankGroup::Connect(store_, OptionsOf(rank, **client));
    ASSERT_TRUE(group.ok()) << group.status();
    ASSERT_TRUE((*group)->follows_views());
    RunGroup(rank, **group, body);
    group->reset();
    NoteGone(rank);
  }

  RankGroupOptions OptionsOf(int rank, ViewClient& views) const {
    RankGroupOptions options;
    options.rank = options.job_rank = rank;
    options.world_size = size();
    options.connect_timeout = kLong;
    options.host_key = "here";
    options.clock = &Clock::Real();
    options.views = &views;
    return options;
  }

  void RunGroup(int rank, RankGroup& group, const Body& body) {
    {
      MutexLock lock(mutex_);
      groups_[static_cast<size_t>(rank)] = &group;
    }
    OperationLog log(group, kLong);
    body(rank, group, log);
    MutexLock lock(mutex_);
    groups_[static_cast<size_t>(rank)] = nullptr;
  }

  void NoteGone(int rank) {
    MutexLock lock(mutex_);
    if (states_[static_cast<size_t>(rank)] == State::kKilled)
      states_[static_cast<size_t>(rank)] = State::kGone;
  }

  // As worker/external does it, but for all ranks in one place.
  void Serve() {
    std::vector<int> members;
    for (int rank = 0; rank < size(); ++rank) members.push_back(rank);
    int64_t number = 0;
    std::vector<Newcomer> newcomers;
    std::map<const ViewServer*, MonotonicTime> lost_since;
    while (!is_over_) {
      TakeNewcomers(members);
      std::vector<pollfd> ready;
      for (const auto& server : servers_)
        ready.push_back({.fd = server->fd(), .events = POLLIN, .revents = 0});
      (void)::poll(ready.data(), ready.size(), 1);
      for (const auto& server : servers_) server->Look();
      std::vector<int> living;
      for (int rank = 0; rank < size(); ++rank) {
        const auto& server = servers_[static_cast<size_t>(rank)];
        const bool is_in = std::ranges::count(members, rank) > 0;
        MutexLock lock(mutex_);
        if (states_[static_cast<size_t>(rank)] == State::kGone) continue;
        if (is_in || !server->member().empty()) living.push_back(rank);
        if (is_in || server->member().empty()) continue;
        const auto count = static_cast<int64_t>(newcomers.size());
        newcomers.push_back({count + 1, rank, server->member()});
      }
      // A rank that lives is not lost; it takes a moment to know.
      const MonotonicTime now = Clock::Real().Now();
      for (const auto& server : servers_) {
        const std::set<int> lost = server->lost();
        for (const int rank : lost) {
          const auto since = lost_since.try_emplace(server.get(), now).first;
          if (now > since->second + absl::Milliseconds(300))
            server->Refuse(rank);
        }
        if (lost.empty()) lost_since.erase(server.get());
      }
      if (living == members) continue;
      members = living;
      const View view = {++number, members, "somebody was killed", newcomers};
      for (const int rank : members)
        servers_[static_cast<size_t>(rank)]->Send(view);
    }
  }

  // Those whose places are free.
  void TakeNewcomers(const std::vector<int>& members) {
    MutexLock lock(mutex_);
    for (auto next = next_servers_.begin(); next != next_servers_.end();) {
      const int rank = next->first;
      auto& state = states_[static_cast<size_t>(rank)];
      if (state != State::kGone || std::ranges::count(members, rank) > 0) {
        ++next;
        continue;
      }
      state = State::kLives;
      servers_[static_cast<size_t>(rank)] = std::move(next->second);
      next = next_servers_.erase(next);
    }
  }

  MemoryStore store_;
  std::vector<std::unique_ptr<ViewServer>> servers_;
  std::atomic<bool> is_over_ = false;
  Mutex mutex_;
  std::vector<RankGroup*> groups_ GUARDED_BY(mutex_);
  std::vector<State> states_ GUARDED_BY(mutex_);
  std::map<int, std::unique_ptr<ViewServer>> next_servers_ GUARDED_BY(mutex_);
  std::thread worker_;
};

// A sum that shows who is in it: rank r adds 1 << r.
struct Sum {
  std::vector<int64_t> buffer = std::vector<int64_t>(3000);
  std::vector<int64_t> kept;

  OperationLog::Operation Of(RankGroup& group, absl::Status& end) {
    buffer.assign(buffer.size(), int64_t{1} << group.rank());
    return {.run =
                [this, &group] {
                  return group.RunCollective(
                      AllReduceSum(BufferView::Of(std::span(buffer))), kLong);
                },
            .keep =
                [this] {
                  kept = buffer;
                  return absl::OkStatus();
                },
            .restore =
                [this] {
                  buffer = kept;
                  return absl::OkStatus();
                },
            .finish = [&end](const absl::Status& status) { end = status; }};
  }
  // All of its elements are of the same ranks.
  [[nodiscard]] int64_t members() const {
    EXPECT_EQ(std::set<int64_t>(buffer.begin(), buffer.end()).size(), 1U);
    return buffer.front();
  }
};

// Commits of three sums each; returns whose sums they are, up to a failure.
std::vector<int64_t> RunCommits(int commits, RankGroup& group,
                                OperationLog& log,
                                const std::function<void(int commit)>& before) {
  std::vector<int64_t> members;
  for (int commit = 0; commit < commits; ++commit) {
    before(commit);
    std::array<Sum, 3> sums;
    std::array<absl::Status, 3> ends;
    for (size_t i = 0; i < sums.size(); ++i)
      log.Run(sums[i].Of(group, ends[i]));
    log.Commit();
    for (const absl::Status& end : ends) {
      if (!end.ok()) return members;
    }
    for (const Sum& sum : sums)
      EXPECT_EQ(sum.members(), sums[0].members()) << "one commit, other ranks";
    members.push_back(sums[0].members());
  }
  return members;
}

TEST(OperationLogTest, WithoutLossesAllAreOfAllRanks) {
  Job job(3);
  job.Run([](int /*rank*/, RankGroup& group, OperationLog& log) {
    EXPECT_THAT(RunCommits(4, group, log, [](int) {}), ElementsAre(7, 7, 7, 7));
  });
}

TEST(OperationLogTest, ARankThatIsLostBetweenCommitsIsInNoneAfter) {
  for (int lost = 0; lost < 3; ++lost) {
    Job job(3);
    std::atomic<int> others{0};  // that have begun commit 2
    job.Run([&](int rank, RankGroup& group, OperationLog& log) {
      const auto members = RunCommits(4, group, log, [&](int commit) {
        if (commit != 2) return;
        if (rank != lost) {
          ++others;
          return;
        }
        // Its last words could be lost with it, and with them the commit before.
        while (others < 2) std::this_thread::yield();
        job.Kill(rank);
      });
      const int64_t left = 7 - (1 << lost);
      if (rank != lost) {
        EXPECT_THAT(members, ElementsAre(7, 7, left, left));
        EXPECT_EQ(group.members().size(), 2U);
        EXPECT_EQ(group.MemberIndex(lost), -1);
      } else {
        EXPECT_THAT(members, ElementsAre(7, 7));
      }
    });
  }
}

TEST(OperationLogTest, TheLastRankGoesOnAlone) {
  Job job(3);
  std::atomic<int> begun{-1};  // the last commit that rank 1 has begun
  job.Run([&](int rank, RankGroup& group, OperationLog& log) {
    const auto members = RunCommits(5, group, log, [&](int commit) {
      if (rank == 1) begun = commit;
      if (rank == 1 || commit != 1 + rank) return;
      // Its last words could be lost with it, and with them the commit before.
      while (begun < commit) std::this_thread::yield();
      job.Kill(rank);
    });
    if (rank == 1) {
      EXPECT_THAT(members, ElementsAre(7, 6, 6, 2, 2));
    }
  });
}

TEST(OperationLogTest, WhatNeedsALostRankFailsAndTheRestGoesOn) {
  Job job(3);
  job.Run([&](int rank, RankGroup& group, OperationLog& log) {
    if (rank == 2) {
      job.Kill(rank);
      return;
    }
    absl::Status gathered;
    const OperationLog::Operation gather = {
        .run = [&] { return group.CheckNobodyLost("all_gather"); },
        .keep = [] { return absl::OkStatus(); },
        .restore = [] { return absl::OkStatus(); },
        .finish = [&](const absl::Status& end) { gathered = end; }};
    log.Run(gather);
    // The loss is noticed here at the latest, and what came before is run again.
    log.Commit();
    log.Run(gather);
    log.Commit();
    EXPECT_EQ(gathered.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(gathered.message()),
                AllOf(HasSubstr("all_gather needs the part of ranks that are "
                                "lost: rank 2 at 127.0.0.1:"),
                      HasSubstr("somebody was killed")));
    EXPECT_THAT(RunCommits(2, group, log, [](int) {}), ElementsAre(3, 3));
  });
}

TEST(OperationLogTest, ARankThatDoesNothingCatchesUp) {
  Job job(3);
  job.Run([&](int rank, RankGroup& group, OperationLog& log) {
    if (rank == 2) {
      job.Kill(rank);
      return;
    }
    if (rank == 0) {
      // It computes. The others do not wait for its next operation.
      while (!group.is_outdated()) absl::SleepFor(absl::Milliseconds(1));
      log.CatchUp();
      EXPECT_EQ(group.members().size(), 2U);
    }
    EXPECT_THAT(RunCommits(2, group, log, [](int) {}), ElementsAre(3, 3));
  });
}

TEST(OperationLogTest, AnErrorOfARankThatLivesIsTheGroups) {
  Job job(2);
  std::atomic<bool> is_over = false;
  job.Run([&](int rank, RankGroup& group, OperationLog& log) {
    absl::Status first;
    absl::Status second;
    Sum sum;
    auto operation = sum.Of(group, first);
    if (rank == 0) {
      operation.run = [] { return absl::InvalidArgumentError("no"); };
      log.Run(std::move(operation));
      log.Commit();
      EXPECT_EQ(first, absl::InvalidArgumentError("no"));
    }
    Sum other;
    log.Run(other.Of(group, second));
    log.Commit();
    if (rank == 0) {
      EXPECT_EQ(second, absl::InvalidArgumentError("no"));
    } else {
      EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable) << second;
      EXPECT_THAT(std::string(second.message()), HasSubstr("rank 0"));
    }
    // Its connections are closed; the other rank needs time to see that it lives.
    while (rank == 0 && !is_over) absl::SleepFor(absl::Milliseconds(1));
    is_over = true;
  });
}

// Ranks are killed at any moment, several of them; whoever is left has the same
// sums as the others, and each commit is of the same ranks.
TEST(OperationLogTest, WhoIsLeftAgreesWhateverHappens) {
  constexpr int kCommits = 60;
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    const int size = 3 + static_cast<int>(random() % 3);
    Job job(size);
    Mutex mutex;
    std::map<int, std::vector<int64_t>> members;  // by rank
    std::atomic<int> begun = 0;                   // commits, of all ranks
    std::thread killer([&] {
      // Once all are in one commit, and at some moment of a later one.
      int due = size + 1;
      const auto most = static_cast<uint32_t>(size) - 1;  // one is left
      for (uint32_t kills = 1 + random() % most; kills > 0; --kills) {
        due += static_cast<int>(random() % (kCommits / 4));
        while (begun < due) absl::SleepFor(absl::Microseconds(20));
        absl::SleepFor(absl::Microseconds(random() % 500));
        job.Kill(static_cast<int>(random() % static_cast<uint32_t>(size)));
      }
    });
    job.Run([&](int rank, RankGroup& group, OperationLog& log) {
      auto of_rank =
          RunCommits(kCommits, group, log, [&](int /*commit*/) { ++begun; });
      MutexLock lock(mutex);
      members[rank] = std::move(of_rank);
    });
    killer.join();
    const std::vector<int64_t>* first = nullptr;
    for (int rank = 0; rank < size; ++rank) {
      if (job.IsKilled(rank)) continue;
      ASSERT_EQ(members[rank].size(), static_cast<size_t>(kCommits))
          << "seed " << seed << ", rank " << rank;
      if (first == nullptr) first = &members[rank];
      EXPECT_EQ(members[rank], *first) << "seed " << seed;
      for (size_t i = 1; i < first->size(); ++i) {
        EXPECT_EQ((*first)[i] & ~(*first)[i - 1], 0) << "a rank came back";
      }
    }
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(first->front(), (int64_t{1} << size) - 1) << "seed " << seed;
  }
}

// The state of a program: how many commits it has made, and whose they were.
struct Program {
  static constexpr int64_t kMost = 4096;

  std::array<int64_t, kMost> members{};
  int64_t commits = 0;
};

// In the sums that the last newcomer takes part in: a few commits later all end.
constexpr int64_t kIsLast = 1 << 20;

// As a script's attach: gives those who have it not yet the state of those who do.
// False: the group has failed.
bool GiveState(RankGroup& group, OperationLog& log, Program& program) {
  std::array<int64_t, Program::kMost + 1> state{};
  absl::Status end;
  const auto fill = [&] {
    std::copy(program.members.begin(), program.members.end(), state.begin());
    state.back() = program.commits;
    return absl::OkStatus();
  };
  log.Run({.run = [&]() -> absl::Status {
             const int root = group.LowestSettled();
             if (root < 0) return absl::DataLossError("nobody has it");
             return group.RunCollective(
                 Broadcast(BufferView::Of(std::span<int64_t>(state)),
                           group.MemberIndex(root)),
                 kLong);
           },
           .keep = fill,
           .restore = fill,
           .finish = [&](const absl::Status& status) { end = status; }});
  log.Commit();
  if (!end.ok()) return false;
  std::copy(state.begin(), state.end() - 1, program.members.begin());
  program.commits = state.back();
  group.Settle(group.admitted());
  return true;
}

// Commits up to `most`, and newcomers between them. False: a failure.
bool RunProgram(RankGroup& group, OperationLog& log, Program& program,
                int64_t most, bool is_last = false) {
  for (bool is_ending = false; program.commits < most;) {
    while (true) {
      const absl::StatusOr<bool> admitted = log.Admit();
      if (!admitted.ok()) return false;
      if (!*admitted) break;
      if (!GiveState(group, log, program)) return false;
    }
    if (program.commits >= 5) absl::SleepFor(absl::Milliseconds(1));
    Sum sum;
    absl::Status end;
    OperationLog::Operation operation = sum.Of(group, end);
    if (is_last) {
      for (int64_t& value : sum.buffer) value += kIsLast;
    }
    log.Run(std::move(operation));
    log.Commit();
    if (!end.ok()) return false;
    const int64_t members = sum.members();
    program.members[static_cast<size_t>(program.commits++)] = members;
    if (!is_ending && members >= kIsLast) {
      is_ending = true;
      most = std::min(most, program.commits + 10);
    }
  }
  return true;
}

bool JoinProgram(RankGroup& group, OperationLog& log, Program& program) {
  return log.Join().ok() && GiveState(group, log, program);
}

// Kills a rank after its first commits, and has newcomers take its place, each of
// which but the last is killed, too, `after` it has begun to join. So is `victim`,
// one of the others, `after` the last has. Returns what those that lived to the
// end have, by rank.
std::map<int, Program> RunWithNewcomers(int size, int lost, int newcomers,
                                        absl::Duration after, int victim = -1) {
  Job job(size);
  Mutex mutex;
  std::map<int, Program> ends;
  std::string text;
  std::atomic<bool> is_lost = false;
  const auto end = [&](int rank, RankGroup& group, const Program& program) {
    EXPECT_EQ(group.MonitoredBarrier(kLong, /*names_all=*/false).code(),
              absl::StatusCode::kDataLoss);
    MutexLock lock(mutex);
    ends[rank] = program;
  };
  std::thread newcomer([&] {
    while (!is_lost) absl::SleepFor(absl::Milliseconds(1));
    for (int number = 1; number <= newcomers; ++number) {
      const bool is_last = number == newcomers;
      job.RunNewcomer(
          lost, text, [&](int rank, RankGroup& group, OperationLog& log) {
            std::thread killer([&] {
              if (is_last && victim < 0) return;
              absl::SleepFor(number * after);
              job.Kill(is_last ? victim : rank);
            });
            Program program;
            const bool has_joined = JoinProgram(group, log, program);
            if (is_last) {
              EXPECT_TRUE(has_joined);
            }
            if (has_joined &&
                RunProgram(group, log, program, Program::kMost, is_last))
              end(rank, group, program);
            killer.join();
          });
    }
  });
  job.Run([&](int rank, RankGroup& group, OperationLog& log) {
    Program program;
    if (rank == lost) {
      EXPECT_TRUE(RunProgram(group, log, program, 5));
      text = group.GroupText();
      job.Kill(rank);
      is_lost = true;
      return;
    }
    if (RunProgram(group, log, program, Program::kMost))
      end(rank, group, program);
  });
  newcomer.join();
  return ends;
}

void ExpectSameMembers(const std::map<int, Program>& ends, int size) {
  ASSERT_EQ(ends.size(), static_cast<size_t>(size));
  for (const auto& [rank, program] : ends) {
    EXPECT_EQ(program.members, ends.begin()->second.members) << rank;
    EXPECT_EQ(program.commits, ends.begin()->second.commits) << rank;
    ASSERT_GT(program.commits, 0);
    EXPECT_EQ(program.members[static_cast<size_t>(program.commits - 1)],
              (int64_t{1} << size) - 1 + kIsLast);
  }
}

TEST(OperationLogTest, ANewcomerTakesPartFromOnePlaceOn) {
  for (int lost = 0; lost < 3; ++lost) {
    const auto ends = RunWithNewcomers(3, lost, 1, absl::ZeroDuration());
    ExpectSameMembers(ends, 3);
    EXPECT_THAT(ends.begin()->second.members,
                AllOf(Contains(7 - (1 << lost)), Contains(7 + kIsLast)));
  }
}

// Who has passed the barrier of the admission tells the others of it in the next
// view.
TEST(OperationLogTest, OneThatIsLostAsANewcomerIsAdmittedIsNotMissed) {
  for (int turn = 0; turn < 24; ++turn) {
    const int victim = turn % 2 == 0 ? 0 : 3;
    auto ends = RunWithNewcomers(4, 1, 1, absl::Microseconds(1000 + 400 * turn),
                                 victim);
    ends.erase(victim);
    ASSERT_EQ(ends.size(), 3U) << turn;
    for (const auto& [rank, program] : ends)
      EXPECT_EQ(program.members, ends.begin()->second.members) << rank;
  }
}

TEST(OperationLogTest, ContributorsAreOfTheGradientsOfTheStep) {
  Job job(3);
  std::atomic<int> others{0};  // that have committed gradients
  job.Run([&](int rank, RankGroup& group, OperationLog& log) {
    const auto run = [&](bool is_of_gradients) {
      Sum sum;
      absl::Status end;
      OperationLog::Operation operation = sum.Of(group, end);
      operation.is_of_gradients = is_of_gradients;
      log.Run(std::move(operation));
      log.Commit();
      EXPECT_TRUE(end.ok()) << end;
    };
    run(true);
    if (rank == 2) {
      while (others < 2) std::this_thread::yield();
      job.Kill(rank);
      return;
    }
    ++others;
    run(false);  // a loss that is told of, say
    EXPECT_EQ(group.members().size(), 2U);
    EXPECT_THAT(log.TakeContributors(), ElementsAre(0, 1, 2));
    run(false);
    EXPECT_THAT(log.TakeContributors(), ElementsAre(0, 1));
  });
}

TEST(OperationLogTest, ANewcomerIsNothingWithoutThoseThatHaveTheState) {
  for (const bool is_admitted : {false, true}) {
    Job job(2);
    std::string text;
    std::atomic<bool> is_lost = false;
    std::atomic<bool> has_joined = false;
    std::thread newcomer([&] {
      while (!is_lost) absl::SleepFor(absl::Milliseconds(1));
      job.RunNewcomer(
          1, text, [&](int /*rank*/, RankGroup& group, OperationLog& log) {
            Program program;
            const absl::Status joined = log.Join();
            has_joined = true;
            EXPECT_EQ(joined.code(), is_admitted ? absl::StatusCode::kOk
                                                 : absl::StatusCode::kDataLoss);
            EXPECT_FALSE(GiveState(group, log, program));
          });
    });
    job.Run([&](int rank, RankGroup& group, OperationLog& log) {
      Program program;
      EXPECT_TRUE(RunProgram(group, log, program, 5));
      if (rank == 1) {
        text = group.GroupText();
        job.Kill(rank);
        is_lost = true;
        return;
      }
      while (group.newest() == 0) {
        absl::SleepFor(absl::Milliseconds(1));
        log.CatchUp();
      }
      log.Commit();
      if (is_admitted) {
        EXPECT_TRUE(log.Admit().value());
        // Else the newcomer may find it lost as it meets it.
        while (!has_joined) absl::SleepFor(absl::Milliseconds(1));
      }
      job.Kill(rank);
    });
    newcomer.join();
  }
}

TEST(OperationLogTest, NewcomersThatAreKilledAtAnyMomentAreNotMissed) {
  for (int microseconds = 50; microseconds < 4000; microseconds += 1300) {
    ExpectSameMembers(
        RunWithNewcomers(3, 1, 3, absl::Microseconds(microseconds)), 3);
  }
}

}  // namespace
}  // namespace ringmaster
