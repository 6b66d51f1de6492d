#include "common/transport/establish.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/config/address.h"
#include "common/fail_point/fail_point.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/transport/handshake_socket.h"
#include "common/transport/socket_address.h"
#include "common/transport/socket_link.h"
#include "common/transport/wait_io.h"

namespace ringmaster {
namespace {

constexpr absl::Duration kFirstRetryDelay = absl::Milliseconds(2);
constexpr absl::Duration kMaxRetryDelay = absl::Milliseconds(100);
constexpr char kBlamedPeerUrl[] = "ringmaster.v1/blamed_peer";

absl::Status WithBlamedPeer(absl::Status status, int rank) {
  status.SetPayload(kBlamedPeerUrl, absl::Cord(absl::StrCat(rank)));
  return status;
}

std::string PeerName(int rank, const std::string& address) {
  return absl::StrCat("rank ", rank, " at ", address);
}

// A refusal that another attempt cannot change.
bool IsFinal(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsUnauthenticated(status) ||
         absl::IsFailedPrecondition(status);
}

// One peer to connect to, with its attempts.
struct Outgoing {
  const PeerLink* peer = nullptr;
  std::vector<SocketAddress> addresses;
  size_t next_address = 0;
  MonotonicTime retry_at;
  absl::Duration retry_delay = kFirstRetryDelay;
  UniqueFd connecting;  // until the connection's outcome is known
  MonotonicTime attempt_deadline;
  std::optional<HandshakeSocket> handshake;  // then
  std::unique_ptr<Link> link;                // then
  absl::Status last_error;

  bool is_idle() const {
    return link == nullptr && !connecting.is_open() && !handshake.has_value();
  }
};

struct Incoming {
  const PeerLink* peer = nullptr;
  std::unique_ptr<Link> link;
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
  bool AllAccepted() const;
  bool AllConnected() const;
  absl::Status Missing() const;
  RefusalReason Admit(const HandshakeMessage& hello) const;

  void StartAttempts(MonotonicTime now);
  void ExpireAttempts(MonotonicTime now);
  MonotonicTime NextEvent() const;
  absl::Status WaitForEvents(MonotonicTime now);
  absl::Status OnReady(int fd);

  void OnConnection();
  void OnIncoming(std::list<HandshakeSocket>::iterator it);
  absl::Status OnConnected(Outgoing& out);
  absl::Status OnOutgoing(Outgoing& out);
  absl::Status AttemptFailed(Outgoing& out, absl::Status why);
  void Report(const absl::Status& why);

