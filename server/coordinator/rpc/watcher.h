// Watcher is one client that follows a job or the status.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_WATCHER_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_WATCHER_H_

#include <memory>

#include "absl/status/status.h"

namespace ringmaster::coordinator {

// Thread-safe; no call blocks.
template <typename Message>
class Watcher {
 public:
  virtual ~Watcher() = default;

  // Hands over the newest state. One that could not be sent yet makes room:
  // slow readers miss states, never the last.
  virtual void Offer(std::shared_ptr<const Message> message) = 0;

  // What was offered last has not begun to be sent yet.
  [[nodiscard]] virtual bool has_waiting() const = 0;

  // Ends the watch after what was offered last. Later calls change nothing.
  virtual void End(const absl::Status& status) = 0;

  // The client has left; there is no use in offering any more.
  [[nodiscard]] virtual bool is_gone() const = 0;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_WATCHER_H_
