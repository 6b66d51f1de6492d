// Interrupts: SIGINT, SIGTERM and SIGHUP as calls of a function, on a thread
// that runs nothing else, so that the function may do what a signal handler
// must not.
//
// Example:
//   Interrupts::Block();  // first thing in main, before any thread starts
//   Interrupts interrupts([&](int signal) { bell.Ring(); });
#ifndef RINGMASTER_SERVER_CTL_TERMINAL_INTERRUPTS_H_
#define RINGMASTER_SERVER_CTL_TERMINAL_INTERRUPTS_H_

#include <functional>
#include <thread>

namespace ringmaster::ctl {

class Interrupts {
 public:
  // Blocks the three signals in this thread and those that it will start.
  static void Block();

  // Calls `on_signal` for each signal of the process. Requires Block.
  explicit Interrupts(std::function<void(int signal)> on_signal);
  // Joins; later signals stay pending.
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  void Run();

  const std::function<void(int)> on_signal_;
  const int signals_;  // signalfd
  const int stop_;     // eventfd
  std::thread thread_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_TERMINAL_INTERRUPTS_H_
