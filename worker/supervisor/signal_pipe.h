// SignalPipe turns signals of the process into values to wait for.
//
// Handlers write them to a pipe. Blocking them and waiting with sigwait or a
// signalfd would not do: a library's thread that was started before main (such
// as OpenBLAS's) does not block them, and the default action would then end the
// process.
// One at a time in a process. Thread-safe.
#ifndef RINGMASTER_WORKER_SUPERVISOR_SIGNAL_PIPE_H_
#define RINGMASTER_WORKER_SUPERVISOR_SIGNAL_PIPE_H_

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace ringmaster {

class SignalPipe {
 public:
  // Takes over `signals` from their default actions.
  explicit SignalPipe(std::initializer_list<int> signals);
  // Restores the default actions.
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  // Returns the next signal that arrived or arrives within `limit` (which may
  // be infinite); nothing after that, or once Wake was called.
  [[nodiscard]] std::optional<int> Next(absl::Duration limit);

  // Makes one Next return nothing.
  void Wake();

 private:
  const std::vector<int> signals_;
  int read_fd_ = -1;
  int write_fd_ = -1;
};

// Calls back for each signal of a pipe, on a thread of its own, which the
// destructor joins. The pipe must outlive it.
class SignalListener {
 public:
  SignalListener(SignalPipe& pipe, std::function<void(int signal)> on_signal);
  ~SignalListener();
  SignalListener(const SignalListener&) = delete;
  SignalListener& operator=(const SignalListener&) = delete;

 private:
  SignalPipe& pipe_;
  std::thread thread_;
};

// "SIGTERM", "SIGINT", or the number.
[[nodiscard]] std::string SignalName(int signal);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_SUPERVISOR_SIGNAL_PIPE_H_
