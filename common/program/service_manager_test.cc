#include "common/program/service_manager.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/transport/unique_fd.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

// The service manager's end: a datagram socket in the test's directory.
class Manager {
 public:
  Manager() : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    // Relative, since a path must be short.
    EXPECT_EQ(chdir(std::getenv("TEST_TMPDIR")), 0);
    unlink("notify");
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, "notify");
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0);
    setenv("NOTIFY_SOCKET", "notify", 1);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
  }

  // The next message; empty if there is none within `patience`.
  std::string Next(absl::Duration patience = absl::Seconds(30)) {
    pollfd wait = {fd_.get(), POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) <=
        0)
      return "";
    char message[512];
    const ssize_t size = recv(fd_.get(), message, sizeof(message), 0);
    return size < 0 ? "" : std::string(message, static_cast<size_t>(size));
  }

 private:
  const UniqueFd fd_;
};

TEST(ServiceManager, TellsWhatIsSaid) {
  Manager manager;
  const ServiceManager service = ServiceManager::FromEnvironment();
  service.Ready("listens on port 1");
  EXPECT_EQ(manager.Next(), "READY=1\nSTATUS=listens on port 1");
  service.Stopping();
  EXPECT_EQ(manager.Next(), "STOPPING=1");
}

TEST(ServiceManager, ChildrenDoNotSpeakInItsName) {
  Manager manager;
  setenv("WATCHDOG_USEC", "1000000", 1);
  const ServiceManager service = ServiceManager::FromEnvironment();
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
    EXPECT_EQ(std::getenv(name), nullptr) << name;
}

TEST(ServiceManager, FeedsTheWatchdogWhileAlive) {
  Manager manager;
  setenv("WATCHDOG_USEC", "30000", 1);
  setenv("WATCHDOG_PID", absl::StrCat(getpid()).c_str(), 1);
  std::atomic<bool> is_alive = true;
  std::atomic<int> asked = 0;
  const ServiceManager service = ServiceManager::FromEnvironment();
  const auto watchdog =
      service.Watch(Clock::Real(), [&](absl::Duration patience) {
        EXPECT_EQ(patience, absl::Milliseconds(10));
        ++asked;
        return is_alive.load();
      });
  ASSERT_NE(watchdog, nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  is_alive = false;
  // A message under way may still come; nothing after that.
  const int before = asked;
  while (asked < before + 2) usleep(1000);
  while (!manager.Next(absl::ZeroDuration()).empty()) {
  }
  EXPECT_EQ(manager.Next(absl::Milliseconds(100)), "");
  EXPECT_GT(asked, before + 2);
}

TEST(ServiceManager, EndsWithItsWatchdog) {
  Manager manager;
  setenv("WATCHDOG_USEC", "3000000000", 1);
  const ServiceManager service = ServiceManager::FromEnvironment();
  auto watchdog =
      service.Watch(Clock::Real(), [](absl::Duration) { return true; });
  EXPECT_EQ(manager.Next(), "WATCHDOG=1");
  watchdog.reset();  // It does not wait for the next time, in 1000 s.
}

TEST(ServiceManager, DoesNotWaitForOneThatDoesNotRead) {
  Manager manager;
  const ServiceManager service = ServiceManager::FromEnvironment();
  const MonotonicTime begin = Clock::Real().Now();
  // Sends more than its queue has room for (net.unix.max_dgram_qlen), until a
  // sender waits.
  while (Clock::Real().Now() - begin < absl::Milliseconds(500)) {
    service.Stopping();
  }
  EXPECT_LT(Clock::Real().Now() - begin, absl::Seconds(20));
}

TEST(ServiceManager, LeavesOthersWatchdogsAlone) {
  Manager manager;
  const auto has_watchdog = [] {
    return ServiceManager::FromEnvironment().Watch(
               Clock::Real(), [](absl::Duration) { return true; }) != nullptr;
  };
  EXPECT_FALSE(has_watchdog());
  const auto set = [](const char* interval, const std::string& pid) {
    setenv("NOTIFY_SOCKET", "notify", 1);
    setenv("WATCHDOG_USEC", interval, 1);
    setenv("WATCHDOG_PID", pid.c_str(), 1);
  };
  set("30000", "1");
  EXPECT_FALSE(has_watchdog());
  set("soon", absl::StrCat(getpid()));
  EXPECT_FALSE(has_watchdog());
  set("30000", absl::StrCat(getpid()));
  EXPECT_TRUE(has_watchdog());
}

TEST(ServiceManager, WithoutAnyNothingHappens) {
  unsetenv("NOTIFY_SOCKET");
  setenv("WATCHDOG_USEC", "30000", 1);
  const ServiceManager none = ServiceManager::FromEnvironment();
  none.Ready("all is well");
  none.Stopping();
  EXPECT_EQ(none.Watch(Clock::Real(), [](absl::Duration) { return true; }),
            nullptr);
  setenv("NOTIFY_SOCKET", "/no/such/socket", 1);
  ServiceManager::FromEnvironment().Ready("nobody listens");
}

}  // namespace
}  // namespace ringmaster
