// CancelOnInterrupt cancels a watched job once the user interrupts.
//
// Thread-compatible. Its arguments must outlive it.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_CANCEL_ON_INTERRUPT_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_CANCEL_ON_INTERRUPT_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "server/ctl/client/client.h"

namespace ringmaster::ctl {

class CancelOnInterrupt {
 public:
  struct Options {
    std::function<bool()> is_interrupted;
    // The time that a cancelled job may take to end.
    absl::Duration limit = absl::Minutes(5);
    // Told a line when it cancels.
    std::function<void(std::string_view line)> note;
  };
  CancelOnInterrupt(Client& client, Clock& clock, Options options);

  // To be called now and then, while `job_id` has not ended.
  //   CANCELLED  the job cannot be cancelled, or has not ended in time
  [[nodiscard]] absl::Status Check(const std::string& job_id);

 private:
  Client& client_;
  Clock& clock_;
  const Options options_;
  std::optional<MonotonicTime> cancelled_at_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_CANCEL_ON_INTERRUPT_H_
