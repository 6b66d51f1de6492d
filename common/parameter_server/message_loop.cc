#include "common/parameter_server/message_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/annotate.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

using Progress = Channel::Progress;

// The ops of this protocol's frames: none is a collective's.
constexpr uint8_t kMessageFrame = 0x50;
constexpr uint8_t kElementsFrame = 0x51;

// This many frames of a link may move before the next link's turn.
constexpr int kFramesPerLook = 8;

constexpr std::array<DType, 3> kWires = {DType::kFloat32, DType::kFloat16,
                                         DType::kBFloat16};

}  // namespace

struct MessageLoop::Outgoing {
  ShardMessage message;
  const std::byte* elements = nullptr;
  std::vector<std::byte> copy;
  int64_t priority = 0;
  uint64_t order = 0;

  // The order of a heap, whose greatest goes first.
  friend bool operator<(const Outgoing& a, const Outgoing& b) {
    return a.priority != b.priority ? a.priority < b.priority
                                    : a.order > b.order;
  }
};

struct MessageLoop::Link {
  int index = 0;
  int rank = 0;
  std::unique_ptr<Channel> channel;
  bool is_left = false;

  // Sending: `outgoing`, if it has begun, then the heap `queue`.
  std::vector<Outgoing> queue;
  std::optional<Outgoing> outgoing;
  ShardMessageBytes head_out = {};
  bool is_head_sent = false;
  int64_t sent = 0;  // elements of it
  uint64_t frames_out = 0;
  // The caller waits until all is flushed.
  mutable bool awaits_flush = false;

  // Receiving.
  enum class State { kHead, kAsking, kElements };
  State state = State::kHead;
  ShardMessageBytes head_in = {};
  ShardMessage incoming;
  MessageSink sink;
  int64_t received = 0;  // elements of it
  uint64_t frames_in = 0;
  std::atomic<int64_t> waited_ns{0};

  [[nodiscard]] bool has_to_send() const {
    return outgoing.has_value() || !queue.empty();
  }
  [[nodiscard]] bool is_flushed() const {
    return !has_to_send() && channel->sends_taken();
  }
};

MessageLoop::MessageLoop(const Options& options, std::vector<MessagePeer> peers,
                         const CancelToken& cancel, Clock& clock)
    : options_(options),
      cancel_(cancel),
      clock_(clock),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      wait_(cancel, wake_fd_.get()) {
  for (const DType wire : kWires)
    kernels_.push_back(*KernelsFor(DType::kFloat32, wire, Reduction::kSum));
  for (MessagePeer& peer : peers) {
    auto link = std::make_unique<Link>();
    link->index = static_cast<int>(links_.size());
    link->rank = peer.rank;
    link->channel = std::move(peer.channel);
    links_.push_back(std::move(link));
  }
}

MessageLoop::~MessageLoop() {
  for (const std::unique_ptr<Link>& link : links_) link->channel->Close();
}

void MessageLoop::Send(int peer, const ShardMessage& message,
                       const MessageElements& elements, int64_t priority) {
  Queue(peer, message, elements, {}, priority);
}

void MessageLoop::SendCopy(int peer, const ShardMessage& message,
                           const MessageElements& elements, int64_t priority) {
  const std::byte* const end =
      elements.data + elements.count * SizeOf(elements.dtype);
  Queue(peer, message, elements, {elements.data, end}, priority);
}

void MessageLoop::Queue(int peer, const ShardMessage& message,
                        const MessageElements& elements,
                        std::vector<std::byte> copy, int64_t priority) {
  const bool is_bytes = elements.dtype == DType::kUint8;
  RM_CHECK(elements.count == 0 || is_bytes == (message.op == ShardOp::kOpen),
           "bytes follow an open, and nothing else");
  Outgoing outgoing;
  outgoing.message = message;
  outgoing.message.count = elements.count;
  outgoing.message.wire = is_bytes ? DType::kFloat32 : elements.wire;
  outgoing.copy = std::move(copy);
  outgoing.elements =
      outgoing.copy.empty() ? elements.data : outgoing.copy.data();
  outgoing.priority = priority;
  outgoing.order = ++queued_count_;
  std::vector<Outgoing>& queue = LinkOf(peer).queue;
  queue.push_back(std::move(outgoing));
  std::push_heap(queue.begin(), queue.end());
}

