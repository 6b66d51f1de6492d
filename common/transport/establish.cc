#include "common/transport/establish.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/address.h"
#include "common/fail_point/fail_point.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/transport/handshake_socket.h"
#include "common/transport/peer_connector.h"
#include "common/transport/socket_link.h"
#include "common/transport/wait_io.h"

namespace ringmaster {
namespace {

// The time that the listener rests when no descriptor is left.
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

// As many as a queue has places for, so that nobody who fills it keeps us here.
constexpr int kMostWaiting = 1024;

bool HasHungUp(int socket) {
  char byte = 0;
  return recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

struct Incoming {
  const PeerLink* peer = nullptr;
  std::unique_ptr<SocketLink> link;
  uint64_t number = 0;                 // the link's, see HalfOpen
  std::optional<FrameKeys> keys = {};  // the link's
};

struct HalfOpen {
  HandshakeSocket socket;
  uint64_t number = 0;  // in the order of accepting
};

class Establisher {
 public:
  Establisher(const Listener& listener, const EstablishConfig& config)
      : listener_(listener), config_(config), job_(JobHash(config.job_id)) {}

  absl::Status Prepare(const std::vector<PeerLink>& connect_to,
                       const std::vector<PeerLink>& accept_from);
  absl::StatusOr<EstablishedLinks> Run();

 private:
  uint64_t generation() const {
    return static_cast<uint64_t>(config_.generation);
  }
  size_t MaxHalfOpen() const {
    // All whom we await may come at once.
    return std::max(static_cast<size_t>(config_.max_half_open),
                    2 * incoming_.size());
  }
  bool AllAccepted() const;
  bool AllConnected() const;
  absl::Status Missing() const;
  RefusalReason Admit(const HandshakeMessage& hello) const;

  void ExpireHalfOpen(MonotonicTime now);
  MonotonicTime NextEvent() const;
  absl::Status WaitForEvents(MonotonicTime now);
  absl::Status OnReady(int fd);

  void TakeWaiting();
  void OnConnection(absl::StatusOr<UniqueFd> socket, Transport transport);
  void OnIncoming(std::list<HalfOpen>::iterator it);
  void Take(HalfOpen& complete);
  void Report(const absl::Status& why);

  const Listener& listener_;
  const EstablishConfig& config_;
  const uint64_t job_;
  std::vector<PeerConnector> outgoing_;
  std::vector<Incoming> incoming_;
  std::list<HalfOpen> half_open_;  // oldest first
  uint64_t accepted_count_ = 0;
  MonotonicTime accept_at_;  // not before; see OnConnection
  absl::Status last_refusal_;
  MonotonicTime now_;
};

absl::Status Establisher::Prepare(const std::vector<PeerLink>& connect_to,
                                  const std::vector<PeerLink>& accept_from) {
  if (config_.secret.size() < kMinSecretBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the generation's secret has ", config_.secret.size(),
                     " bytes, at least ", kMinSecretBytes, " are needed"));
  }
  if (config_.generation < 0 || config_.rank < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("generation ", config_.generation, " or rank ",
                     config_.rank, " is negative"));
  }
  for (const PeerLink& peer : connect_to) {
    RETURN_IF_ERROR(ParseHostPort(peer.address).status());
    outgoing_.emplace_back(peer, config_,
                           listener_.unix_fd() >= 0 ? listener_.port() : 0);
  }
  for (const PeerLink& peer : accept_from)
    incoming_.push_back({&peer, nullptr, 0});
  return absl::OkStatus();
}

absl::StatusOr<EstablishedLinks> Establisher::Run() {
  now_ = config_.clock->Now();
  TakeWaiting();
  while (!AllConnected() || !AllAccepted()) {
    if (config_.cancel != nullptr && config_.cancel->is_cancelled())
      return config_.cancel->status();
    now_ = config_.clock->Now();
    if (now_ >= config_.deadline) return Missing();
    ExpireHalfOpen(now_);
    for (PeerConnector& out : outgoing_) {
      out.Expire(now_);
      out.StartIfDue(now_);
    }
    now_ = config_.clock->Now();  // looking a name up may have taken seconds
    RETURN_IF_ERROR(WaitForEvents(now_));
  }
  EstablishedLinks links;
  for (PeerConnector& out : outgoing_)
    links.connected.push_back(out.TakeLink());
  for (Incoming& in : incoming_)
    links.accepted.push_back({std::move(in.link), in.keys});
  return links;
}

