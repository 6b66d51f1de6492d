#include "worker/supervisor/stop_signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "common/status/check.h"

namespace ringmaster {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

std::string SignalName(int signal) {
  if (signal == SIGTERM) return "SIGTERM";
  if (signal == SIGINT) return "SIGINT";
  return "signal " + std::to_string(signal);
}

StopSignalListener::StopSignalListener(std::function<void(int)> on_signal)
    : on_signal_(std::move(on_signal)) {
  const sigset_t signals = StopSignals();
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  RM_CHECK(signal_fd_ >= 0 && stop_fd_ >= 0, "no descriptors for signals");
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "signals");
    Loop();
  });
}

StopSignalListener::~StopSignalListener() {
  const uint64_t one = 1;
  RM_CHECK(write(stop_fd_, &one, sizeof(one)) == sizeof(one),
           "cannot wake the signal thread");
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
}

void StopSignalListener::Loop() {
  for (;;) {
    std::array<pollfd, 2> fds = {pollfd{signal_fd_, POLLIN, 0},
                                 pollfd{stop_fd_, POLLIN, 0}};
    // Without a limit: it waits for the destructor as well.
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    while (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
      on_signal_(static_cast<int>(info.ssi_signo));
    }
  }
}

}  // namespace ringmaster
