// SessionStream is a worker's stream as CoordinatorRuntime sees it: gRPC's in
// production, a fake in tests.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_SESSION_STREAM_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_SESSION_STREAM_H_

#include "absl/status/status.h"
#include "ringmaster/v1/coordinator_service.pb.h"

namespace ringmaster::coordinator {

// Thread-safe; no call blocks.
class SessionStream {
 public:
  virtual ~SessionStream() = default;

  // Queues `message`. If the peer does not read, the queue fills up; the stream
  // then breaks, and is reported like any other broken stream.
  virtual void Send(v1::SessionResponse message) = 0;

  // Ends the stream with `status` after what was sent before. Later calls
  // change nothing.
  virtual void Close(const absl::Status& status) = 0;

  // The last message received has been dealt with; the next one may be read. So
  // a worker that floods its session waits for the coordinator, not the other
  // way round.
  virtual void ReadNext() = 0;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_SESSION_STREAM_H_
