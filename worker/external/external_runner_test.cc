#include "worker/external/external_runner.h"

#include <stdlib.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging/testing/log_capture.h"
#include "common/protocol/proto_time.h"
#include "common/status/exit_code.h"
#include "common/transport/tcp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/notice.pb.h"

namespace ringmaster {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using Kind = RunOutcome::Kind;

// Workers of one host, as threads. The commands leave files in a directory.
class ExternalRunnerTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  ExternalRunnerTest() {
    std::string pattern =
        absl::StrCat(::testing::TempDir(), "/external-XXXXXX");
    directory_ = mkdtemp(pattern.data());
    for (int i = 0; i < kRanks; ++i) {
      listeners_.push_back(
          std::make_unique<Listener>(Listener::Listen("127.0.0.1:0").value()));
      runners_.push_back(
          MakeExternalRunner(Clock::Real(), *listeners_.back(),
                             {.is_allowed = true,
                              .meeting_interval = absl::Milliseconds(5),
                              .lost_limit = absl::Milliseconds(200)}));
      runners_.back()->SetNoticeCallback([this, i](const v1::Notice& notice) {
        if (i == 1) notices_.push_back(notice.message());
      });
    }
  }
  ~ExternalRunnerTest() override { std::filesystem::remove_all(directory_); }

  JobRunner& runner(int rank) { return *runners_[static_cast<size_t>(rank)]; }

  v1::JobSpec Shell(const std::string& script) {
    v1::JobSpec spec;
    v1::ExternalProgram& external = *spec.mutable_external();
    for (const std::string& word :
         {std::string("sh"), std::string("-c"), script})
      external.add_command(word);
    external.set_working_directory(directory_);
    return spec;
  }

  RankAssignment Assign(int64_t generation, int rank, int64_t resume_step = 0) {
    RankAssignment assignment;
    assignment.generation = generation;
    assignment.job_id = "run-1";
    assignment.rank = assignment.local_rank = rank;
    assignment.world_size = assignment.local_world_size = kRanks;
    assignment.ranks_per_host = {kRanks};
    for (int peer = 0; peer < kRanks; ++peer) {
      const std::string address = absl::StrCat(
          "127.0.0.1:", listeners_[static_cast<size_t>(peer)]->port());
      if (peer == rank) {
        assignment.own_address = address;
      } else {
        assignment.peers.push_back({peer, address});
      }
    }
    assignment.secret = absl::StrCat("secret of generation ", generation);
    assignment.resume_step = resume_step;
    return assignment;
  }