// The connections of probes (ReachPeers) stay in the queue while a member
// trains. One that awaits nobody, or meets all over Unix sockets, would never
// take them out, and nobody is answered where the queue is full.
void Establisher::TakeWaiting() {
  for (int taken = 0; taken < kMostWaiting; ++taken) {
    absl::StatusOr<UniqueFd> socket = listener_.TryAccept();
    // Without a descriptor left, WaitForEvents comes to it later.
    if (!socket.ok() || !socket->is_open()) return;
    if (!incoming_.empty() && !HasHungUp(socket->get()))
      OnConnection(std::move(socket), Transport::kTcp);
  }
}

bool Establisher::AllAccepted() const {
  return std::all_of(incoming_.begin(), incoming_.end(),
                     [](const Incoming& in) { return in.link != nullptr; });
}

bool Establisher::AllConnected() const {
  return std::all_of(
      outgoing_.begin(), outgoing_.end(),
      [](const PeerConnector& out) { return out.is_connected(); });
}

absl::Status Establisher::Missing() const {
  std::string text = absl::StrCat("rank ", config_.rank, " at generation ",
                                  config_.generation, " has no connection");
  int blamed = -1;
  LinkFailure failure = LinkFailure::kNoAnswer;
  for (const PeerConnector& out : outgoing_) {
    if (out.is_connected()) continue;
    if (blamed < 0) {
      blamed = out.peer().peer_rank;
      if (LinkFailureOf(out.last_error()) == LinkFailure::kRefused)
        failure = LinkFailure::kRefused;
    }
    absl::StrAppend(&text, " to ",
                    PeerName(out.peer().peer_rank, out.peer().address));
    if (!out.last_error().ok())
      absl::StrAppend(&text, " (", out.last_error().message(), ")");
    absl::StrAppend(&text, ";");
  }
  for (const Incoming& in : incoming_) {
    if (in.link != nullptr) continue;
    if (blamed < 0) blamed = in.peer->peer_rank;
    absl::StrAppend(&text, " from rank ", in.peer->peer_rank, ";");
  }
  if (!last_refusal_.ok())
    absl::StrAppend(&text, " last refused: ", last_refusal_.message(), ";");
  text.back() = '.';
  return WithLinkFailure(
      WithUnreachedPeer(absl::DeadlineExceededError(text), blamed), failure);
}

RefusalReason Establisher::Admit(const HandshakeMessage& hello) const {
  for (const Incoming& in : incoming_) {
    if (static_cast<uint32_t>(in.peer->peer_rank) != hello.from_rank) continue;
    if (in.peer->role != hello.role || in.peer->stripe != hello.stripe)
      continue;
    // A peer that gave its attempt up begins another. One that hung up and does
    // not come again is found out by the first use of the link.
    return in.link == nullptr || in.link->HasHungUp()
               ? RefusalReason::kNone
               : RefusalReason::kAlreadyConnected;
  }
  return RefusalReason::kUnexpectedRank;
}

void Establisher::Report(const absl::Status& why) {
  last_refusal_ = why;
  if (config_.on_refused) config_.on_refused(why);
}

void Establisher::ExpireHalfOpen(MonotonicTime now) {
  std::erase_if(half_open_, [&](const HalfOpen& in) {
    if (now < in.socket.deadline()) return false;
    Report(absl::DeadlineExceededError(absl::StrCat(
        "rank ", config_.rank, " dropped ", in.socket.remote(), ": silent for ",
        absl::FormatDuration(config_.handshake_timeout), " in the handshake")));
    return true;
  });
}

MonotonicTime Establisher::NextEvent() const {
  MonotonicTime next = config_.deadline;
  for (const PeerConnector& out : outgoing_)
    next = std::min(next, out.NextEvent());
  for (const HalfOpen& in : half_open_)
    next = std::min(next, in.socket.deadline());
  if (now_ < accept_at_) next = std::min(next, accept_at_);
  return next;
}

absl::Status Establisher::WaitForEvents(MonotonicTime now) {
  std::vector<pollfd> polled;
  if (config_.cancel != nullptr)
    polled.push_back({config_.cancel->fd(), POLLIN, 0});
  // The listener before the handshakes: a descriptor that closes in this round
  // is not handed out again in it.
  // Also while all are accepted: one of them may have to come again.
  if (!incoming_.empty() && now >= accept_at_) {
    polled.push_back({listener_.fd(), POLLIN, 0});
    polled.push_back({listener_.unix_fd(), POLLIN, 0});  // -1 is passed over
  }
  for (const HalfOpen& in : half_open_)
    polled.push_back({in.socket.fd(), POLLIN, 0});
  for (const PeerConnector& out : outgoing_) out.AddPolled(polled);
  RETURN_IF_ERROR(WaitIo(polled, NextEvent() - now));
  for (const pollfd& ready : polled) {
    if (ready.revents != 0) RETURN_IF_ERROR(OnReady(ready.fd));
  }
  return absl::OkStatus();
}

