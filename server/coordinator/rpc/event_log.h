// EventLog keeps the last events of this coordinator's life, numbered from 1.
//
// Bounded: the oldest events are dropped. Thread-compatible; lives on the
// coordinator's executor.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_EVENT_LOG_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>

#include "google/protobuf/repeated_ptr_field.h"
#include "ringmaster/v1/event.pb.h"
#include "server/coordinator/core/state/action.h"
#include "server/coordinator/rpc/limits.h"

namespace ringmaster::coordinator {

class EventLog {
 public:
  explicit EventLog(int max_events = Limits().events)
      : max_events_(static_cast<size_t>(max_events)) {}

  // Numbers and keeps `event`; the reference is good until the next Append.
  const v1::Event& Append(v1::Event event);

  // Up to `max_count` events after `after_sequence`, oldest first, of job
  // `job_id`, or of all if that is empty; fewer if they would take more than
  // `max_bytes`, but at least one.
  [[nodiscard]] google::protobuf::RepeatedPtrField<v1::Event> After(
      int64_t after_sequence, std::string_view job_id, int max_count,
      size_t max_bytes) const;

  // The newest event that is about `worker`; null if none is kept.
  [[nodiscard]] const v1::Event* LastOf(std::string_view worker) const;

 private:
  const size_t max_events_;
  int64_t last_sequence_ = 0;
  std::deque<v1::Event> events_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_EVENT_LOG_H_