  // Calls `on_end` on the thread of each rank once that has ended.
  std::vector<RunOutcome> Run(
      int64_t generation, const v1::JobSpec& spec,
      const std::function<void()>& meanwhile = [] {},
      const std::function<void()>& on_end = [] {}) {
    std::vector<RunOutcome> outcomes(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto prepared =
          runner(rank).Prepare(spec, Assign(generation, rank));
      EXPECT_TRUE(prepared.ok()) << prepared.status();
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        outcomes[static_cast<size_t>(rank)] = runner(rank).Run();
        on_end();
      });
    }
    meanwhile();
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  // Runs a job of one rank.
  RunOutcome RunAlone(ExternalRunnerOptions options, const v1::JobSpec& spec) {
    const auto alone = MakeExternalRunner(Clock::Real(), *listeners_.front(),
                                          std::move(options));
    EXPECT_TRUE(alone->Prepare(spec, Alone()).ok());
    return alone->Run();
  }

  // A command that can go on without others; it does what stands in the files
  // do0, do1, ... of its rank, one after another, and writes the views that it is
  // told of to view0, view1, ... of its rank.
  v1::JobSpec Follower(const std::string& unable_rank = "none") {
    v1::JobSpec spec = Shell("");
    v1::ExternalProgram& external = *spec.mutable_external();
    external.clear_command();
    for (const std::string& word :
         {std::string("python3"), std::string("-c"), std::string(R"py(
import os, socket, sys, threading, time
rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
worker = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
worker.connect("\0" + os.environ["RINGMASTER_VIEWS"])
assert worker.recv(65536) == b"hello"
if rank != os.environ.get("UNABLE"):
    worker.send(f"can_go_on {rank} {size}".encode())
def listen():
    count = 0
    while packet := worker.recv(65536):
        with open("new" + rank, "wb") as file:
            file.write(packet)
        os.rename("new" + rank, f"view{rank}-{count}")
        count += 1
threading.Thread(target=listen, daemon=True).start()
open("began" + rank, "w").close()
# That of a newcomer does not begin with what the one before it has done.
count = 100 if "RINGMASTER_GROUP" in os.environ else 0
while True:
    try:
        with open(f"do{rank}-{count}") as file:
            text = file.read()
    except FileNotFoundError:
        time.sleep(0.002)
        continue
    count += 1
    exec(text)
)py")})
      external.add_command(word);
    (*external.mutable_environment())["UNABLE"] = unable_rank;
    return spec;
  }
  // Has the command of `rank` do it.
  void Do(int rank, const std::string& python) {
    const std::string name = absl::StrCat(directory_, "/do", rank, "-",
                                          done_[static_cast<size_t>(rank)]++);
    std::ofstream(name + ".new") << python;
    std::filesystem::rename(name + ".new", name);
  }
  static constexpr char kDie[] = "os.kill(os.getpid(), 9)";
  static constexpr char kEnd[] = "sys.exit(0)";
  static constexpr char kNobodyComes[] =
      "; no other takes a lost one's place, since the script does not call "
      "ringmaster_torch.attach (docs/pytorch.md)";
  static constexpr char kTake[] = "worker.send(b'takes_newcomers id;secret')";
  void HaveAllTakeNewcomers() {
    AwaitAll("began");
    for (int rank = 0; rank < kRanks; ++rank) Do(rank, kTake);
  }
  // Has a newcomer in the place of `rank` do it.
  void DoAsNewcomer(int rank, const std::string& python) {
    int& done = done_[static_cast<size_t>(rank)];
    done = std::max(done, 100);
    Do(rank, python);
  }
  // Before what ends a newcomer: it leaves vain0, vain1, vain2, and then x.
  static constexpr char kCount[] =
      "names = [n for n in ('vain0', 'vain1', 'vain2', 'x') "
      "if not os.path.exists(n)]\nopen(names[0], 'w').close()\n";
  // After many meetings of the ranks.
  void EndLater(int rank) { Do(rank, "time.sleep(0.5)\nsys.exit(0)"); }
  // Returns what its worker has told the command of `rank`, the `count`-th.
  std::string AwaitPacket(int rank, int count) {
    const std::string name = absl::StrCat("view", rank, "-", count);
    while (!Has(name)) std::this_thread::yield();
    return TextOf(name);
  }

  RankAssignment Alone() {
    RankAssignment alone = Assign(1, 0);
    alone.world_size = alone.local_world_size = 1;
    alone.ranks_per_host = {1};
    alone.peers.clear();
    return alone;
  }

  bool Has(const std::string& name) {
    return std::filesystem::exists(directory_ + "/" + name);
  }
  void AwaitAll(const std::string& name) {
    for (int rank = 0; rank < kRanks; ++rank)
      while (!Has(absl::StrCat(name, rank))) std::this_thread::yield();
  }
  std::string TextOf(const std::string& name) {
    std::ifstream file(directory_ + "/" + name);
    std::string text;
    std::getline(file, text);
    return text;
  }

  void ExpectAll(const std::vector<RunOutcome>& outcomes, Kind kind, int step) {
    for (const RunOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.kind, kind) << outcome.status;
      EXPECT_EQ(outcome.applied_step, step);
      EXPECT_EQ(outcome.complete_step, step);
    }
  }

  std::string directory_;
  std::vector<std::string> notices_;  // rank 1's
  // Rank 2 ends as a killed worker does, and another one takes its place.
  void ReplaceRunner2() {
    runners_[2] = MakeExternalRunner(
        Clock::Real(), *listeners_[2],
        {.is_allowed = true, .meeting_interval = absl::Milliseconds(5)});
  }

 protected:
  std::array<int, kRanks> done_ = {};  // by Do

 private:
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<JobRunner>> runners_;
};

