#include "server/ctl/terminal/interrupts.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>

#include "common/status/check.h"

namespace ringmaster::ctl {
namespace {

sigset_t Signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
  return set;
}

int OpenSignalFd() {
  const sigset_t set = Signals();
  return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

void Interrupts::Block() {
  const sigset_t set = Signals();
  RM_CHECK(::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0,
           "signals can be blocked");
}

Interrupts::Interrupts(std::function<void(int signal)> on_signal)
    : on_signal_(std::move(on_signal)),
      signals_(OpenSignalFd()),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  RM_CHECK(signals_ >= 0 && stop_ >= 0,
           "a process has descriptors left when it starts");
  thread_ = std::thread([this] { Run(); });
}

Interrupts::~Interrupts() {
  const uint64_t one = 1;
  (void)!::write(stop_, &one, sizeof(one));
  thread_.join();
  ::close(signals_);
  ::close(stop_);
}

void Interrupts::Run() {
  std::array<pollfd, 2> waits = {{{signals_, POLLIN, 0}, {stop_, POLLIN, 0}}};
  while (true) {
    (void)::poll(waits.data(), waits.size(), -1);
    if (waits[1].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof(info)) ==
        static_cast<ssize_t>(sizeof(info))) {
      on_signal_(static_cast<int>(info.ssi_signo));
    }
  }
}

}  // namespace ringmaster::ctl
