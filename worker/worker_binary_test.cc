// The worker binary as users meet it: flags, errors, signals, exit codes.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/transport/tcp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fake_coordinator.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Message = v1::SessionRequest;

// A run of the worker; stdout and stderr go to one pipe.
class WorkerProcess {
 public:
  explicit WorkerProcess(const std::vector<std::string>& arguments) {
    int pipe_fds[2];
    EXPECT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_fds[1], STDOUT_FILENO);
      dup2(pipe_fds[1], STDERR_FILENO);
      // The effect is as if nobody set it: OpenBLAS then has threads before
      // main begins, which know nothing of the signal handling.
      setenv("OPENBLAS_NUM_THREADS", "4", 1);
      std::vector<char*> argv = {const_cast<char*>("worker")};
      for (const std::string& argument : arguments) {
        argv.push_back(const_cast<char*>(argument.c_str()));
      }
      argv.push_back(nullptr);
      execv("worker/worker", argv.data());
      _exit(127);
    }
    close(pipe_fds[1]);
    output_fd_ = pipe_fds[0];
  }
  ~WorkerProcess() {
    if (!is_reaped_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(output_fd_);
  }

  void Signal(int signal) const { kill(pid_, signal); }
  // Reads the output to its end, for at most 30 s without any, and returns the
  // exit code, or minus the signal.
  int AwaitExit() {
    for (;;) {
      pollfd fd = {output_fd_, POLLIN, 0};
      if (poll(&fd, 1, 30'000) <= 0) {
        ADD_FAILURE() << "does not end; so far:\n" << output_;
        return -1;
      }
      char buffer[4096];
      const ssize_t size = read(output_fd_, buffer, sizeof(buffer));
      if (size <= 0) break;
      output_.append(buffer, static_cast<size_t>(size));
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    is_reaped_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  const std::string& output() const { return output_; }

 private:
  pid_t pid_ = 0;
  int output_fd_ = -1;
  bool is_reaped_ = false;
  std::string output_;
};

constexpr int kQuietPorts = 20;
// Returns the first of kQuietPorts ports that the kernel does not hand out by
// itself; each process of this test has others.
int QuietPort() { return 20'000 + getpid() % 600 * kQuietPorts; }

TEST(WorkerBinaryTest, ExplainsItself) {
  WorkerProcess worker({"--help"});
  EXPECT_EQ(worker.AwaitExit(), 0);
  for (const char* flag :
       {"--coordinator", "--device", "--slots", "--name", "--advertise",
        "--restart", "--max_crashes", "--data_listen", "--data_interface",
        "--data_ports", "--coordinator_timeout", "--drain_timeout",
        "--tls_ca_file", "--insecure", "--log_level"}) {
    EXPECT_THAT(worker.output(), HasSubstr(flag));
  }
  EXPECT_THAT(worker.output(), Not(HasSubstr("--slot=")));
}

TEST(WorkerBinaryTest, KnowsItsVersion) {
  WorkerProcess worker({"--version"});
  EXPECT_EQ(worker.AwaitExit(), 0);
  EXPECT_THAT(worker.output(), HasSubstr("ringmaster"));
}

TEST(WorkerBinaryTest, AnswersAWrongFlagInOneLineWithCode2) {
  const std::map<std::string, std::vector<std::string>> kWrong = {
      {"--coordinator", {}},
      {"--coordinatr", {"--coordinatr=head:1"}},
      {"--coordinator: ", {"--coordinator=head"}},
      {"--slots", {"--coordinator=head:1", "--slots=0"}},
      {"--device", {"--coordinator=head:1", "--device=tpu"}},
      {"--device=cuda: this build has no CUDA",
       {"--coordinator=127.0.0.1:1", "--insecure", "--device=cuda"}},
      {"--share_gpu", {"--coordinator=head:1", "--share_gpu"}},
      {"--insecure", {"--coordinator=head:1"}},
      {"--tls_ca_file",
       {"--coordinator=head:1", "--tls_ca_file=/nonexistent.pem"}},
      {"--data_listen",
       {"--coordinator=127.0.0.1:1", "--data_listen=192.0.2.1:5"}},
      {"port 65536",
       {"--coordinator=127.0.0.1:1", "--data_listen=127.0.0.1:65535",
        "--slots=2"}},
      {"--data_interface: no network interface 'eth99x'",
       {"--coordinator=127.0.0.1:1", "--data_interface=eth99x"}},
      {"--data_ports: \"5\"", {"--coordinator=127.0.0.1:1", "--data_ports=5"}},
      {"too few for --slots=3",
       {"--coordinator=127.0.0.1:1", "--data_ports=29500-29501", "--slots=3"}},
      {"--data_ports=29500-29501 and --data_listen",
       {"--coordinator=127.0.0.1:1", "--data_ports=29500-29501",
        "--data_listen=127.0.0.1:5"}}};
  for (const auto& [part, arguments] : kWrong) {
    WorkerProcess worker(arguments);
    EXPECT_EQ(worker.AwaitExit(), 2) << part;
    EXPECT_THAT(worker.output(), HasSubstr("error: "));
    EXPECT_THAT(worker.output(), HasSubstr(part));
    EXPECT_EQ(std::count(worker.output().begin(), worker.output().end(), '\n'),
              1)
        << worker.output();
  }
}

TEST(WorkerBinaryTest, NamesARangeWhosePortsAreAllTaken) {
  const Listener taken = *Listener::Listen("127.0.0.1:0");
  const std::string range = absl::StrCat(taken.port(), "-", taken.port());
  WorkerProcess worker({"--coordinator=127.0.0.1:1", "--data_interface=lo",
                        "--data_ports=" + range});
  EXPECT_EQ(worker.AwaitExit(), 138);
  EXPECT_THAT(worker.output(),
              HasSubstr(absl::StrCat(
                  "--data_ports: cannot listen on 127.0.0.1: "
                  "all ports from ",
                  taken.port(), " to ", taken.port(), " are in use")));
  EXPECT_EQ(std::count(worker.output().begin(), worker.output().end(), '\n'), 1)
      << worker.output();
}

TEST(WorkerBinaryTest, GivesUpOnACoordinatorThatRefuses) {
  WorkerProcess worker(
      {"--coordinator=127.0.0.1:1", "--coordinator_timeout=300ms", "--name=w"});
  EXPECT_EQ(worker.AwaitExit(), 138);
  EXPECT_THAT(worker.output(), HasSubstr("coordinator 127.0.0.1:1"));
}

TEST(WorkerBinaryTest, SaysWhenTheCoordinatorsNameDoesNotResolve) {
  WorkerProcess worker({"--coordinator=no-such-host.invalid:1", "--insecure",
                        "--coordinator_timeout=3s", "--name=w"});
  EXPECT_EQ(worker.AwaitExit(), 138);
  // If no name server answers either, the lookup takes longer than the timeout.
  EXPECT_THAT(worker.output(), HasSubstr("no-such-host.invalid:1"));
  EXPECT_THAT(worker.output(), HasSubstr("does not resolve"));
}

TEST(WorkerBinaryTest, NamesAnotherService) {
  FakeCoordinator::Options other;
  other.has_service = false;
  FakeCoordinator coordinator(other);
  WorkerProcess worker({"--coordinator=" + coordinator.address()});
  EXPECT_EQ(worker.AwaitExit(), 2);
  EXPECT_THAT(worker.output(), HasSubstr("not as a Ringmaster coordinator"));
}

TEST(WorkerBinaryTest, TakesItsCoordinatorAndNodeFromTheEnvironment) {
  FakeCoordinator coordinator;
  setenv("RINGMASTER_COORDINATOR", coordinator.address().c_str(), 1);
  setenv("RINGMASTER_NODE", "node-1", 1);
  WorkerProcess worker({"--name=w7"});
  unsetenv("RINGMASTER_COORDINATOR");
  unsetenv("RINGMASTER_NODE");
  const auto hello = coordinator.Take(Message::kHello);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->hello().name(), "w7");
  EXPECT_EQ(hello->hello().advertise_host(), "127.0.0.1");
  EXPECT_GT(hello->hello().data_port(), 0);
  EXPECT_FALSE(hello->hello().host_key().empty());
  EXPECT_EQ(hello->hello().node(), "node-1");
  // A worker that has not joined yet would just end.
  ASSERT_TRUE(coordinator.Take(Message::kBeat).has_value());
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.AwaitExit(), 143);
  const auto leaving = coordinator.Take(Message::kLeaving);
  ASSERT_TRUE(leaving.has_value());
  EXPECT_TRUE(leaving->leaving().done());
}

TEST(WorkerBinaryTest, RunsAProcessASlotAndStopsThemAll) {
  FakeCoordinator coordinator;
  WorkerProcess worker({"--coordinator=" + coordinator.address(), "--name=n",
                        "--slots=3", "--restart=never"});
  std::map<std::string, int64_t> pids;
  for (int i = 0; i < 3; ++i) {
    const auto hello = coordinator.Take(Message::kHello);
    ASSERT_TRUE(hello.has_value());
    pids[hello->hello().name()] = hello->hello().pid();
    EXPECT_EQ(hello->hello().device().index(),
              hello->hello().name().back() - '0');
  }
  EXPECT_EQ(pids.size(), 3u);
  EXPECT_TRUE(pids.contains("n-0") && pids.contains("n-1") &&
              pids.contains("n-2"));
  kill(static_cast<pid_t>(pids["n-1"]), SIGKILL);
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.AwaitExit(), 138);
  EXPECT_THAT(worker.output(), HasSubstr("signal 9"));
  for (const auto& [name, pid] : pids) {
    EXPECT_EQ(kill(static_cast<pid_t>(pid), 0), -1) << name;
  }
}

TEST(WorkerBinaryTest, SlotsShareARangeOfPorts) {
  FakeCoordinator coordinator;
  const int first = QuietPort();
  WorkerProcess worker(
      {"--coordinator=" + coordinator.address(), "--name=n", "--slots=3",
       "--data_interface=lo",
       absl::StrCat("--data_ports=", first, "-", first + kQuietPorts - 1)});
  std::set<int> ports;
  for (int i = 0; i < 3; ++i) {
    const auto hello = coordinator.Take(Message::kHello);
    ASSERT_TRUE(hello.has_value());
    EXPECT_EQ(hello->hello().advertise_host(), "127.0.0.1");
    const int port = hello->hello().data_port();
    EXPECT_GE(port, first);
    EXPECT_LT(port, first + kQuietPorts);
    ports.insert(port);
  }
  EXPECT_EQ(ports.size(), 3u);
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.AwaitExit(), 143);
}