TEST_F(ExternalRunnerTest, RunsTheCommandOfEachRankToItsEnd) {
  ExpectAll(Run(1, Shell("echo $RANK $WORLD_SIZE $MASTER_ADDR "
                         "$TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_RUN_ID "
                         "> env$RANK; echo $MASTER_PORT > port$RANK")),
            Kind::kFinished, 1);
  EXPECT_EQ(TextOf("env0"), "0 3 127.0.0.1 0 run-1");
  EXPECT_EQ(TextOf("env2"), "2 3 127.0.0.1 0 run-1");
  EXPECT_NE(TextOf("port0"), "0");
  EXPECT_EQ(TextOf("port0"), TextOf("port2"));
  EXPECT_EQ(runner(0).progress().applied_step, 1);
}

TEST_F(ExternalRunnerTest, KeepsTheOutputInAFileThatIsRotated) {
  const std::string path = directory_ + "/out";
  const RunOutcome outcome = RunAlone(
      {.is_allowed = true, .output_file = {.path = path, .max_bytes = 16}},
      Shell("echo the first line; echo the second line; echo third"));
  EXPECT_EQ(outcome.kind, Kind::kFinished) << outcome.status;
  EXPECT_EQ(TextOf("out.1"), "[0] the second line");
  EXPECT_EQ(TextOf("out"), "[0] third");
}

TEST_F(ExternalRunnerTest, SaysOnceThatTheFileTakesNothing) {
  for (const std::string path : {"/dev/full", "/nonexistent/file"}) {
    LogCapture log;
    const RunOutcome outcome =
        RunAlone({.is_allowed = true, .output_file = {.path = path}},
                 Shell("echo one; echo two"));
    EXPECT_EQ(outcome.kind, Kind::kFinished) << outcome.status;
    int warnings = 0;
    for (const std::string& line : log.lines())
      if (line.find("command.no_file") != std::string::npos) ++warnings;
    EXPECT_EQ(warnings, 1) << path;
    EXPECT_TRUE(log.Contains(path));
    EXPECT_TRUE(log.Contains("two"));
  }
}

TEST_F(ExternalRunnerTest, WaitsForTheSlowest) {
  ExpectAll(Run(1,
                Shell("touch began$RANK; [ $RANK != 1 ] || "
                      "while [ ! -e go ]; do sleep 0.01; done"),
                [this] {
                  AwaitAll("began");
                  EXPECT_EQ(runner(0).progress().phase, TrainPhase::kCommand);
                  EXPECT_EQ(runner(0).progress().applied_step, 0);
                  std::ofstream(directory_ + "/go") << "go";
                }),
            Kind::kFinished, 1);
}

TEST_F(ExternalRunnerTest, TheFirstToFailIsToBlame) {
  // The others fail because it has, as scripts do whose peer is gone.
  const auto outcomes = Run(
      1,
      Shell("if [ $RANK = 1 ]; then echo boom >&2; touch failed; exit 3; fi; "
            "while [ ! -e failed ]; do sleep 0.01; done; sleep 0.1; "
            "echo lost a peer >&2; exit 1"));
  EXPECT_EQ(outcomes[1].kind, Kind::kFailed);
  EXPECT_EQ(outcomes[1].status.message(),
            "the command of rank 1 ended with exit code 3: boom");
  EXPECT_EQ(ExitCodeOf(outcomes[1].status), static_cast<ExitCode>(3));
  EXPECT_TRUE(IsOfJob(outcomes[1].status));
  for (const int rank : {0, 2}) {
    EXPECT_EQ(outcomes[static_cast<size_t>(rank)].kind, Kind::kPeerFailed);
    EXPECT_EQ(outcomes[static_cast<size_t>(rank)].peer_rank, -1);
  }
}

TEST_F(ExternalRunnerTest, ACommandThatIsKilledHasFailed) {
  const auto outcomes =
      Run(1, Shell("[ $RANK != 2 ] || kill -9 $$; sleep 1000"));
  EXPECT_EQ(outcomes[2].status.message(),
            "the command of rank 2 was killed by signal 9 (Killed)");
  EXPECT_EQ(ExitCodeOf(outcomes[2].status), static_cast<ExitCode>(137));
}

