#include "worker/supervisor/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/clock/clock.h"
#include "common/clock/testing/fake_clock.h"
#include "common/fail_point/environment.h"
#include "gtest/gtest.h"
#include "worker/agent/rpc/worker_identity.h"

namespace ringmaster {
namespace {

// A run of supervisor_test_program, and what its children print.
class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments)
      : log_file_(
            testing::TempDir() + "/" +
            testing::UnitTest::GetInstance()->current_test_info()->name()) {
    int pipe_fds[2];
    EXPECT_EQ(pipe(pipe_fds), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_fds[1], STDOUT_FILENO);
      dup2(open(log_file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600),
           STDERR_FILENO);
      close(pipe_fds[0]);
      close(pipe_fds[1]);
      std::vector<char*> argv = {const_cast<char*>("supervisor_test_program")};
      for (const std::string& argument : arguments) {
        argv.push_back(const_cast<char*>(argument.c_str()));
      }
      argv.push_back(nullptr);
      execv("worker/supervisor/supervisor_test_program", argv.data());
      _exit(127);
    }
    close(pipe_fds[1]);
    output_ = pipe_fds[0];
  }
  ~Program() {
    if (!is_reaped_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(output_);
  }

  struct Hello {
    int slot = -1;
    pid_t pid = 0;
    std::string predecessor;
    std::string fail_points;
  };
  // Waits until a child says who it is.
  Hello AwaitChild() {
    Hello hello;
    std::istringstream(ReadLine()) >> hello.slot >> hello.pid >>
        hello.predecessor >> hello.fail_points;
    return hello;
  }
  // Waits until `count` children have said who they are.
  std::vector<pid_t> AwaitChildren(size_t count) {
    std::vector<pid_t> pids;
    while (pids.size() < count) {
      const Hello hello = AwaitChild();
      if (hello.pid == 0) break;
      pids.push_back(hello.pid);
    }
    return pids;
  }
  // Waits until no process writes to the output any more; false after 20 s.
  bool AwaitEndOfOutput() {
    while (!ReadLine().empty()) {
    }
    return is_at_end_;
  }
  void Signal(int signal) { kill(pid_, signal); }
  // The program's exit code, or minus the signal that ended it.
  int AwaitExit() {
    EXPECT_TRUE(AwaitEndOfOutput());
    int status = 0;
    waitpid(pid_, &status, 0);
    is_reaped_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Returns what the supervisor has logged.
  std::string Log() const {
    std::ifstream file(log_file_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  // The next line without its end; "" at the end, or after 20 s.
  std::string ReadLine() {
    std::string line;
    for (;;) {
      pollfd fd = {output_, POLLIN, 0};
      if (poll(&fd, 1, 20'000) <= 0) return "";
      char c = 0;
      if (read(output_, &c, 1) <= 0) {
        is_at_end_ = true;
        return "";
      }
      if (c == '\n') return line;
      line += c;
    }
  }

  const std::string log_file_;
  pid_t pid_ = 0;
  int output_ = -1;
  bool is_at_end_ = false;
  bool is_reaped_ = false;
};

TEST(SupervisorTest, EndsWithSuccessOnceAllChildrenDid) {
  Program program({"30s", "exit:0", "exit:0", "exit:0"});
  EXPECT_EQ(program.AwaitExit(), 0);
}

TEST(SupervisorTest, EndsWithTheWorstCode) {
  Program program({"30s", "exit:0", "exit:138", "exit:5"});
  EXPECT_EQ(program.AwaitExit(), 5);
}

TEST(SupervisorTest, ReportsACrashAsInternal) {
  Program program({"30s", "crash", "exit:0"});
  EXPECT_EQ(program.AwaitExit(), 1);
  EXPECT_NE(program.Log().find("not started again: --restart=never"),
            std::string::npos);
}

TEST(SupervisorTest, LetsTheOthersGoOnWhenAChildIsKilled) {
  Program program({"30s", "wait", "wait"});
  const std::vector<pid_t> pids = program.AwaitChildren(2);
  ASSERT_EQ(pids.size(), 2u);
  kill(pids[0], SIGKILL);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.AwaitExit(), 138);
  EXPECT_NE(program.Log().find("signal 9"), std::string::npos);
}

TEST(SupervisorTest, PassesStopSignalsOn) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Program program({"30s", "wait", "wait"});
    ASSERT_EQ(program.AwaitChildren(2).size(), 2u);
    program.Signal(signal);
    EXPECT_EQ(program.AwaitExit(), 143);
  }
}

TEST(SupervisorTest, IsStoppedEvenIfAChildHadAlreadyFinished) {
  Program program({"30s", "exit:0", "wait"});
  ASSERT_EQ(program.AwaitChildren(2).size(), 2u);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.AwaitExit(), 143);
}

TEST(SupervisorTest, TellsWhetherItTurns) {
  FakeClock clock;
  SupervisorOptions options;
  options.program = "worker/supervisor/supervisor_test_program";
  options.arguments = {"30s", "wait"};
  options.restart = std::nullopt;
  Supervisor supervisor(clock, options);
  EXPECT_TRUE(supervisor.IsTurning());
  clock.Advance(Supervisor::kLongTurn);
  EXPECT_TRUE(supervisor.IsTurning());
  clock.Advance(absl::Milliseconds(1));
  EXPECT_FALSE(supervisor.IsTurning());
  std::thread other([&] {
    const MonotonicTime end = Clock::Real().Now() + absl::Seconds(20);
    const auto await_turn = [&] {
      while (!supervisor.IsTurning() && Clock::Real().Now() < end)
        std::this_thread::yield();
      EXPECT_TRUE(supervisor.IsTurning());
    };
    await_turn();
    // It waits for its child alone, and its loop goes on nevertheless.
    clock.Advance(absl::Minutes(1));
    await_turn();
    kill(getpid(), SIGTERM);
  });
  EXPECT_EQ(supervisor.Run(), ExitCode::kStopped);
  other.join();
}

TEST(SupervisorTest, KillsChildrenThatDoNotStop) {
  Program program({"10ms", "deaf", "wait"});
  ASSERT_EQ(program.AwaitChildren(2).size(), 2u);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.AwaitExit(), 138);
}

