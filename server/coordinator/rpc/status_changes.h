// StatusChanges: what one watcher of the status does not know yet.
//
// A watcher that is slow is offered a state while an earlier one still waits to be
// sent, which is dropped then. So changes are told from the last state that has surely
// been sent; if the one that waits goes out all the same, some of them are told twice,
// which does no harm: each worker and job is told whole.
//
// Thread-compatible; no clock, no thread.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_STATUS_CHANGES_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_STATUS_CHANGES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "ringmaster/v1/status_service.pb.h"

namespace ringmaster::coordinator {

class StatusChanges {
 public:
  // Returns the message that brings the watcher to `status`: the whole the first time.
  // `has_waiting`: what was returned last has not been sent yet. Null if there is
  // nothing to tell.
  [[nodiscard]] std::shared_ptr<const v1::WatchStatusResponse> Next(
      v1::Status status, bool has_waiting);

 private:
  // A digest of each entry.
  using Digests = std::map<std::string, uint64_t>;
  struct Told {
    Digests workers;
    Digests jobs;
    uint64_t rest = 0;
  };
  // Names that messages were about which may have been sent or not.
  struct Doubts {
    std::set<std::string> workers;
    std::set<std::string> jobs;
  };

  static Told Digest(const v1::Status& status);

  bool is_first_ = true;
  // As of the last message that was surely sent, and of the last that was returned.
  Told sent_;
  Told offered_;
  // In between.
  Doubts doubts_;
  // The whole was returned, and is not surely sent.
  bool is_whole_waiting_ = false;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_STATUS_CHANGES_H_
