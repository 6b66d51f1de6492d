#include "worker/external/child_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/sync/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Collects the lines of a command; "!" marks those of stderr.
class Lines {
 public:
  std::function<void(bool, std::string_view)> Taker() {
    return [this](bool is_error, std::string_view line) {
      MutexLock lock(mutex_);
      lines_.push_back((is_error ? "!" : "") + std::string(line));
      changed_.NotifyAll();
    };
  }
  std::vector<std::string> Get() {
    MutexLock lock(mutex_);
    return lines_;
  }
  // Waits until there are so many.
  std::vector<std::string> Await(size_t count) {
    MutexLock lock(mutex_);
    while (lines_.size() < count) changed_.Wait(mutex_);
    return lines_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> lines_ GUARDED_BY(mutex_);
};

ChildCommand::Options Shell(const std::string& script, Lines& lines) {
  return {
      .command = {.program = "/bin/sh",
                  .arguments = {"-c", script},
                  .environment = {{"PATH=/usr/bin:/bin", "GREETING=hello"}}},
      .on_line = lines.Taker()};
}

SubprocessEnd AwaitEnd(ChildCommand& command) {
  while (!command.End().has_value()) {
    pollfd ended{.fd = command.pidfd(), .events = POLLIN, .revents = 0};
    ::poll(&ended, 1, -1);
  }
  return *command.End();
}

bool IsAlive(pid_t pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; }

// A process that nobody reaps stays a zombie: it counts as gone.
bool IsGone(pid_t pid) {
  std::string path = absl::StrCat("/proc/", pid, "/stat");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;
  std::string text(512, '\0');
  const ssize_t count = ::read(fd, text.data(), text.size());
  ::close(fd);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos || text[name_end + 2] == 'Z';
}

void AwaitGone(pid_t pid) {
  while (!IsGone(pid)) std::this_thread::yield();
}

TEST(ChildCommandTest, GivesItsEnvironmentAndTakesBothOutputs) {
  Lines lines;
  auto command = ChildCommand::Start(
      Shell("echo $GREETING $HOME; echo oops >&2; exit 3", lines));
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(AwaitEnd(**command), (SubprocessEnd{.exit_code = 3}));
  (*command)->Kill();
  EXPECT_THAT(lines.Get(), ::testing::UnorderedElementsAre("hello", "!oops"));
  EXPECT_EQ((*command)->End()->code(), 3);
  EXPECT_EQ(CommandEndText(*(*command)->End()), "ended with exit code 3");
}

TEST(ChildCommandTest, TakesAllOfALotOfOutput) {
  Lines lines;
  auto command = ChildCommand::Start(Shell(
      "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done", lines));
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_TRUE(AwaitEnd(**command).is_good());
  (*command)->Kill();
  EXPECT_EQ(lines.Get().size(), 5000u);
  EXPECT_EQ(lines.Get().back(), "line 4999");
}

TEST(ChildCommandTest, StartsInADirectory) {
  Lines lines;
  ChildCommand::Options options = Shell("pwd", lines);
  options.command.directory =
      ::open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  auto command = ChildCommand::Start(options);
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_THAT(lines.Await(1), ElementsAre("/usr"));
}

TEST(ChildCommandTest, ASignalIsAnEnd) {
  Lines lines;
  auto command = ChildCommand::Start(Shell("kill -9 $$", lines));
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(AwaitEnd(**command), (SubprocessEnd{.signal = 9}));
  EXPECT_EQ((*command)->End()->code(), 137);
  EXPECT_EQ(CommandEndText({.signal = 9}), "was killed by signal 9 (Killed)");
}

TEST(ChildCommandTest, TerminateAsksTheCommandAlone) {
  Lines lines;
  auto command =
      ChildCommand::Start(Shell("trap 'echo asked; exit 7' TERM; echo ready; "
                                "while :; do sleep 0.01; done",
                                lines));
  ASSERT_TRUE(command.ok()) << command.status();
  lines.Await(1);
  (*command)->Terminate();
  EXPECT_EQ(AwaitEnd(**command), (SubprocessEnd{.exit_code = 7}));
  (*command)->Kill();
  EXPECT_THAT(lines.Get(), ElementsAre("ready", "asked"));
}

TEST(ChildCommandTest, KillTakesTheWholeGroup) {
  Lines lines;
  auto command = ChildCommand::Start(
      Shell("trap '' TERM; sleep 1000 & echo $!; wait", lines));
  ASSERT_TRUE(command.ok()) << command.status();
  pid_t grandchild = 0;
  ASSERT_TRUE(absl::SimpleAtoi(lines.Await(1)[0], &grandchild));
  EXPECT_TRUE(IsAlive(grandchild));
  (*command)->Kill();
  EXPECT_EQ((*command)->End()->signal, SIGKILL);
  AwaitGone(grandchild);
}

TEST(ChildCommandTest, OutputThatLeftTheGroupIsNotWaitedFor) {
  Lines lines;
  auto command =
      ChildCommand::Start(Shell("setsid sleep 1000 & echo $!; exit 0", lines));
  ASSERT_TRUE(command.ok()) << command.status();
  pid_t stray = 0;
  ASSERT_TRUE(absl::SimpleAtoi(lines.Await(1)[0], &stray));
  (void)AwaitEnd(**command);
  (*command)->Kill();
  ::kill(stray, SIGKILL);
}

TEST(ChildCommandTest, OutputThatNeverEndsIsNotTakenForEver) {
  Lines lines;
  auto command = ChildCommand::Start(
      Shell("setsid sh -c 'echo $$; exec yes' & exit 0", lines));
  ASSERT_TRUE(command.ok()) << command.status();
  pid_t stray = 0;
  ASSERT_TRUE(absl::SimpleAtoi(lines.Await(1)[0], &stray));
  (void)AwaitEnd(**command);
  (*command)->Kill();
  EXPECT_FALSE(IsGone(stray));
  ::kill(stray, SIGKILL);
}

// As a worker does that is killed: nothing of it can act any more.
TEST(ChildCommandTest, TheGroupDiesWithTheProcessThatStartedIt) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    auto command = ChildCommand::Start(
        {.command = {.program = "/bin/sh",
                     .arguments = {"-c", "sleep 1000 & echo $$ $!; wait"},
                     .environment = {{"PATH=/usr/bin:/bin"}}},
         .on_line = [&](bool, std::string_view line) {
           (void)!::write(ends[1], line.data(), line.size());
         }});
    ::pause();
    ::_exit(command.ok() ? 0 : 1);
  }
  std::string text(64, '\0');
  const ssize_t count = ::read(ends[0], text.data(), text.size());
  ASSERT_GT(count, 0);
  text.resize(static_cast<size_t>(count));
  const size_t space = text.find(' ');
  pid_t child = 0;
  pid_t grandchild = 0;
  ASSERT_TRUE(absl::SimpleAtoi(text.substr(0, space), &child));
  ASSERT_TRUE(absl::SimpleAtoi(text.substr(space + 1), &grandchild));
  EXPECT_FALSE(IsGone(grandchild));
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  AwaitGone(child);
  AwaitGone(grandchild);
}

TEST(ChildCommandTest, SaysWhyAProgramDoesNotStart) {
  Lines lines;
  const auto start = [&](const std::string& program) {
    return ChildCommand::Start(
               {.command = {.program = program}, .on_line = lines.Taker()})
        .status();
  };
  EXPECT_EQ(start("/nowhere/at/all").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(start("/etc/passwd").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(start("/etc/passwd").message()),
              HasSubstr("cannot start /etc/passwd: "));
}

}  // namespace
}  // namespace ringmaster
