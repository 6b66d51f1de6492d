#include "common/transport/share_memory.h"

#include <poll.h>

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/fail_point/fail_point.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/share_message.h"
#include "common/transport/shared_channel.h"
#include "common/transport/stream_channel.h"
#include "common/transport/wait_io.h"

namespace ringmaster {
namespace {

absl::StatusOr<SharedSegment> CreateSegment(const ShareMemoryConfig& config,
                                            int peer_rank) {
  RETURN_IF_ERROR(FAIL_POINT("share_memory.create"));
  return SharedSegment::Create(
      absl::StrCat("ringmaster ", config.rank, " to ", peer_rank),
      SegmentBytes(config.slots));
}

absl::StatusOr<PeerSegment> MapSegment(UniqueFd fd, uint64_t bytes) {
  RETURN_IF_ERROR(FAIL_POINT("share_memory.map"));
  return PeerSegment::Map(std::move(fd), bytes);
}

// The exchange on one stream, until both sides know how it goes on: an offer
// and an answer each, whatever they say.
class Negotiation {
 public:
  Negotiation(const ShareMemoryConfig& config, PeerStream stream);

  // Goes on as far as it can now.
  [[nodiscard]] absl::Status Advance();
  [[nodiscard]] bool is_complete() const { return is_complete_; }
  [[nodiscard]] pollfd Polled() const;
  [[nodiscard]] const PeerStream& stream() const { return stream_; }
  // Once complete.
  [[nodiscard]] std::unique_ptr<Channel> TakeChannel();

 private:
  void PrepareOffer();
  [[nodiscard]] absl::Status SendDue();
  [[nodiscard]] absl::Status SendOffer();
  [[nodiscard]] absl::Status OnReceived();
  [[nodiscard]] absl::Status MapOffered(ShareMessageReader::Received received);
  [[nodiscard]] bool IsShared() const {
    return offer_.is_yes && peer_offer_->is_yes && answer_.is_yes &&
           peer_answer_->is_yes;
  }
  [[nodiscard]] std::string WhyNot() const;

