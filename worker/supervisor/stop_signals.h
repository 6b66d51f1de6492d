// SIGTERM and SIGINT, as events instead of interruptions.
#ifndef RINGMASTER_WORKER_SUPERVISOR_STOP_SIGNALS_H_
#define RINGMASTER_WORKER_SUPERVISOR_STOP_SIGNALS_H_

#include <csignal>
#include <functional>
#include <string>
#include <thread>

namespace ringmaster {

// SIGTERM and SIGINT.
[[nodiscard]] sigset_t StopSignals();

// Blocks them in this thread and in those that it starts from now on, so that
// only who asks for them gets them; ignores SIGPIPE. To be called at the start
// of main.
void BlockStopSignals();

// "SIGTERM", "SIGINT", or the number.
[[nodiscard]] std::string SignalName(int signal);

// Calls back for each stop signal that the process gets, on a thread of its
// own. Requires BlockStopSignals. The destructor joins the thread.
class StopSignalListener {
 public:
  explicit StopSignalListener(std::function<void(int signal)> on_signal);
  ~StopSignalListener();
  StopSignalListener(const StopSignalListener&) = delete;
  StopSignalListener& operator=(const StopSignalListener&) = delete;

 private:
  void Loop();

  const std::function<void(int)> on_signal_;
  int signal_fd_ = -1;
  int stop_fd_ = -1;  // readable once the thread shall end
  std::thread thread_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_SUPERVISOR_STOP_SIGNALS_H_
