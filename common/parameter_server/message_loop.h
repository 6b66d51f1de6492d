// MessageLoop sends and receives ShardMessages over the links of one process, on
// one thread, none of which blocks the others.
//
// What was queued for a peer goes in the order of priority, of equal ones in
// that of Send; a message and its elements are never interrupted by another.
// What comes is given to the handler: first the message, which says where its
// elements go, then the same once they are there.
// When nothing moves, the thread looks again for some microseconds and then
// sleeps in poll(2), until something moves, Wake, the deadline or cancellation.
// Thread-safety: one thread at a time; Wake, counters and waiting_for_rank from
// any.
// Example:
//   while (!handler.is_done()) {
//     RETURN_IF_ERROR(loop.Turn(handler, deadline));
//   }
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_MESSAGE_LOOP_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_MESSAGE_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/parameter_server/message.h"
#include "common/transport/cancel_token.h"
#include "common/transport/channel.h"

namespace ringmaster {

// A channel to a peer, and who that is.
struct MessagePeer {
  int rank = 0;
  std::unique_ptr<Channel> channel;
};

// Elements that follow a message, on the sender's side.
struct MessageElements {
  const std::byte* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  // What they travel as: dtype, or float16 or bfloat16 for float32.
  DType wire = DType::kFloat32;
};

// Where they go on the receiver's.
struct MessageSink {
  std::byte* data = nullptr;
  // They are added to what is there, and do not take its place.
  bool is_sum = false;
  // Gains what was not finite in them (is_sum only); may be null.
  NonFinite* non_finite = nullptr;
};

class MessageLoop {
 public:
  // What is done with what comes. Called within Turn; may call Send.
  class Handler {
   public:
    virtual ~Handler() = default;
    // `message` of `peer` (an index) is here, its elements are not. Where do
    // they go? nullopt: not now; asked again at the next Turn, and nothing more
    // is read from that peer meanwhile. Of a message without elements the sink
    // is ignored. An error ends the loop, naming the peer.
    [[nodiscard]] virtual absl::StatusOr<std::optional<MessageSink>> OnMessage(
        int peer, const ShardMessage& message) = 0;
    // All of it is here.
    [[nodiscard]] virtual absl::Status OnComplete(
        int peer, const ShardMessage& message) = 0;
  };

  struct Options {
    uint64_t job = 0;  // JobHash
    int64_t generation = 0;
    int rank = 0;  // own
  };
  // `cancel` and `clock` must outlive the loop.
  MessageLoop(const Options& options, std::vector<MessagePeer> peers,
              const CancelToken& cancel, Clock& clock);
  ~MessageLoop();  // closes the channels

  // Queues `message` for `peer`; of several that wait, the highest `priority`
  // goes first. The elements stay as they are until the peer has read them; how
  // the caller knows is the protocol's.
  void Send(int peer, const ShardMessage& message,
            const MessageElements& elements = {}, int64_t priority = 0);
  // The same with a copy of the elements' bytes.
  void SendCopy(int peer, const ShardMessage& message,
                const MessageElements& elements, int64_t priority = 0);

  // Sends and receives what is possible, and waits, if that was nothing, until
  // something is, or Wake.
  //   UNAVAILABLE          a peer is gone
  //   FAILED_PRECONDITION  a peer broke the protocol; the handler's errors
  //   DEADLINE_EXCEEDED    names the peer that is waited for
  //   `cancel`'s status    it was cancelled
  [[nodiscard]] absl::Status Turn(Handler& handler, MonotonicTime deadline);

  // Lets a Turn that waits return; one that follows does not wait. Any thread.
  void Wake();

  // Whether all that was queued for `peer` has gone, and was read.
  [[nodiscard]] bool IsFlushed(int peer) const;
  [[nodiscard]] int peers() const;
  [[nodiscard]] int RankOf(int peer) const;
  [[nodiscard]] Transport TransportTo(int peer) const;

  // Whom the caller waits for, for messages and blame; -1: nobody.
  void SetWaitingFor(int rank);
  [[nodiscard]] int waiting_for_rank() const;
  // The rank that the first failure names; -1 before.
  [[nodiscard]] int blamed_rank() const;
  // Elements' bytes so far, without headers.
  [[nodiscard]] int64_t payload_sent_bytes() const;
  [[nodiscard]] int64_t payload_received_bytes() const;
  // How long Turn has waited for `peer` so far, SetWaitingFor naming it.
  [[nodiscard]] absl::Duration WaitedFor(int rank) const;

 private:
  struct Link;
  // ... the implementer's
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_MESSAGE_LOOP_H_