  const ShareMemoryConfig& config_;
  PeerStream stream_;
  std::optional<SharedSegment> segment_;
  ShareMessage offer_;
  ShareMessage answer_;  // due once there is peer_offer_
  bool is_offer_sent_ = false;
  bool is_answer_sent_ = false;
  ShareMessageReader reader_;
  std::optional<ShareMessage> peer_offer_;
  std::optional<ShareMessage> peer_answer_;
  std::optional<PeerSegment> peer_segment_;
  std::optional<PeerSegment> peer_arena_;
  bool is_complete_ = false;
};

Negotiation::Negotiation(const ShareMemoryConfig& config, PeerStream stream)
    : config_(config), stream_(std::move(stream)) {
  answer_.kind = ShareMessage::Kind::kAnswer;
  if (stream_.transport == Transport::kUnix) {
    PrepareOffer();
  } else {
    is_complete_ = true;
  }
}

void Negotiation::PrepareOffer() {
  if (!config_.use_shared_memory) {
    offer_.reason = "it is switched off";
    return;
  }
  absl::StatusOr<SharedSegment> segment =
      CreateSegment(config_, stream_.peer_rank);
  if (!segment.ok()) {
    offer_.reason = std::string(segment.status().message());
    return;
  }
  segment_.emplace(*std::move(segment));
  offer_.is_yes = true;
  offer_.slots = config_.slots;
  offer_.segment_bytes = segment_->bytes();
  if (stream_.arena != nullptr) offer_.arena_bytes = stream_.arena->bytes();
}

pollfd Negotiation::Polled() const {
  const bool is_due =
      !is_offer_sent_ || (peer_offer_.has_value() && !is_answer_sent_);
  return {stream_.link->fd(),
          static_cast<short>(is_due ? POLLIN | POLLOUT : POLLIN), 0};
}

absl::Status Negotiation::Advance() {
  while (!is_complete_) {
    RETURN_IF_ERROR(SendDue());
    // Bytes after the peer's answer belong to the channel.
    is_complete_ = peer_answer_.has_value() && is_answer_sent_;
    if (peer_answer_.has_value()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const bool is_received,
                     reader_.Advance(stream_.link->fd()));
    if (!is_received) return absl::OkStatus();
    RETURN_IF_ERROR(OnReceived());
  }
  return absl::OkStatus();
}

absl::Status Negotiation::SendDue() {
  if (!is_offer_sent_) RETURN_IF_ERROR(SendOffer());
  if (!is_offer_sent_ || !peer_offer_.has_value() || is_answer_sent_)
    return absl::OkStatus();
  ASSIGN_OR_RETURN(is_answer_sent_,
                   SendShareMessage(stream_.link->fd(), answer_, {}));
  return absl::OkStatus();
}

absl::Status Negotiation::SendOffer() {
  std::vector<int> fds;
  if (offer_.is_yes) fds.push_back(segment_->fd());
  if (offer_.arena_bytes > 0) fds.push_back(stream_.arena->fd());
  absl::StatusOr<bool> sent = SendShareMessage(stream_.link->fd(), offer_, fds);
  if (absl::IsResourceExhausted(sent.status())) {
    offer_ = ShareMessage();
    offer_.reason = std::string(sent.status().message());
    sent = SendShareMessage(stream_.link->fd(), offer_, {});
  }
  ASSIGN_OR_RETURN(is_offer_sent_, sent);
  return absl::OkStatus();
}

absl::Status Negotiation::OnReceived() {
  ShareMessageReader::Received received = reader_.Take();
  ASSIGN_OR_RETURN(ShareMessage message, ParseShareMessage(received.bytes));
  const bool is_offer = message.kind == ShareMessage::Kind::kOffer;
  size_t fds_due = 0;
  if (is_offer && message.is_yes) fds_due = message.arena_bytes > 0 ? 2 : 1;
  const bool is_short =
      received.is_short_of_fds && received.fds.size() < fds_due;
  if (is_offer == peer_offer_.has_value() ||
      (received.fds.size() != fds_due && !is_short)) {
    return absl::FailedPreconditionError(
        absl::StrCat("it sent ", is_offer ? "an offer" : "an answer", " with ",
                     received.fds.size(), " descriptors, where ",
                     peer_offer_.has_value() ? "an answer" : "an offer",
                     " with ", fds_due, " was expected"));
  }
  if (!is_offer) {
    peer_answer_ = std::move(message);
    return absl::OkStatus();
  }
  peer_offer_ = std::move(message);
  if (!peer_offer_->is_yes || !offer_.is_yes) return absl::OkStatus();
  if (is_short) {
    answer_.reason = "it has no descriptor left";
    return absl::OkStatus();
  }
  return MapOffered(std::move(received));
}

absl::Status Negotiation::MapOffered(ShareMessageReader::Received received) {
  absl::StatusOr<PeerSegment> segment =
      MapSegment(std::move(received.fds[0]), peer_offer_->segment_bytes);
  absl::Status status = segment.status();
  if (status.ok()) {
    peer_segment_.emplace(*std::move(segment));
    if (peer_offer_->arena_bytes > 0) {
      absl::StatusOr<PeerSegment> arena =
          MapSegment(std::move(received.fds[1]), peer_offer_->arena_bytes);
      status = arena.status();
      if (status.ok()) peer_arena_.emplace(*std::move(arena));
    }
  }
  if (absl::IsFailedPrecondition(status)) return status;
  answer_.is_yes = status.ok();
  answer_.reason = std::string(status.message());
  return absl::OkStatus();
}

std::string Negotiation::WhyNot() const {
  for (const ShareMessage* own : {&offer_, &answer_}) {
    if (!own->reason.empty())
      return absl::StrCat("rank ", config_.rank,
                          " shares no memory: ", own->reason);
  }
  return absl::StrCat(
      stream_.link->peer(), " shares no memory: ",
      peer_offer_->is_yes ? peer_answer_->reason : peer_offer_->reason);
}

std::unique_ptr<Channel> Negotiation::TakeChannel() {
  if (stream_.transport == Transport::kUnix) {
    if (IsShared()) {
      segment_->CloseFd();
      return std::make_unique<SharedChannel>(
          config_.rank, std::move(stream_.link),
          SharedChannel::Side{*std::move(segment_), config_.slots,
                              stream_.arena},
          SharedChannel::PeerSide{*std::move(peer_segment_), peer_offer_->slots,
                                  std::move(peer_arena_)});
    }
    if (config_.on_fallback) config_.on_fallback(stream_.peer_rank, WhyNot());
  }
  const FrameIntegrity integrity = stream_.transport == Transport::kTcp
                                       ? config_.integrity
                                       : FrameIntegrity::kNone;
  return std::make_unique<StreamChannel>(
      config_.rank, std::move(stream_.link), stream_.transport, integrity,
      stream_.keys.has_value() ? &*stream_.keys : nullptr);
}

absl::Status TooLate(const ShareMemoryConfig& config,
                     const std::vector<Negotiation>& negotiations) {
  std::vector<std::string> missing;
  int blamed = -1;
  for (const Negotiation& negotiation : negotiations) {
    if (negotiation.is_complete()) continue;
    missing.push_back(negotiation.stream().link->peer());
    blamed = negotiation.stream().peer_rank;
  }
  return WithBlamedPeer(
      absl::DeadlineExceededError(absl::StrCat(
          "rank ", config.rank,
          " waited in vain for what these say about shared memory: ",
          absl::StrJoin(missing, ", "))),
      blamed);
}

// Until all are complete.
absl::Status Negotiate(const ShareMemoryConfig& config,
                       std::vector<Negotiation>& negotiations) {
  while (true) {
    std::vector<pollfd> polled;
    for (Negotiation& negotiation : negotiations) {
      const absl::Status status = negotiation.Advance();
      if (!status.ok()) {
        const PeerStream& stream = negotiation.stream();
        return WithBlamedPeer(
            Annotate(status,
                     absl::StrCat("rank ", config.rank, " sharing memory with ",
                                  stream.link->peer())),
            stream.peer_rank);
      }
      if (!negotiation.is_complete()) polled.push_back(negotiation.Polled());
    }
    if (polled.empty()) return absl::OkStatus();
    if (config.cancel != nullptr) {
      if (config.cancel->is_cancelled()) return config.cancel->status();
      polled.push_back({config.cancel->fd(), POLLIN, 0});
    }
    const MonotonicTime now = config.clock->Now();
    if (now >= config.deadline) return TooLate(config, negotiations);
    RETURN_IF_ERROR(WaitIo(polled, config.deadline - now));
  }
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Channel>>> MakeChannels(
    const ShareMemoryConfig& config, std::vector<PeerStream> streams) {
  if (config.use_shared_memory && !IsValid(config.slots)) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.slots.count, " slots of ", config.slots.payload_bytes,
        " bytes: 1 to ", kMaxSlots, " of 64 to ", kMaxFramePayloadBytes,
        " bytes, in whole cache lines of 64, are possible"));
  }
  std::vector<Negotiation> negotiations;
  negotiations.reserve(streams.size());
  for (PeerStream& stream : streams)
    negotiations.emplace_back(config, std::move(stream));
  RETURN_IF_ERROR(Negotiate(config, negotiations));
  std::vector<std::unique_ptr<Channel>> channels;
  for (Negotiation& negotiation : negotiations)
    channels.push_back(negotiation.TakeChannel());
  return channels;
}

}  // namespace ringmaster