TEST_F(ExternalRunnerTest, StartsAllAgainAsOftenAsTheJobAllows) {
  v1::JobSpec spec = Shell(
      "echo x >> start$RANK; "
      "[ $RANK != 1 ] || [ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 5; "
      "[ $TORCHELASTIC_RESTART_COUNT = 2 ] || sleep 1000");
  spec.mutable_external()->set_max_restarts(2);
  ExpectAll(Run(1, spec), Kind::kFinished, 1);
  EXPECT_THAT(notices_,
              ElementsAre(StartsWith("the command of rank 1 ended with exit "
                                     "code 5; all are started again"),
                          HasSubstr("restart 2 of 2")));
  spec.mutable_external()->set_max_restarts(1);
  runner(0).Release();
  runner(1).Release();
  runner(2).Release();
  EXPECT_EQ(Run(2, spec)[1].kind, Kind::kFailed);
}

TEST_F(ExternalRunnerTest, AWishEndsAllCommandsPolitely) {
  const v1::JobSpec spec = Shell(
      "trap 'touch asked$RANK; exit 9' TERM; touch began$RANK; "
      "while :; do sleep 0.01; done");
  ExpectAll(Run(1, spec,
                [this] {
                  AwaitAll("began");
                  runner(1).RequestStop();
                }),
            Kind::kStopped, 0);
  AwaitAll("asked");
  for (int rank = 0; rank < kRanks; ++rank)
    std::filesystem::remove(absl::StrCat(directory_, "/began", rank));
  ExpectAll(Run(2, spec,
                [this] {
                  AwaitAll("began");
                  runner(2).RequestLeave();
                }),
            Kind::kDrained, 0);
}

TEST_F(ExternalRunnerTest, NoRankReportsBeforeTheLastCommandHasEnded) {
  // The coordinator halts the others once the first has reported.
  const v1::JobSpec spec = Shell(
      "trap '[ $RANK != 2 ] || sleep 0.7; touch saved$RANK; exit' TERM; "
      "touch began$RANK; while :; do sleep 0.01; done");
  std::atomic<int> early = 0;
  const auto outcomes = Run(
      1, spec,
      [this] {
        AwaitAll("began");
        runner(1).RequestDrain();
      },
      [&] { early += Has("saved2") ? 0 : 1; });
  ExpectAll(outcomes, Kind::kDrained, 0);
  EXPECT_EQ(early, 0);
}

TEST_F(ExternalRunnerTest, GraceIsLimited) {
  v1::JobSpec spec =
      Shell("trap '' TERM; touch began$RANK; while :; do sleep 0.01; done");
  *spec.mutable_external()->mutable_stop_grace() =
      ToProto(absl::Milliseconds(50));
  ExpectAll(Run(1, spec,
                [this] {
                  AwaitAll("began");
                  runner(0).RequestStop();
                }),
            Kind::kStopped, 0);
}

TEST_F(ExternalRunnerTest, ALaterGenerationCountsItsStart) {
  const v1::JobSpec spec = Shell(
      "echo $TORCHELASTIC_RESTART_COUNT > count$RANK; touch "
      "began$RANK; [ -e done ] || sleep 1000");
  const auto outcomes = Run(1, spec, [this] {
    AwaitAll("began");
    for (int rank = 0; rank < kRanks; ++rank) runner(rank).Abort(1, "over");
  });
  ExpectAll(outcomes, Kind::kInterrupted, 0);
  // Rank 0 is new.
  runner(0).Release();
  std::ofstream(directory_ + "/done") << "done";
  ExpectAll(Run(2, spec), Kind::kFinished, 1);
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(TextOf(absl::StrCat("count", rank)), "1");
}

TEST_F(ExternalRunnerTest, APeerThatIsGoneIsTheOneToBlame) {
  // Rank 1 ends as a killed worker does, and rank 0's script fails for it.
  const v1::JobSpec spec = Shell(
      "touch began$RANK; while [ ! -e gone ]; do sleep 0.01; done; exit 1");
  const auto outcomes = Run(1, spec, [this] {
    AwaitAll("began");
    runner(1).Abort(1, "killed");
    std::ofstream(directory_ + "/gone") << "gone";
  });
  EXPECT_NE(outcomes[0].kind, Kind::kFailed) << outcomes[0].status;
}