absl::Status Establisher::OnReady(int fd) {
  for (PeerConnector& out : outgoing_) {
    if (out.Owns(fd)) return out.OnReady();
  }
  for (auto it = half_open_.begin(); it != half_open_.end(); ++it) {
    if (it->socket.fd() != fd) continue;
    OnIncoming(it);
    return absl::OkStatus();
  }
  if (fd == listener_.fd())
    OnConnection(listener_.TryAccept(), Transport::kTcp);
  if (fd == listener_.unix_fd())
    OnConnection(listener_.TryAcceptUnix(), Transport::kUnix);
  return absl::OkStatus();
}

void Establisher::OnConnection(absl::StatusOr<UniqueFd> socket,
                               Transport transport) {
  if (!socket.ok()) {
    // The connection still waits, so the listener stays readable: without a
    // pause this would spin, with a line each time.
    accept_at_ = now_ + kAcceptPause;
    Report(socket.status());
    return;
  }
  if (!socket->is_open()) return;
  if (const absl::Status status = FAIL_POINT("collective.accept");
      !status.ok()) {
    Report(status);  // and closes the connection
    return;
  }
  const absl::StatusOr<Nonce> nonce = NewNonce();
  if (!nonce.ok()) {
    Report(nonce.status());
    return;
  }
  // A connector that is turned away goes on over TCP soon.
  if (!config_.use_unix && transport == Transport::kUnix) return;
  LinkIdentity self;
  self.job = job_;
  self.generation = generation();
  self.to_rank = static_cast<uint32_t>(config_.rank);
  self.transport = transport;
  HandshakeSocket incoming(
      *std::move(socket),
      Handshake::Acceptor(
          self, config_.secret, *nonce,
          [this](const HandshakeMessage& hello) { return Admit(hello); }),
      now_ + config_.handshake_timeout);
  if (half_open_.size() >= MaxHalfOpen()) {
    Report(absl::ResourceExhaustedError(absl::StrCat(
        "rank ", config_.rank, " dropped ", half_open_.front().socket.remote(),
        ": ", MaxHalfOpen(), " handshakes are unfinished")));
    half_open_.pop_front();
  }
  half_open_.push_back({std::move(incoming), ++accepted_count_});
}

void Establisher::OnIncoming(std::list<HalfOpen>::iterator it) {
  absl::Status status = FAIL_POINT("collective.handshake_accepted");
  if (status.ok()) {
    status = it->socket.OnReadable();
    // ReachPeers only looks whether the port takes a connection.
    if (absl::IsUnavailable(status) && !it->socket.has_spoken()) {
      half_open_.erase(it);
      return;
    }
  }
  if (!status.ok()) {
    Report(Annotate(status,
                    absl::StrCat("connection from ", it->socket.remote())));
    half_open_.erase(it);
    return;
  }
  if (!it->socket.is_complete()) return;
  Take(*it);
  half_open_.erase(it);
}

void Establisher::Take(HalfOpen& complete) {
  HandshakeSocket& socket = complete.socket;
  for (Incoming& in : incoming_) {
    // A peer makes one attempt at a time, so of two that finish it has given
    // the older one up.
    if ((in.link != nullptr && in.number > complete.number) ||
        static_cast<uint32_t>(in.peer->peer_rank) != socket.link().from_rank ||
        in.peer->role != socket.link().role ||
        in.peer->stripe != socket.link().stripe) {
      continue;
    }
    std::string name = PeerName(in.peer->peer_rank, socket.remote());
    const Transport transport = socket.transport();
    if (config_.derives_keys) in.keys = socket.Keys();
    in.link = std::make_unique<SocketLink>(socket.TakeSocket(), std::move(name),
                                           config_.silence_limit, transport);
    in.number = complete.number;
    return;
  }
}

}  // namespace

absl::StatusOr<EstablishedLinks> EstablishLinks(
    const Listener& listener, const EstablishConfig& config,
    const std::vector<PeerLink>& connect_to,
    const std::vector<PeerLink>& accept_from) {
  Establisher establisher(listener, config);
  RETURN_IF_ERROR(establisher.Prepare(connect_to, accept_from));
  return establisher.Run();
}

}  // namespace ringmaster