TEST(WorkerBinaryTest, AFullRangeOfPortsMayBeFreeLater) {
  const absl::StatusOr<Listener> taken = Listener::Listen("127.0.0.1:0");
  ASSERT_TRUE(taken.ok()) << taken.status();
  const int port = taken->port();
  WorkerProcess worker({"--coordinator=127.0.0.1:1",
                        absl::StrCat("--data_ports=", port, "-", port)});
  EXPECT_EQ(worker.AwaitExit(), 138);
  EXPECT_THAT(worker.output(),
              HasSubstr(absl::StrCat("error: --data_ports: cannot listen on "
                                     "127.0.0.1: all ports from ",
                                     port, " to ", port, " are in use\n")));
}

TEST(WorkerBinaryTest, SaysWhyRanksOfTheHostComeOverTcp) {
  // It has the Unix socket of that port, but not the port on 127.0.0.1.
  const int first = QuietPort();
  const absl::StatusOr<Listener> other =
      Listener::ListenInRange("127.0.0.2", static_cast<uint16_t>(first),
                              static_cast<uint16_t>(first + kQuietPorts - 1));
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE(other->unix_status().ok()) << other->unix_status();
  FakeCoordinator coordinator;
  WorkerProcess worker(
      {"--coordinator=" + coordinator.address(), "--name=w",
       absl::StrCat("--data_ports=", other->port(), "-", other->port())});
  ASSERT_TRUE(coordinator.Take(Message::kBeat).has_value());
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.AwaitExit(), 143);
  EXPECT_THAT(worker.output(),
              HasSubstr("ranks of this host are reached over TCP: "));
}