TEST_F(ExternalRunnerTest, CommandsThatCanGoOnDoWithoutOneThatIsKilled) {
  ExpectAll(Run(1, Follower(),
                [this] {
                  AwaitAll("began");
                  Do(0, kDie);
                  const std::string packet = AwaitPacket(1, 0);
                  EXPECT_THAT(packet,
                              MatchesRegex("view [0-9]+ 1,2  rank 0 was killed "
                                           "by signal 9 \\(Killed\\)"));
                  EXPECT_EQ(AwaitPacket(2, 0), packet);
                  Do(2, kDie);
                  EXPECT_THAT(AwaitPacket(1, 1), HasSubstr(" 1  rank 2 was"));
                  Do(1, kEnd);
                }),
            Kind::kFinished, 1);
  EXPECT_THAT(
      notices_,
      ElementsAre(
          absl::StrCat("rank 0 was killed by signal 9 (Killed); 2 of 3 ranks "
                       "go on, and what a script does on rank 0 alone, such as "
                       "saving, is done no longer",
                       kNobodyComes),
          absl::StrCat("rank 2 was killed by signal 9 (Killed); 1 of 3 ranks "
                       "go on",
                       kNobodyComes)));
}

TEST_F(ExternalRunnerTest, ANewcomerTakesThePlaceOfOneThatIsKilled) {
  ExpectAll(Run(1, Follower(),
                [this] {
                  HaveAllTakeNewcomers();
                  Do(0, kDie);
                  EXPECT_THAT(AwaitPacket(1, 0), HasSubstr(" 1,2  rank 0 was"));
                  DoAsNewcomer(0,
                               "assert os.environ['RINGMASTER_GROUP'] == "
                               "'id;secret'\nworker.send(b'joins here,a:1')");
                  EXPECT_THAT(AwaitPacket(1, 1),
                              MatchesRegex("view [0-9]+ 0,1,2 1,0,here,a:1 "));
                  EXPECT_EQ(AwaitPacket(0, 0), AwaitPacket(1, 1));
                  // The next one is the second.
                  DoAsNewcomer(0, kTake);
                  Do(1, kDie);
                  EXPECT_THAT(AwaitPacket(2, 2),
                              HasSubstr(" 0,2 1,0,here,a:1 rank 1 was"));
                  DoAsNewcomer(1, "worker.send(b'joins here,a:2')");
                  EXPECT_THAT(AwaitPacket(2, 3),
                              HasSubstr(" 0,1,2 1,0,here,a:1;2,1,here,a:2 "));
                  DoAsNewcomer(0, kEnd);
                  DoAsNewcomer(1, kEnd);
                  Do(2, kEnd);
                }),
            Kind::kFinished, 1);
}

TEST_F(ExternalRunnerTest, ANewcomerThatHasNotJoinedEndsWithTheOthers) {
  ExpectAll(Run(1, Follower(),
                [this] {
                  HaveAllTakeNewcomers();
                  Do(0, kDie);
                  AwaitPacket(1, 0);
                  DoAsNewcomer(0, "open('came', 'w').close()");
                  while (!Has("came")) std::this_thread::yield();
                  Do(1, kEnd);
                  Do(2, kEnd);
                }),
            Kind::kFinished, 1);
}

TEST_F(ExternalRunnerTest, NewcomersThatFailInVainAreGivenUp) {
  ExpectAll(Run(1, Follower(),
                [this] {
                  HaveAllTakeNewcomers();
                  Do(1, kDie);
                  AwaitPacket(0, 0);
                  DoAsNewcomer(1, absl::StrCat(kCount, "sys.exit(1)"));
                  while (!Has("vain2")) std::this_thread::yield();
                  EndLater(0);
                  EndLater(2);
                }),
            Kind::kFinished, 1);
  EXPECT_FALSE(Has("x"));
  EXPECT_THAT(notices_,
              ElementsAre(StartsWith("no more processes are started in the "
                                     "place of rank 1: 3 have ended")));
}

TEST_F(ExternalRunnerTest, NewcomersThatFailSoonAreNotStartedForEver) {
  ExpectAll(Run(1, Follower(),
                [this] {
                  HaveAllTakeNewcomers();
                  Do(1, kDie);
                  AwaitPacket(0, 0);
                  DoAsNewcomer(
                      1, absl::StrCat("worker.send(b'joins here,a:1')\n", kTake,
                                      "\n", kCount, kDie));
                  while (!Has("vain2")) std::this_thread::yield();
                  EndLater(0);
                  EndLater(2);
                }),
            Kind::kFinished, 1);
  EXPECT_FALSE(Has("x"));
}