TEST(SupervisorTest, TakesItsChildrenAlongWhenItIsKilled) {
  Program program({"30s", "deaf", "wait", "deaf"});
  ASSERT_EQ(program.AwaitChildren(3).size(), 3u);
  program.Signal(SIGKILL);
  EXPECT_TRUE(program.AwaitEndOfOutput());
  EXPECT_EQ(program.AwaitExit(), -SIGKILL);
}

TEST(SupervisorTest, ReportsAProgramThatCannotBeRun) {
  setenv("RINGMASTER_TEST_NO_PROGRAM", "1", 1);
  Program program({"30s", "exit:0"});
  unsetenv("RINGMASTER_TEST_NO_PROGRAM");
  EXPECT_EQ(program.AwaitExit(), 1);
}

TEST(SupervisorTest, AKilledChildComesBackWithItsPredecessorsEnd) {
  setenv(kPredecessorVariable, "1:2:3", 1);
  setenv(kFailPointsVariable, "x=off", 1);
  Program program({"30s,0,1ms", "wait", "wait"});
  unsetenv(kPredecessorVariable);
  unsetenv(kFailPointsVariable);
  const auto first = program.AwaitChild();
  const auto second = program.AwaitChild();
  EXPECT_EQ(first.predecessor, "-");
  EXPECT_EQ(first.fail_points, "x=off");
  EXPECT_NE(first.slot, second.slot);
  pid_t pid = first.pid;
  for (int life = 0; life < 3; ++life) {
    kill(pid, SIGKILL);
    const auto again = program.AwaitChild();
    EXPECT_EQ(again.slot, first.slot);
    EXPECT_NE(again.pid, pid);
    EXPECT_EQ(again.predecessor, std::to_string(pid) + ":0:9");
    EXPECT_EQ(again.fail_points, "-");
    pid = again.pid;
  }
  EXPECT_EQ(kill(second.pid, 0), 0);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.AwaitExit(), 143);
}

TEST(SupervisorTest, AChildThatLostItsCoordinatorComesBack) {
  Program program({"30s,0,1ms", "exit:138"});
  const auto first = program.AwaitChild();
  for (int life = 0; life < 4; ++life) (void)program.AwaitChild();
  EXPECT_GT(first.pid, 0);
  program.Signal(SIGTERM);
  EXPECT_NE(program.AwaitExit(), 0);
}

TEST(SupervisorTest, ACrashLoopEndsItsSlotAlone) {
  Program program({"30s,3,1ms", "crash", "wait"});
  // The slot that waits had one process, the other one 1 + 3.
  ASSERT_EQ(program.AwaitChildren(5).size(), 5u);
  const std::string line =
      "crashed 4 times within 10m, more than --max_crashes=3";
  while (program.Log().find(line) == std::string::npos) {
    std::this_thread::yield();
  }
  program.Signal(SIGTERM);
  EXPECT_EQ(program.AwaitExit(), 1);
  EXPECT_EQ(program.Log().rfind(line), program.Log().find(line));
}

TEST(SupervisorTest, EndsWithTheCodeOfTheLastCrash) {
  Program program({"30s,2,1ms", "exit:1"});
  EXPECT_EQ(program.AwaitChildren(3).size(), 3u);
  EXPECT_EQ(program.AwaitExit(), 1);
}

TEST(SupervisorTest, WhatIsPermanentOrDoneIsNotStartedAgain) {
  for (const int code : {0, 2, 5, 143}) {
    Program program({"30s,9,1ms", "exit:" + std::to_string(code)});
    EXPECT_EQ(program.AwaitChildren(2).size(), 1u);
    EXPECT_EQ(program.AwaitExit(), code);
  }
}

TEST(SupervisorTest, AStopSignalEndsTheWaitForAStart) {
  Program program({"30s,0,100h", "kill"});
  // The first start in a row comes at once.
  const std::vector<pid_t> pids = program.AwaitChildren(2);
  ASSERT_EQ(pids.size(), 2u);
  while (program.Log().find("starts again in 100h") == std::string::npos) {
    std::this_thread::yield();
  }
  program.Signal(SIGTERM);
  EXPECT_EQ(program.AwaitExit(), 143);
}

}  // namespace
}  // namespace ringmaster