TEST(WorkerBinaryTest, AKilledSlotComesBackUnderItsName) {
  FakeCoordinator coordinator;
  // This works with a single slot too, if that is wanted.
  WorkerProcess worker({"--coordinator=" + coordinator.address(), "--name=n",
                        "--restart=always"});
  auto hello = coordinator.Take(Message::kHello);
  ASSERT_TRUE(hello.has_value());
  const int64_t pid = hello->hello().pid();
  kill(static_cast<pid_t>(pid), SIGKILL);
  hello = coordinator.Take(Message::kHello);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->hello().name(), "n");
  EXPECT_NE(hello->hello().pid(), pid);
  EXPECT_EQ(hello->hello().predecessor().pid(), pid);
  EXPECT_EQ(hello->hello().predecessor().signal(), SIGKILL);
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.AwaitExit(), 143);
  EXPECT_THAT(worker.output(), HasSubstr("starts again"));
}

TEST(WorkerBinaryTest, ARefusedSlotIsNotStartedAgain) {
  FakeCoordinator::Options other;
  other.has_service = false;
  FakeCoordinator coordinator(other);
  WorkerProcess worker(
      {"--coordinator=" + coordinator.address(), "--slots=2", "--name=n"});
  EXPECT_EQ(worker.AwaitExit(), 2);
  EXPECT_THAT(worker.output(), Not(HasSubstr("starts again")));
}

TEST(WorkerBinaryTest, TakesItsSlotsAlongWhenItIsKilled) {
  FakeCoordinator coordinator;
  WorkerProcess worker(
      {"--coordinator=" + coordinator.address(), "--name=n", "--slots=2"});
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(coordinator.Take(Message::kHello).has_value());
  }
  worker.Signal(SIGKILL);
  // The end of the output means that no slot has it open any more.
  EXPECT_EQ(worker.AwaitExit(), -SIGKILL);
}

}  // namespace
}  // namespace ringmaster
