#include "common/program/service_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {
namespace {

// A variable's value, which is gone afterwards; empty if it is not set.
std::string TakeVariable(const char* name) {
  const char* const value = std::getenv(name);
  const std::string taken = value == nullptr ? "" : value;
  unsetenv(name);
  return taken;
}

// The interval that WATCHDOG_USEC asks for, if it asks this process.
absl::Duration TakeInterval() {
  const std::string text = TakeVariable("WATCHDOG_USEC");
  const std::string pid_text = TakeVariable("WATCHDOG_PID");
  int64_t microseconds = 0;
  int64_t pid = getpid();
  if (!absl::SimpleAtoi(text, &microseconds) || microseconds <= 0)
    return absl::InfiniteDuration();
  if (!pid_text.empty() &&
      (!absl::SimpleAtoi(pid_text, &pid) || pid != getpid()))
    return absl::InfiniteDuration();
  return absl::Microseconds(microseconds);
}

}  // namespace

ServiceManager ServiceManager::FromEnvironment() {
  std::string socket = TakeVariable("NOTIFY_SOCKET");
  return {std::move(socket), TakeInterval()};
}

void ServiceManager::Ready(std::string_view status) const {
  Send(absl::StrCat("READY=1\nSTATUS=",
                    absl::string_view(status.data(), status.size())));
}

void ServiceManager::Stopping() const { Send("STOPPING=1"); }

void ServiceManager::Send(std::string_view message) const {
  sockaddr_un to = {};
  // An abstract name and a path both end with the address's length.
  if (socket_.empty() || socket_.size() >= sizeof(to.sun_path)) return;
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, socket_.data(), socket_.size());
  if (to.sun_path[0] == '@') to.sun_path[0] = '\0';
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // Its queue may be full. Nobody here is to wait for it long.
  const timeval patience = {.tv_sec = 1, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (!fd.is_open() ||
      sendto(fd.get(), message.data(), message.size(), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&to), size) < 0) {
    LogEvent(LogLevel::kWarning, "service_manager.unreachable",
             {{"socket", socket_}, {"message", std::strerror(errno)}});
  }
}

std::unique_ptr<PeriodicThread> ServiceManager::Watch(
    Clock& clock, std::function<bool(absl::Duration patience)> is_alive) const {
  if (socket_.empty() || interval_ == absl::InfiniteDuration()) return nullptr;
  const absl::Duration period = interval_ / 3;
  return std::make_unique<PeriodicThread>(
      clock, period, [manager = *this, period, is_alive = std::move(is_alive)] {
        if (is_alive(period)) manager.Send("WATCHDOG=1");
      });
}

}  // namespace ringmaster