absl::Status MessageLoop::PollOnce(Handler& handler, MonotonicTime deadline) {
  while (true) {
    if (cancel_.is_cancelled()) [[unlikely]]
      return cancel_.status();
    ASSIGN_OR_RETURN(const bool has_moved, MoveAll(handler));
    const bool was_woken = TakeWake();
    if (has_moved || was_woken) {
      if (wait_.is_waiting()) EndWait();
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(Await(deadline));
  }
}

absl::StatusOr<bool> MessageLoop::MoveAll(Handler& handler) {
  bool has_moved = false;
  for (const std::unique_ptr<Link>& link : links_) {
    if (!link->is_left) {
      ASSIGN_OR_RETURN(const bool has_come, ReceiveFrom(*link, handler));
      has_moved |= has_come;
    }
    if (link->has_to_send()) {
      const absl::StatusOr<bool> has_gone = SendTo(*link);
      if (!has_gone.ok()) return Blame(link->rank, has_gone.status());
      has_moved |= *has_gone;
    } else if (link->awaits_flush && link->channel->sends_taken()) {
      link->awaits_flush = false;
      has_moved = true;
    }
  }
  return has_moved;
}

FrameHeader MessageLoop::HeaderOf(int source_rank, uint64_t sequence) const {
  FrameHeader header;
  header.job = options_.job;
  header.generation = static_cast<uint64_t>(options_.generation);
  header.sequence = sequence;
  header.source_rank = static_cast<uint32_t>(source_rank);
  header.count = 1;
  header.payload_bytes = kShardMessageBytes;
  header.op = kMessageFrame;
  header.dtype = static_cast<uint8_t>(DType::kUint8);
  header.wire = static_cast<uint8_t>(DType::kUint8);
  return header;
}

const ReductionKernels& MessageLoop::KernelsOf(DType wire) const {
  const auto place = std::find(kWires.begin(), kWires.end(), wire);
  RM_CHECK(place != kWires.end(), "what elements can travel as");
  return kernels_[static_cast<size_t>(place - kWires.begin())];
}

namespace {

// A piece of the elements that follow a message: what a frame of it is like.
struct Piece {
  FrameHeader header;
  const ReductionKernels* kernels = nullptr;  // null: bytes
  int64_t place_bytes = 0;                    // in memory
  int64_t count = 0;
};

// The piece that begins with element `at`; `header` is a message's.
Piece PieceOf(const ShardMessage& message, const ReductionKernels& kernels,
              int64_t at, const FrameHeader& header) {
  const bool is_bytes = message.op == ShardOp::kOpen;
  const int64_t wire_bytes = is_bytes ? 1 : kernels.wire_bytes;
  Piece piece;
  piece.header = header;
  piece.kernels = is_bytes ? nullptr : &kernels;
  piece.place_bytes = at * (is_bytes ? 1 : kernels.element_bytes);
  piece.count = std::min(message.count - at, kMaxShardFrameBytes / wire_bytes);
  piece.header.op = kElementsFrame;
  piece.header.dtype =
      static_cast<uint8_t>(is_bytes ? DType::kUint8 : DType::kFloat32);
  piece.header.wire =
      static_cast<uint8_t>(is_bytes ? DType::kUint8 : message.wire);
  piece.header.count = static_cast<uint64_t>(message.count);
  piece.header.offset = static_cast<uint64_t>(at * wire_bytes);
  piece.header.payload_bytes = static_cast<uint32_t>(piece.count * wire_bytes);
  return piece;
}

}  // namespace

absl::StatusOr<bool> MessageLoop::SendTo(Link& link) {
  bool has_moved = false;
  for (int frames = 0; frames < kFramesPerLook && link.has_to_send();
       ++frames) {
    if (!link.outgoing.has_value()) {
      RETURN_IF_ERROR(FAIL_POINT("message_loop.send"));
      std::pop_heap(link.queue.begin(), link.queue.end());
      link.outgoing = std::move(link.queue.back());
      link.queue.pop_back();
      link.head_out = EncodeShardMessage(link.outgoing->message);
      link.is_head_sent = false;
      link.sent = 0;
    }
    ASSIGN_OR_RETURN(const Progress progress, SendFrame(link));
    has_moved |= progress != Progress::kBlocked;
    if (progress != Progress::kDone) break;
    ++link.frames_out;
    if (link.is_head_sent && link.sent == link.outgoing->message.count)
      link.outgoing.reset();
  }
  return has_moved;
}

absl::StatusOr<Progress> MessageLoop::SendFrame(Link& link) {
  const ShardMessage& message = link.outgoing->message;
  OutgoingFrame frame;
  frame.header = HeaderOf(options_.rank, link.frames_out + 1);
  if (!link.is_head_sent) {
    frame.elements = link.head_out.data();
    frame.count = kShardMessageBytes;
    frame.is_followed = message.count > 0;
    ASSIGN_OR_RETURN(const Progress progress, link.channel->TrySend(frame));
    link.is_head_sent = progress == Progress::kDone;
    return progress;
  }
  const Piece piece =
      PieceOf(message, KernelsOf(message.wire), link.sent, frame.header);
  frame.header = piece.header;
  frame.elements = link.outgoing->elements + piece.place_bytes;
  frame.count = piece.count;
  if (piece.kernels != nullptr) frame.encode = piece.kernels->encode;
  ASSIGN_OR_RETURN(const Progress progress, link.channel->TrySend(frame));
  if (progress == Progress::kDone) {
    link.sent += piece.count;
    payload_sent_bytes_.fetch_add(frame.header.payload_bytes,
                                  std::memory_order_relaxed);
  }
  return progress;
}

absl::StatusOr<bool> MessageLoop::ReceiveFrom(Link& link, Handler& handler) {
  bool has_moved = false;
  for (int frames = 0; frames < kFramesPerLook && !link.is_left; ++frames) {
    absl::StatusOr<Progress> progress = Progress::kDone;
    switch (link.state) {
      case Link::State::kHead:
        progress = ReceiveHead(link);
        break;
      case Link::State::kAsking:
        progress = Ask(link, handler);
        break;
      case Link::State::kElements:
        progress = ReceivePiece(link);
        break;
    }
    if (!progress.ok()) return Blame(link.rank, progress.status());
    has_moved |= *progress != Progress::kBlocked;
    if (*progress != Progress::kDone) break;
    if (link.state != Link::State::kElements ||
        link.received < link.incoming.count)
      continue;
    link.state = Link::State::kHead;
    const absl::Status status = handler.OnComplete(link.index, link.incoming);
    if (!status.ok()) return Blame(link.rank, status);
  }
  return has_moved;
}

absl::StatusOr<Progress> MessageLoop::ReceiveHead(Link& link) {
  IncomingFrame frame;
  frame.expected = HeaderOf(link.rank, link.frames_in + 1);
  frame.elements = link.head_in.data();
  frame.count = kShardMessageBytes;
  ASSIGN_OR_RETURN(const Progress progress, link.channel->TryReceive(frame));
  if (progress != Progress::kDone) return progress;
  ++link.frames_in;
  RETURN_IF_ERROR(FAIL_POINT("message_loop.receive"));
  ASSIGN_OR_RETURN(link.incoming, ParseShardMessage(link.head_in));
  link.state = Link::State::kAsking;
  return progress;
}

absl::StatusOr<Progress> MessageLoop::Ask(Link& link, Handler& handler) {
  ASSIGN_OR_RETURN(const std::optional<MessageSink> sink,
                   handler.OnMessage(link.index, link.incoming));
  if (!sink.has_value()) return Progress::kBlocked;
  link.sink = *sink;
  link.received = 0;
  link.state = Link::State::kElements;
  return Progress::kDone;
}

absl::StatusOr<Progress> MessageLoop::ReceivePiece(Link& link) {
  const Piece piece =
      PieceOf(link.incoming, KernelsOf(link.incoming.wire), link.received,
              HeaderOf(link.rank, link.frames_in + 1));
  IncomingFrame frame;
  frame.expected = piece.header;
  frame.elements = link.sink.data + piece.place_bytes;
  frame.count = piece.count;
  if (piece.kernels != nullptr) {
    frame.decode =
        link.sink.is_sum ? piece.kernels->reduce : piece.kernels->keep;
  }
  frame.non_finite = link.sink.non_finite;
  ASSIGN_OR_RETURN(const Progress progress, link.channel->TryReceive(frame));
  if (progress != Progress::kDone) return progress;
  ++link.frames_in;
  link.received += piece.count;
  return progress;
}

absl::Status MessageLoop::Await(MonotonicTime deadline) {
  const MonotonicTime now = clock_.Now();
  if (now >= deadline) [[unlikely]] {
    const int rank = waiting_for_rank();
    return Blame(rank,
                 absl::DeadlineExceededError(absl::StrCat(
                     "it waited in vain for ",
                     rank < 0 ? "its peers" : absl::StrCat("rank ", rank))));
  }
  if (wait_.MayLook(now)) return absl::OkStatus();
  awaited_.clear();
  for (const std::unique_ptr<Link>& link : links_) {
    const bool for_send = link->has_to_send() || link->awaits_flush;
    if (link->is_left && !for_send) continue;
    const bool for_receive =
        !link->is_left && link->state != Link::State::kAsking;
    awaited_.push_back(
        {link->channel.get(), link->rank, for_send, for_receive});
  }
  ChannelWait::Result slept = wait_.Sleep(awaited_, now, deadline);
  if (slept.rank >= 0) return Blame(slept.rank, slept.status);
  return std::move(slept.status);
}

void MessageLoop::Wake() {
  if (is_woken_.exchange(true, std::memory_order_acq_rel)) return;
  const uint64_t one = 1;
  // Without a descriptor it is seen after kMaxWaitIo.
  [[maybe_unused]] const ssize_t written =
      write(wake_fd_.get(), &one, sizeof(one));
}

bool MessageLoop::TakeWake() {
  // The descriptor is read by the sleep that it ends, which may be a later one:
  // that looks once more, in vain.
  return is_woken_.load(std::memory_order_relaxed) &&
         is_woken_.exchange(false, std::memory_order_acq_rel);
}

void MessageLoop::EndWait() {
  const int64_t waited = absl::ToInt64Nanoseconds(wait_.End(clock_.Now()));
  const int rank = waiting_for_rank();
  for (const std::unique_ptr<Link>& link : links_) {
    if (link->rank != rank) continue;
    link->waited_ns.fetch_add(waited, std::memory_order_relaxed);
    return;
  }
}

absl::Duration MessageLoop::WaitedFor(int rank) const {
  for (const std::unique_ptr<Link>& link : links_) {
    if (link->rank == rank)
      return absl::Nanoseconds(link->waited_ns.load(std::memory_order_relaxed));
  }
  return absl::ZeroDuration();
}

void MessageLoop::Leave(int peer) { LinkOf(peer).is_left = true; }

bool MessageLoop::IsFlushed(int peer) const {
  const Link& link = LinkOf(peer);
  const bool is_flushed = link.is_flushed();
  link.awaits_flush = !is_flushed;
  return is_flushed;
}

int MessageLoop::RankOf(int peer) const { return LinkOf(peer).rank; }

Transport MessageLoop::TransportTo(int peer) const {
  return LinkOf(peer).channel->transport();
}

void MessageLoop::SetWaitingFor(int rank) {
  if (waiting_for_rank() == rank) return;
  waiting_for_rank_.store(rank, std::memory_order_relaxed);
}

absl::Status MessageLoop::Blame(int rank, const absl::Status& status) {
  // Channels that were closed on our side are nobody's fault.
  if (cancel_.is_cancelled()) return cancel_.status();
  // Failures after the first one follow from it.
  int nobody = -1;
  blamed_rank_.compare_exchange_strong(nobody, rank, std::memory_order_relaxed);
  return Annotate(
      status, absl::StrCat("rank ", options_.rank,
                           rank < 0 ? "" : absl::StrCat(" with rank ", rank),
                           " about shards, generation ", options_.generation));
}

}  // namespace ringmaster
