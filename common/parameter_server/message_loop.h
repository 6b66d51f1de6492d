// MessageLoop sends and receives ShardMessages over the links of one process,
// on one thread; no link blocks the others.
//
// Messages for a peer go by priority, those of equal priority in the order of
// Send; a message and its elements are never interrupted by another. The
// handler gets each incoming message twice: first to say where its elements go,
// then once they are there.
// When nothing moves, the thread spins for some microseconds and then sleeps in
// poll(2) until something moves, Wake is called, the deadline passes or it is
// cancelled.
// Thread-safety: one thread at a time; Wake, counters and waiting_for_rank from
// any.
// Example:
//   while (!handler.is_done()) {
//     RETURN_IF_ERROR(loop.PollOnce(handler, deadline));
//   }
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_MESSAGE_LOOP_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_MESSAGE_LOOP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/parameter_server/message.h"
#include "common/reduction/reduction_kernels.h"
#include "common/transport/cancel_token.h"
#include "common/transport/channel.h"
#include "common/transport/channel_wait.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

// A channel to a peer, and the peer's rank.
struct MessagePeer {
  int rank = 0;
  std::unique_ptr<Channel> channel;
  int lane = 0;  // of several channels to it
};

// Elements that follow a message, on the sender's side.
struct MessageElements {
  const std::byte* data = nullptr;
  int64_t count = 0;
  // float32; in a kOpen uint8.
  DType dtype = DType::kFloat32;
  // The type that they are sent as: dtype, or float16 or bfloat16 for float32.
  DType wire = DType::kFloat32;
};

// The place that they go to, on the receiver's side.
struct MessageSink {
  std::byte* data = nullptr;
  // They are added to the values there, instead of replacing them.
  bool is_sum = false;
  // Collects the non-finite elements that the sum saw (is_sum only); may be
  // null.
  NonFinite* non_finite = nullptr;
};

class MessageLoop {
 public:
  // The handler of incoming messages. Called within PollOnce; may call Send.
  class Handler {
   public:
    virtual ~Handler() = default;
    // `message` of `peer` (an index) has arrived, its elements have not:
    // returns where they go. nullopt: not now; the loop keeps asking and reads
    // nothing more from that peer meanwhile. The sink of a message without
    // elements is ignored. An error ends the loop, naming the peer.
    [[nodiscard]] virtual absl::StatusOr<std::optional<MessageSink>> OnMessage(
        int peer, const ShardMessage& message) = 0;
    // All of the message has arrived.
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
  MessageLoop(const MessageLoop&) = delete;
  MessageLoop& operator=(const MessageLoop&) = delete;

  // Queues `message` for `peer`, with the count and wire of `elements`; of
  // several that wait, the highest `priority` goes first. The elements must not
  // change until the peer has read them; the caller knows that from the
  // protocol, or from IsFlushed.
  void Send(int peer, const ShardMessage& message,
            const MessageElements& elements = {}, int64_t priority = 0);
  // The same with a copy of the elements' bytes.
  void SendCopy(int peer, const ShardMessage& message,
                const MessageElements& elements, int64_t priority = 0);

  // Sends and receives as much as possible without blocking; if that is
  // nothing, waits until something is possible or Wake is called.
  //   UNAVAILABLE          a peer is gone
  //   FAILED_PRECONDITION  a peer broke the protocol; the handler's errors
  //   DEADLINE_EXCEEDED    names the peer that it waits for
  //   `cancel`'s status    it was cancelled
  [[nodiscard]] absl::Status PollOnce(Handler& handler, MonotonicTime deadline);

  // Makes a waiting PollOnce return; if none is waiting, the next one does not
  // wait. Any thread.
  void Wake();

  // Expects nothing more from `peer`: from now on the end of its connection is
  // no error, and nothing more is read from it.
  void Leave(int peer);

  // Returns true if everything queued for `peer` has been sent and, if the peer
  // reads in place, read.
  [[nodiscard]] bool IsFlushed(int peer) const;
  [[nodiscard]] int peers() const { return static_cast<int>(links_.size()); }
  [[nodiscard]] int RankOf(int peer) const;
  [[nodiscard]] Transport TransportTo(int peer) const;

  // Sets the rank that the caller waits for, for messages and blame; -1: none.
  void SetWaitingFor(int rank);
  [[nodiscard]] int waiting_for_rank() const {
    return waiting_for_rank_.load(std::memory_order_relaxed);
  }
  // The rank that the first failure names; -1 before.
  [[nodiscard]] int blamed_rank() const {
    return blamed_rank_.load(std::memory_order_relaxed);
  }
  // Bytes of elements sent so far, without headers.
  [[nodiscard]] int64_t payload_sent_bytes() const {
    return payload_sent_bytes_.load(std::memory_order_relaxed);
  }
  // Returns how long PollOnce has waited while SetWaitingFor named `rank`.
  [[nodiscard]] absl::Duration WaitedFor(int rank) const;

 private:
  struct Link;
  struct Outgoing;

  void Queue(int peer, const ShardMessage& message,
             const MessageElements& elements, std::vector<std::byte> copy,
             int64_t priority);
  // Do what is possible now; return true if anything moved.
  [[nodiscard]] absl::StatusOr<bool> MoveAll(Handler& handler);
  [[nodiscard]] absl::StatusOr<bool> SendTo(Link& link);
  [[nodiscard]] absl::StatusOr<bool> ReceiveFrom(Link& link, Handler& handler);
  [[nodiscard]] absl::StatusOr<Channel::Progress> SendFrame(Link& link);
  [[nodiscard]] absl::StatusOr<Channel::Progress> ReceiveHead(Link& link);
  [[nodiscard]] absl::StatusOr<Channel::Progress> ReceivePiece(Link& link);
  // Asks the handler where the elements of the received message go; kBlocked if
  // it says "not now".
  [[nodiscard]] absl::StatusOr<Channel::Progress> Ask(Link& link,
                                                      Handler& handler);
  [[nodiscard]] FrameHeader HeaderOf(int source_rank, uint64_t sequence) const;
  [[nodiscard]] const ReductionKernels& KernelsOf(DType wire) const;
  [[nodiscard]] absl::Status Await(MonotonicTime deadline);
  [[nodiscard]] bool TakeWake();
  void EndWait();
  [[nodiscard]] absl::Status Blame(int rank, const absl::Status& status);
  [[nodiscard]] Link& LinkOf(int peer) const {
    return *links_[static_cast<size_t>(peer)];
  }

  const Options options_;
  const CancelToken& cancel_;
  Clock& clock_;
  const UniqueFd wake_fd_;
  std::vector<ReductionKernels> kernels_;  // of sums, by wire
  std::vector<std::unique_ptr<Link>> links_;
  uint64_t queued_count_ = 0;
  ChannelWait wait_;
  std::vector<AwaitedChannel> awaited_;

  std::atomic<bool> is_woken_{false};
  std::atomic<int> waiting_for_rank_{-1};
  std::atomic<int> blamed_rank_{-1};
  std::atomic<int64_t> payload_sent_bytes_{0};
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_MESSAGE_LOOP_H_
