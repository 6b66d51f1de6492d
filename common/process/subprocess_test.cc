#include "common/process/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/process/pipe.h"
#include "common/transport/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLimit = absl::Seconds(20);

std::string LogPath(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/", name, ".log");
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Waits for the end of the process behind `pidfd`, and closes it.
bool HasEnded(int pidfd) {
  pollfd ended{.fd = pidfd, .events = POLLIN, .revents = 0};
  const bool has_ended = ::poll(&ended, 1, 20'000) == 1;
  ::close(pidfd);
  return has_ended;
}

absl::StatusOr<Subprocess> Shell(const std::string& name,
                                 const std::string& script) {
  return Subprocess::Start({.program = "/bin/sh",
                            .arguments = {"-c", script},
                            .log_file = LogPath(name)});
}

// Waits until the file holds a whole line, and returns it.
std::string AwaitLine(const std::string& path, Subprocess& child) {
  std::string text;
  for (int i = 0; i < 2000 && text.find('\n') == std::string::npos; ++i) {
    (void)child.Wait(absl::Milliseconds(10));
    text = Contents(path);
  }
  return text;
}

TEST(SubprocessTest, ReportsTheExitCodeAndKeepsTheOutput) {
  auto child = Shell("exit", "echo out; echo err >&2; exit 7");
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(child->Wait(kLimit), 7);
  EXPECT_EQ(child->ExitCode(), 7);
  EXPECT_EQ(Contents(LogPath("exit")), "out\nerr\n");
}

TEST(SubprocessTest, ReportsASignalAs128AndItsNumber) {
  auto child = Shell("signal", "kill -TERM $$; sleep 60");
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->Wait(kLimit), 128 + SIGTERM);
}

TEST(SubprocessTest, DeliversSignals) {
  auto child = Shell("term",
                     "trap 'echo got it; exit 3' TERM; echo ready; while :; do "
                     "sleep 0.01; done");
  ASSERT_TRUE(child.ok());
  AwaitLine(LogPath("term"), *child);
  EXPECT_EQ(child->Wait(absl::ZeroDuration()), std::nullopt);
  child->Signal(SIGTERM);
  EXPECT_EQ(child->Wait(kLimit), 3);
  child->Signal(SIGTERM);  // harmless now
}

TEST(SubprocessTest, StartsWithoutBlockedOrIgnoredSignals) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  auto child = Shell("mask", "kill -TERM $$; exit 0");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->Wait(kLimit), 128 + SIGTERM);
}

TEST(SubprocessTest, KillsTheWholeGroup) {
  auto child = Shell("group", "sleep 600 & echo $!; wait");
  ASSERT_TRUE(child.ok());
  int grandchild = 0;
  ASSERT_TRUE(
      absl::SimpleAtoi(AwaitLine(LogPath("group"), *child), &grandchild));
  EXPECT_EQ(::getpgid(grandchild), child->pid());
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, grandchild, 0));
  ASSERT_GE(pidfd, 0);
  child->Kill();
  EXPECT_EQ(child->ExitCode(), 128 + SIGKILL);
  EXPECT_TRUE(HasEnded(pidfd));
  child->Kill();  // harmless
}

TEST(SubprocessTest, DiesWithItsOwner) {
  const std::string log = LogPath("orphan");
  const pid_t owner = ::fork();
  if (owner == 0) {
    auto child = Shell("orphan", "echo $$; sleep 600");
    if (!child.ok()) ::_exit(1);
    AwaitLine(log, *child);
    ::_exit(0);  // no destructor runs
  }
  int status = 0;
  ASSERT_EQ(::waitpid(owner, &status, 0), owner);
  ASSERT_EQ(status, 0);
  int orphan = 0;
  ASSERT_TRUE(absl::SimpleAtoi(Contents(log), &orphan));
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, orphan, 0));
  EXPECT_TRUE(pidfd < 0 || HasEnded(pidfd));
}

TEST(SubprocessTest, LeadsItsOwnGroupWithNothingOnStdin) {
  auto child = Shell("stdin", "cat; sleep 0.2");
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(::getpgid(child->pid()), child->pid());
  EXPECT_EQ(child->Wait(kLimit), 0);
}

TEST(SubprocessTest, TakesItsNameEnvironmentDirectoryAndDescriptors) {
  absl::StatusOr<Pipe> out = MakePipe();
  ASSERT_TRUE(out.ok());
  const UniqueFd directory(::open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string log = LogPath("given");
  auto child = Subprocess::Start(
      {.program = "/bin/sh",
       .arguments = {"-c", "echo $0 $A $HOME $PWD; echo err >&2"},
       .log_file = log,
       .name = "shell",
       .environment = {{"A=b"}},
       .directory = directory.get(),
       .out = out->write.get()});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(child->Wait(kLimit), 0);
  std::string text(64, '\0');
  const ssize_t count = ::read(out->read.get(), text.data(), text.size());
  ASSERT_GT(count, 0);
  EXPECT_EQ(text.substr(0, static_cast<size_t>(count)), "shell b /usr\n");
  EXPECT_EQ(Contents(log), "err\n");
}

TEST(SubprocessTest, GetsNoOtherDescriptorOfItsOwners) {
  const UniqueFd open(::open("/dev/null", O_RDONLY));  // without the flag
  auto child = Shell("descriptors",
                     absl::StrCat("[ ! -e /proc/self/fd/", open.get(), " ]"));
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child->Wait(kLimit), 0);
}

TEST(SubprocessTest, TellsASignalFromACode) {
  auto killed = Shell("killed", "kill -9 $$");
  auto failed = Shell("failed", "exit 137");
  ASSERT_TRUE(killed.ok() && failed.ok());
  EXPECT_EQ(killed->Wait(kLimit), failed->Wait(kLimit));
  EXPECT_EQ(killed->End(), (SubprocessEnd{.signal = SIGKILL}));
  EXPECT_EQ(failed->End(), (SubprocessEnd{.exit_code = 137}));
}

TEST(SubprocessTest, SaysWhyAProgramCannotStart) {
  auto missing = Subprocess::Start(
      {.program = "/nonexistent/worker", .log_file = LogPath("missing")});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("cannot start /nonexistent/worker"));
  auto directory =
      Subprocess::Start({.program = "/tmp", .log_file = LogPath("directory")});
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(SubprocessTest, SaysThatTheLogFileCannotBeOpened) {
  auto child = Subprocess::Start(
      {.program = "/bin/true", .log_file = "/nonexistent/directory/log"});
  EXPECT_EQ(child.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(child.status().message()),
              HasSubstr("log file /nonexistent/directory/log"));
}

TEST(SubprocessTest, MovesWithItsChild) {
  auto child = Shell("move", "exit 5");
  ASSERT_TRUE(child.ok());
  Subprocess moved = *std::move(child);
  EXPECT_EQ(moved.Wait(kLimit), 5);
}

}  // namespace
}  // namespace ringmaster
