#include "common/http/running_server.h"

#include <utility>

#include "common/clock/clock.h"

namespace ringmaster {

RunningServer::RunningServer(std::unique_ptr<HttpServer> server,
                             HostPort address)
    : server_(std::move(server)),
      address_(std::move(address)),
      thread_([this] { Run(); }) {
  // A server that does not run yet would not hear that it shall stop.
  while (!server_->is_running() && !AwaitEnd(absl::ZeroDuration()))
    std::this_thread::yield();
}

RunningServer::~RunningServer() {
  Stop();
  if (!AwaitEnd(kPatience)) server_->BreakConnections();
  thread_.join();
}

void RunningServer::Stop() {
  if (!std::exchange(is_stopped_, true)) server_->Stop();
}

void RunningServer::Run() {
  server_->listen_after_bind();
  MutexLock lock(mutex_);
  has_ended_ = true;
  ended_.NotifyAll();
}

bool RunningServer::AwaitEnd(absl::Duration patience) {
  const MonotonicTime deadline = Clock::Real().Now() + patience;
  MutexLock lock(mutex_);
  while (!has_ended_) {
    if (!ended_.WaitUntil(mutex_, Clock::Real(), deadline)) break;
  }
  return has_ended_;
}

}  // namespace ringmaster
