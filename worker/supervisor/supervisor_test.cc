#include "worker/supervisor/supervisor.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/clock/clock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

// A run of supervisor_test_program, and what its children print.
class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments) {
    int pipe_fds[2];
    EXPECT_EQ(pipe(pipe_fds), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_fds[1], STDOUT_FILENO);
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

  // Waits until `count` children have said who they are.
  std::vector<pid_t> AwaitChildren(size_t count) {
    std::vector<pid_t> pids;
    std::string text;
    while (pids.size() < count) {
      const std::string line = ReadLine();
      if (line.empty()) break;
      pids.push_back(std::atoi(line.substr(line.find(' ') + 1).c_str()));
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
}

TEST(SupervisorTest, LetsTheOthersGoOnWhenAChildIsKilled) {
  Program program({"30s", "wait", "wait"});
  const std::vector<pid_t> pids = program.AwaitChildren(2);
  ASSERT_EQ(pids.size(), 2u);
  kill(pids[0], SIGKILL);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.AwaitExit(), 138);
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

}  // namespace
}  // namespace ringmaster