TEST_F(ExternalRunnerTest, ANewcomerThatHasNotAttachedIsNotAwaited) {
  ExpectAll(Run(1, Follower(),
                [this] {
                  HaveAllTakeNewcomers();
                  Do(0, kDie);
                  AwaitPacket(1, 0);
                  DoAsNewcomer(0, "worker.send(b'joins here,a:1')");
                  AwaitPacket(1, 1);
                  Do(1, kEnd);
                  Do(2, kEnd);
                }),
            Kind::kFinished, 1);
  EXPECT_THAT(notices_,
              ElementsAre(StartsWith("rank 0 was killed by signal 9 (Killed); "
                                     "2 of 3 ranks go on")));
}

TEST_F(ExternalRunnerTest, ANewcomerThatFailsBeforeItHasAttachedIsLost) {
  ExpectAll(Run(1, Follower(),
                [this] {
                  HaveAllTakeNewcomers();
                  Do(2, kDie);
                  AwaitPacket(1, 0);
                  DoAsNewcomer(2, "worker.send(b'joins here,a:1')");
                  AwaitPacket(1, 1);
                  DoAsNewcomer(2, "sys.exit(3)");
                  EXPECT_THAT(AwaitPacket(1, 2),
                              HasSubstr(" 0,1 1,2,here,a:1 rank 2 has failed"));
                  Do(0, kEnd);
                  Do(1, kEnd);
                }),
            Kind::kFinished, 1);
}

TEST_F(ExternalRunnerTest, ANewcomerThatIsStoppedIsEnded) {
  ExpectAll(Run(1, Follower(),
                [this] {
                  HaveAllTakeNewcomers();
                  Do(0, kDie);
                  AwaitPacket(1, 0);
                  DoAsNewcomer(0, "worker.send(b'joins here,a:1')");
                  AwaitPacket(1, 1);
                  DoAsNewcomer(0,
                               "open('stops', 'w').close()\n"
                               "os.kill(os.getpid(), 19)");
                  while (!Has("stops")) std::this_thread::yield();
                  Do(1, "worker.send(b'lost 0 99999999999')");
                  EXPECT_THAT(
                      AwaitPacket(1, 2),
                      HasSubstr(" 1,2 1,0,here,a:1 rank 0 was killed by "));
                  Do(1, kEnd);
                  Do(2, kEnd);
                }),
            Kind::kFinished, 1);
}

TEST_F(ExternalRunnerTest, NobodyTakesAPlaceOnceACommandHasEnded) {
  ExpectAll(
      Run(1, Follower(),
          [this] {
            HaveAllTakeNewcomers();
            DoAsNewcomer(0, "open('came', 'w').close()");
            Do(1,
               "with open('new', 'w') as file: file.write(str(os.getpid()))"
               "\nos.rename('new', 'pid')\nsys.exit(0)");
            // It is gone once its worker knows it.
            Do(2,
               "while not os.path.exists('pid'): time.sleep(0.001)\n"
               "pid = open('pid').read()\n"
               "while os.path.exists('/proc/' + pid): time.sleep(0.001)\n"
               "open('gone', 'w').close()");
            while (!Has("gone")) std::this_thread::yield();
            done_[0] = 1;
            Do(0, kDie);
            EXPECT_THAT(AwaitPacket(2, 0), HasSubstr(" 2  rank 0 was killed"));
            EndLater(2);
          }),
      Kind::kFinished, 1);
  EXPECT_FALSE(Has("came"));
}

TEST_F(ExternalRunnerTest, TheLastCommandToBeKilledFailsTheJob) {
  const auto outcomes = Run(1, Follower(), [this] {
    AwaitAll("began");
    Do(0, kDie);
    AwaitPacket(1, 0);
    Do(1, kDie);
    AwaitPacket(2, 1);
    Do(2, kDie);
  });
  EXPECT_EQ(outcomes[2].status.message(),
            "the command of rank 2 was killed by signal 9 (Killed)");
}

TEST_F(ExternalRunnerTest, OneThatCannotGoOnWithoutOthersFailsWithThem) {
  const auto outcomes = Run(1, Follower(/*unable_rank=*/"1"), [this] {
    AwaitAll("began");
    Do(0, kDie);
  });
  EXPECT_EQ(outcomes[0].status.message(),
            "the command of rank 0 was killed by signal 9 (Killed)");
  EXPECT_FALSE(Has("view2-0"));
}