  const Listener& listener_;
  const EstablishConfig& config_;
  const uint64_t job_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::list<HandshakeSocket> half_open_;  // oldest first
  MonotonicTime accept_at_;               // not before; see OnConnection
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
    Outgoing out;
    out.peer = &peer;
    RETURN_IF_ERROR(ParseHostPort(peer.address).status());
    outgoing_.push_back(std::move(out));
  }
  for (const PeerLink& peer : accept_from)
    incoming_.push_back({&peer, nullptr});
  return absl::OkStatus();
}

absl::StatusOr<EstablishedLinks> Establisher::Run() {
  while (!AllConnected() || !AllAccepted()) {
    if (config_.cancel != nullptr && config_.cancel->is_cancelled())
      return config_.cancel->status();
    now_ = config_.clock->Now();
    if (now_ >= config_.deadline) return Missing();
    ExpireAttempts(now_);
    StartAttempts(now_);
    RETURN_IF_ERROR(WaitForEvents(now_));
  }
  EstablishedLinks links;
  for (Outgoing& out : outgoing_)
    links.connected.push_back(std::move(out.link));
  for (Incoming& in : incoming_) links.accepted.push_back(std::move(in.link));
  return links;
}

bool Establisher::AllAccepted() const {
  return std::all_of(incoming_.begin(), incoming_.end(),
                     [](const Incoming& in) { return in.link != nullptr; });
}

bool Establisher::AllConnected() const {
  return std::all_of(outgoing_.begin(), outgoing_.end(),
                     [](const Outgoing& out) { return out.link != nullptr; });
}

absl::Status Establisher::Missing() const {
  std::string text = absl::StrCat("rank ", config_.rank, " at generation ",
                                  config_.generation, " has no connection");
  int blamed = -1;
  for (const Outgoing& out : outgoing_) {
    if (out.link != nullptr) continue;
    if (blamed < 0) blamed = out.peer->peer_rank;
    absl::StrAppend(&text, " to ",
                    PeerName(out.peer->peer_rank, out.peer->address));
    if (!out.last_error.ok())
      absl::StrAppend(&text, " (", out.last_error.message(), ")");
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
  return WithBlamedPeer(absl::DeadlineExceededError(text), blamed);
}

RefusalReason Establisher::Admit(const HandshakeMessage& hello) const {
  for (const Incoming& in : incoming_) {
    if (static_cast<uint32_t>(in.peer->peer_rank) != hello.from_rank) continue;
    if (in.peer->role != hello.role) continue;
    return in.link == nullptr ? RefusalReason::kNone
                              : RefusalReason::kAlreadyConnected;
  }
  return RefusalReason::kUnexpectedRank;
}

void Establisher::Report(const absl::Status& why) {
  last_refusal_ = why;
  if (config_.on_refused) config_.on_refused(why);
}

void Establisher::StartAttempts(MonotonicTime now) {
  for (Outgoing& out : outgoing_) {
    if (!out.is_idle() || now < out.retry_at) continue;
    if (out.addresses.empty()) {
      // A new host's name may take a while to be known.
      absl::StatusOr<std::vector<SocketAddress>> found =
          Resolve(out.peer->address);
      now = now_ = config_.clock->Now();  // a lookup may have taken seconds
      if (!found.ok()) {
        (void)AttemptFailed(out, found.status());  // UNAVAILABLE: never final
        continue;
      }
      out.addresses = *std::move(found);
    }
    const SocketAddress& address =
        out.addresses[out.next_address++ % out.addresses.size()];
    const absl::Status passed = FAIL_POINT("collective.connect");
    absl::StatusOr<UniqueFd> socket =
        passed.ok() ? BeginConnect(address) : passed;
    if (!socket.ok()) {
      (void)AttemptFailed(out, socket.status());  // UNAVAILABLE: never final
      continue;
    }
    out.connecting = *std::move(socket);
    out.attempt_deadline = now + config_.handshake_timeout;
  }
}

void Establisher::ExpireAttempts(MonotonicTime now) {
  for (Outgoing& out : outgoing_) {
    if (out.is_idle() || out.link != nullptr || now < out.attempt_deadline)
      continue;
    (void)AttemptFailed(out,
                        absl::UnavailableError("no answer to the handshake"));
  }
  std::erase_if(half_open_, [&](const HandshakeSocket& socket) {
    if (now < socket.deadline()) return false;
    Report(absl::DeadlineExceededError(absl::StrCat(
        "rank ", config_.rank, " dropped ", socket.remote(), ": silent for ",
        absl::FormatDuration(config_.handshake_timeout), " in the handshake")));
    return true;
  });
}

MonotonicTime Establisher::NextEvent() const {
  MonotonicTime next = config_.deadline;
  for (const Outgoing& out : outgoing_) {
    if (out.link != nullptr) continue;
    next = std::min(next, out.is_idle() ? out.retry_at : out.attempt_deadline);
  }
  for (const HandshakeSocket& socket : half_open_)
    next = std::min(next, socket.deadline());
  if (now_ < accept_at_) next = std::min(next, accept_at_);
  return next;
}

absl::Status Establisher::WaitForEvents(MonotonicTime now) {
  std::vector<pollfd> polled;
  if (config_.cancel != nullptr)
    polled.push_back({config_.cancel->fd(), POLLIN, 0});
  // The listener before the handshakes: a descriptor that closes in this round
  // is not handed out again in it.
  if (!AllAccepted() && now >= accept_at_)
    polled.push_back({listener_.fd(), POLLIN, 0});
  for (const HandshakeSocket& socket : half_open_)
    polled.push_back({socket.fd(), POLLIN, 0});
  for (const Outgoing& out : outgoing_) {
    if (out.connecting.is_open())
      polled.push_back({out.connecting.get(), POLLOUT, 0});
    if (out.handshake.has_value())
      polled.push_back({out.handshake->fd(), POLLIN, 0});
  }
  RETURN_IF_ERROR(WaitIo(polled, NextEvent() - now));
  for (const pollfd& ready : polled) {
    if (ready.revents != 0) RETURN_IF_ERROR(OnReady(ready.fd));
  }
  return absl::OkStatus();
}

absl::Status Establisher::OnReady(int fd) {
  for (Outgoing& out : outgoing_) {
    if (out.connecting.is_open() && out.connecting.get() == fd)
      return OnConnected(out);
    if (out.handshake.has_value() && out.handshake->fd() == fd)
      return OnOutgoing(out);
  }
  for (auto it = half_open_.begin(); it != half_open_.end(); ++it) {
    if (it->fd() != fd) continue;
    OnIncoming(it);
    return absl::OkStatus();
  }
  if (fd == listener_.fd()) OnConnection();
  return absl::OkStatus();
}

void Establisher::OnConnection() {
  absl::StatusOr<UniqueFd> socket = listener_.TryAccept();
  if (!socket.ok()) {
    // The connection still waits, so the listener stays readable: without a
    // pause this would spin, with a line each time.
    accept_at_ = now_ + kMaxRetryDelay;
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
  if (half_open_.size() >= static_cast<size_t>(config_.max_half_open)) {
    Report(absl::ResourceExhaustedError(absl::StrCat(
        "rank ", config_.rank, " dropped ", half_open_.front().remote(), ": ",
        config_.max_half_open, " handshakes are unfinished")));
    half_open_.pop_front();
  }
  half_open_.emplace_back(
      *std::move(socket),
      Handshake::Acceptor(
          job_, generation(), static_cast<uint32_t>(config_.rank),
          config_.secret, *nonce,
          [this](const HandshakeMessage& hello) { return Admit(hello); }),
      now_ + config_.handshake_timeout);
}

void Establisher::OnIncoming(std::list<HandshakeSocket>::iterator it) {
  absl::Status status = FAIL_POINT("collective.handshake_accepted");
  if (status.ok()) status = it->OnReadable();
  if (!status.ok()) {
    Report(Annotate(status, absl::StrCat("connection from ", it->remote())));
    half_open_.erase(it);
    return;
  }
  if (!it->is_complete()) return;
  for (Incoming& in : incoming_) {
    // Two handshakes of one rank may have been open: the first to finish is it.
    if (in.link != nullptr ||
        static_cast<uint32_t>(in.peer->peer_rank) != it->link().from_rank ||
        in.peer->role != it->link().role) {
      continue;
    }
    std::string name = PeerName(in.peer->peer_rank, it->remote());
    in.link = std::make_unique<SocketLink>(it->TakeSocket(), std::move(name),
                                           config_.silence_limit);
    break;
  }
  half_open_.erase(it);
}

absl::Status Establisher::OnConnected(Outgoing& out) {
  const absl::Status connected = ConnectResult(out.connecting.get());
  if (!connected.ok()) return AttemptFailed(out, connected);
  const absl::StatusOr<Nonce> nonce = NewNonce();
  if (!nonce.ok()) return AttemptFailed(out, nonce.status());
  LinkIdentity link;
  link.job = job_;
  link.generation = generation();
  link.from_rank = static_cast<uint32_t>(config_.rank);
  link.to_rank = static_cast<uint32_t>(out.peer->peer_rank);
  link.role = out.peer->role;
  out.handshake.emplace(std::move(out.connecting),
                        Handshake::Connector(link, config_.secret, *nonce),
                        out.attempt_deadline);
  const absl::Status sent = out.handshake->SendStart();
  return sent.ok() ? sent : AttemptFailed(out, sent);
}

absl::Status Establisher::OnOutgoing(Outgoing& out) {
  absl::Status status = FAIL_POINT("collective.handshake");
  if (status.ok()) status = out.handshake->OnReadable();
  if (!status.ok()) return AttemptFailed(out, status);
  if (!out.handshake->is_complete()) return absl::OkStatus();
  out.link = std::make_unique<SocketLink>(
      out.handshake->TakeSocket(),
      PeerName(out.peer->peer_rank, out.peer->address), config_.silence_limit);
  out.handshake.reset();
  return absl::OkStatus();
}

// Returns the status if it is final; otherwise prepares another attempt.
absl::Status Establisher::AttemptFailed(Outgoing& out, absl::Status why) {
  out.connecting.Reset();
  out.handshake.reset();
  if (IsFinal(why)) {
    return WithBlamedPeer(
        Annotate(why,
                 absl::StrCat("connecting to ", PeerName(out.peer->peer_rank,
                                                         out.peer->address))),
        out.peer->peer_rank);
  }
  out.last_error = std::move(why);
  out.retry_at = now_ + out.retry_delay;
  out.retry_delay = std::min(out.retry_delay * 2, kMaxRetryDelay);
  return absl::OkStatus();
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

int BlamedPeer(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kBlamedPeerUrl);
  int rank = -1;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &rank))
    return -1;
  return rank;
}

}  // namespace ringmaster
