// ServiceManager reports the state of a service to systemd: ready, stopping,
// still alive (sd_notify(3), whose protocol is a datagram to a socket that the
// environment names;
// https://www.freedesktop.org/software/systemd/man/sd_notify.html).
//
// Does nothing unless a service manager asks for it.
// Thread-safe.
#ifndef RINGMASTER_COMMON_PROGRAM_SERVICE_MANAGER_H_
#define RINGMASTER_COMMON_PROGRAM_SERVICE_MANAGER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/sync/periodic_thread.h"

namespace ringmaster {

class ServiceManager {
 public:
  // Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID and removes them from
  // the environment, so that children do not speak in this process's name. To
  // be called while the process has one thread.
  [[nodiscard]] static ServiceManager FromEnvironment();

  // Reports that the service has begun its work. `status` is shown by systemctl
  // status.
  void Ready(std::string_view status) const;
  // Reports that the service has been asked to end.
  void Stopping() const;

  // Reports three times per watchdog interval that the process is alive, as
  // long as the result exists and `is_alive` returns true. `is_alive` is called
  // on a thread of its own and gets a third of an interval. Null if there is no
  // watchdog. The clock and everything that `is_alive` uses must outlive the
  // result.
  [[nodiscard]] std::unique_ptr<PeriodicThread> Watch(
      Clock& clock,
      std::function<bool(absl::Duration patience)> is_alive) const;

 private:
  ServiceManager(std::string socket, absl::Duration interval)
      : socket_(std::move(socket)), interval_(interval) {}

  void Send(std::string_view message) const;

  std::string socket_;       // a path; "@" begins an abstract one; empty: none
  absl::Duration interval_;  // infinite: no watchdog
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROGRAM_SERVICE_MANAGER_H_
