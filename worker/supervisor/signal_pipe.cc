#include "worker/supervisor/signal_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

#include "common/status/check.h"

namespace ringmaster {
namespace {

// The byte that Wake writes; no signal has this number.
constexpr unsigned char kWake = 0;

// The pipe's writing end, for the handler.
std::atomic<int> handler_fd = -1;
static_assert(std::atomic<int>::is_always_lock_free);

void WriteTo(int fd, unsigned char byte) {
  // A full pipe already holds more signals than matter.
  [[maybe_unused]] const ssize_t written = write(fd, &byte, 1);
}

extern "C" void HandleSignal(int signal) {
  const int saved_errno = errno;
  WriteTo(handler_fd.load(), static_cast<unsigned char>(signal));
  errno = saved_errno;
}

int ToPollTimeout(absl::Duration limit) {
  constexpr absl::Duration kLongest = absl::Hours(24);
  if (limit >= kLongest) return -1;
  if (limit <= absl::ZeroDuration()) return 0;
  // Rounded up, so that a caller with a deadline does not spin before it.
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(limit, absl::Milliseconds(1))));
}

}  // namespace

SignalPipe::SignalPipe(std::initializer_list<int> signals) : signals_(signals) {
  std::array<int, 2> fds = {-1, -1};
  RM_CHECK(pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK) == 0,
           "no descriptors for signals");
  read_fd_ = fds[0];
  write_fd_ = fds[1];
  RM_CHECK(handler_fd.exchange(write_fd_) == -1, "a second SignalPipe");
  struct sigaction action = {};
  action.sa_handler = HandleSignal;
  action.sa_flags = SA_RESTART;
  for (const int signal : signals_) sigaction(signal, &action, nullptr);
}

SignalPipe::~SignalPipe() {
  for (const int signal : signals_) std::signal(signal, SIG_DFL);
  handler_fd.store(-1);
  close(read_fd_);
  close(write_fd_);
}

std::optional<int> SignalPipe::Next(absl::Duration limit) {
  pollfd fd = {read_fd_, POLLIN, 0};
  unsigned char byte = kWake;
  // An interruption is one of our signals: it is in the pipe then.
  while (poll(&fd, 1, ToPollTimeout(limit)) < 0 && errno == EINTR) {
  }
  if (read(read_fd_, &byte, 1) != 1 || byte == kWake) return std::nullopt;
  return byte;
}

void SignalPipe::Wake() { WriteTo(write_fd_, kWake); }

SignalListener::SignalListener(SignalPipe& pipe,
                               std::function<void(int)> on_signal)
    : pipe_(pipe), thread_([&pipe, on_signal = std::move(on_signal)] {
        pthread_setname_np(pthread_self(), "signals");
        // Without a limit: its owner's Wake ends it.
        while (const auto signal = pipe.Next(absl::InfiniteDuration())) {
          on_signal(*signal);
        }
      }) {}

SignalListener::~SignalListener() {
  pipe_.Wake();
  thread_.join();
}

std::string SignalName(int signal) {
  if (signal == SIGTERM) return "SIGTERM";
  if (signal == SIGINT) return "SIGINT";
  return "signal " + std::to_string(signal);
}

}  // namespace ringmaster