TEST_F(ExternalRunnerTest, AnErrorIsNoLoss) {
  const auto outcomes = Run(1, Follower(), [this] {
    AwaitAll("began");
    Do(0, "raise ValueError('boom')");
  });
  EXPECT_THAT(std::string(outcomes[0].status.message()),
              AllOf(StartsWith("the command of rank 0 ended with exit code 1"),
                    HasSubstr("boom")));
}

TEST_F(ExternalRunnerTest, ARankThatIsNotLostCallsForNoView) {
  ExpectAll(Run(1, Follower(),
                [this] {
                  AwaitAll("began");
                  Do(0, "worker.send(b'lost 2 0')");
                  EXPECT_EQ(AwaitPacket(0, 0), "no_view 2");
                  // It ends, so no view will ever be without it.
                  Do(1, kEnd);
                  Do(0, "worker.send(b'lost 1 0')");
                  EXPECT_EQ(AwaitPacket(0, 1), "no_view 1");
                  Do(0, kEnd);
                  Do(2, kEnd);
                }),
            Kind::kFinished, 1);
}

TEST_F(ExternalRunnerTest, CommandsThatCanGoOnOutliveTheirGeneration) {
  const v1::JobSpec spec = Follower();
  std::vector<RunOutcome> outcomes(kRanks);
  std::array<std::thread, kRanks> workers;
  std::atomic<int> halted = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    workers[static_cast<size_t>(rank)] = std::thread([&, rank] {
      for (const int64_t generation : {1, 2}) {
        const auto prepared =
            runner(rank).Prepare(spec, Assign(generation, rank));
        EXPECT_TRUE(prepared.ok()) << prepared.status();
        outcomes[static_cast<size_t>(rank)] = runner(rank).Run();
        if (generation == 2) return;
        EXPECT_THAT(outcomes[static_cast<size_t>(rank)].kind,
                    AnyOf(Kind::kInterrupted, Kind::kPeerFailed));
        if (rank == 2) ReplaceRunner2();
        ++halted;
        while (halted < kRanks) std::this_thread::yield();
      }
    });
  }
  AwaitAll("began");
  for (int rank = 0; rank < kRanks; ++rank) runner(rank).Abort(1, "a halt");
  EXPECT_THAT(AwaitPacket(0, 0),
              HasSubstr(" 0,1  the worker of rank 2 is lost"));
  EXPECT_EQ(AwaitPacket(1, 0), AwaitPacket(0, 0));
  // The new worker has no command, and gets that of the lost rank.
  Do(0, kTake);
  Do(1, kTake);
  DoAsNewcomer(2, "worker.send(b'joins there,a:1')");
  EXPECT_THAT(AwaitPacket(0, 1), HasSubstr(" 0,1,2 1,2,there,a:1 "));
  Do(0, kEnd);
  Do(1, kEnd);
  DoAsNewcomer(2, kEnd);
  for (std::thread& worker : workers) worker.join();
  ExpectAll(outcomes, Kind::kFinished, 1);
}

TEST_F(ExternalRunnerTest, ACommandThatIsAskedToEndIsNotCarriedOn) {
  // All are to pause; the generation is halted before the last has ended.
  v1::JobSpec spec = Follower();
  std::atomic<int> halted = 0;
  std::array<std::thread, kRanks> workers;
  std::vector<RunOutcome> outcomes(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    workers[static_cast<size_t>(rank)] = std::thread([&, rank] {
      EXPECT_TRUE(runner(rank).Prepare(spec, Assign(1, rank)).ok());
      EXPECT_NE(runner(rank).Run().kind, Kind::kFinished);
      ++halted;
      while (halted < kRanks) std::this_thread::yield();
      EXPECT_TRUE(runner(rank).Prepare(spec, Assign(2, rank)).ok());
      EXPECT_FALSE(runner(rank).progress().can_go_on);
      outcomes[static_cast<size_t>(rank)] = runner(rank).Run();
    });
  }
  AwaitAll("began");
  for (int rank = 0; rank < kRanks; ++rank) {
    Do(rank, absl::StrCat("import signal\nsignal.signal(signal.SIGTERM, "
                          "lambda *_: open('asked",
                          rank, "', 'w').close())\nopen('ready", rank,
                          "', 'w').close()"));
  }
  AwaitAll("ready");
  runner(1).RequestDrain();
  AwaitAll("asked");
  for (int rank = 0; rank < kRanks; ++rank) runner(rank).Abort(1, "a halt");
  while (halted < kRanks) std::this_thread::yield();
  // They begin anew.
  for (int rank = 0; rank < kRanks; ++rank)
    std::filesystem::remove(absl::StrCat(directory_, "/do", rank, "-0"));
  done_ = {};
  for (int rank = 0; rank < kRanks; ++rank) Do(rank, kEnd);
  for (std::thread& worker : workers) worker.join();
  ExpectAll(outcomes, Kind::kFinished, 1);
}

TEST_F(ExternalRunnerTest, CommandsThatAreAllGoneHaveNotSucceeded) {
  v1::JobSpec spec = Follower();
  std::thread worker0([&] {
    EXPECT_TRUE(runner(0).Prepare(spec, Assign(1, 0)).ok());
    EXPECT_NE(runner(0).Run().kind, Kind::kFinished);
    EXPECT_FALSE(runner(0).progress().can_go_on);
    RankAssignment alone = Alone();
    alone.generation = 2;
    alone.least_workers = kRanks;
    EXPECT_TRUE(runner(0).Prepare(spec, alone).ok());
    EXPECT_EQ(runner(0).Run().kind, Kind::kDrained);
  });
  std::vector<std::thread> others;
  for (const int rank : {1, 2}) {
    others.emplace_back([&, rank] {
      EXPECT_TRUE(runner(rank).Prepare(spec, Assign(1, rank)).ok());
      EXPECT_NE(runner(rank).Run().kind, Kind::kFinished);
    });
  }
  AwaitAll("began");
  Do(0, kDie);
  AwaitPacket(1, 0);
  AwaitPacket(2, 0);
  for (int rank = 0; rank < kRanks; ++rank) runner(rank).Abort(1, "a halt");
  worker0.join();
  for (std::thread& other : others) other.join();
}

TEST_F(ExternalRunnerTest, CommandsAreNotStartedBelowTheirLeastNumber) {
  RankAssignment alone = Alone();
  alone.least_workers = 2;
  ASSERT_TRUE(runner(0).Prepare(Shell("touch ran"), alone).ok());
  EXPECT_EQ(runner(0).Run().kind, Kind::kDrained);
  EXPECT_FALSE(Has("ran"));
}

TEST_F(ExternalRunnerTest, RefusesWhatItMayNotOrCannotRun) {
  const auto listener = Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok());
  const auto refusing = MakeExternalRunner(Clock::Real(), *listener, {});
  const absl::Status refusal =
      refusing->Prepare(Shell("true"), Assign(1, 0)).status();
  EXPECT_EQ(refusal.message(),
            "rank 0: this worker runs no commands, since it was started "
            "without --allow_commands");
  v1::JobSpec spec;
  spec.mutable_external()->add_command("no-such-program");
  EXPECT_THAT(
      std::string(runner(0).Prepare(spec, Assign(1, 0)).status().message()),
      StartsWith("rank 0: external.command: there is no no-such-program in "
                 "PATH"));
  EXPECT_FALSE(runner(0).Prepare(Shell("true"), Assign(1, 0, 2)).ok());
}

TEST_F(ExternalRunnerTest, TellsNoOtherAddressThanRank0s) {
  RankAssignment alone = Alone();
  alone.own_address = "nowhere";
  ASSERT_TRUE(runner(0).Prepare(Shell("touch ran"), alone).ok());
  const RunOutcome outcome = runner(0).Run();
  EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("nowhere"));
  EXPECT_FALSE(Has("ran"));
}

TEST_F(ExternalRunnerTest, HasNothingToDoOnceAllIsDone) {
  ASSERT_TRUE(runner(0).Prepare(Shell("false"), Assign(1, 0, 1)).ok());
  const RunOutcome outcome = runner(0).Run();
  EXPECT_EQ(outcome.kind, Kind::kFinished) << outcome.status;
  EXPECT_EQ(outcome.applied_step, 1);
}

}  // namespace
}  // namespace ringmaster
