#include "common/transport/peer_connector.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/fail_point/fail_point.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/tcp.h"
#include "common/transport/unix_socket.h"

namespace ringmaster {
namespace {

constexpr absl::Duration kFirstRetryDelay = absl::Milliseconds(2);
constexpr absl::Duration kMaxRetryDelay = absl::Milliseconds(100);
// Asking over TCP lasts only this part of an attempt: a peer that comes late is
// sooner met at its Unix socket.
constexpr int kShortAttempt = 4;

// A refusal that another attempt cannot change.
bool IsFinal(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsUnauthenticated(status) ||
         absl::IsFailedPrecondition(status);
}

}  // namespace

std::string PeerName(int rank, std::string_view address) {
  return absl::StrCat("rank ", rank, " at ",
                      absl::string_view(address.data(), address.size()));
}

PeerConnector::PeerConnector(const PeerLink& peer,
                             const EstablishConfig& config,
                             uint16_t own_unix_port)
    : peer_(peer),
      config_(config),
      own_unix_port_(own_unix_port),
      retry_delay_(kFirstRetryDelay) {}

MonotonicTime PeerConnector::NextEvent() const {
  if (is_connected()) return MonotonicTime::InfiniteFuture();
  return is_idle() ? retry_at_ : attempt_deadline_;
}

void PeerConnector::AddPolled(std::vector<pollfd>& polled) const {
  if (connecting_.is_open()) polled.push_back({connecting_.get(), POLLOUT, 0});
  if (handshake_.has_value()) polled.push_back({handshake_->fd(), POLLIN, 0});
}

bool PeerConnector::Owns(int fd) const {
  return (connecting_.is_open() && connecting_.get() == fd) ||
         (handshake_.has_value() && handshake_->fd() == fd);
}

void PeerConnector::StartIfDue(MonotonicTime now) {
  if (!is_idle() || now < retry_at_) return;
  const absl::Status begun = Begin();
  // Never final: nobody has been asked yet.
  if (!begun.ok()) (void)Failed(absl::UnavailableError(begun.message()));
}

absl::Status PeerConnector::FindAddresses() {
  if (!addresses_.empty()) return absl::OkStatus();
  // A new host's name may take a while to be known.
  ASSIGN_OR_RETURN(addresses_, Resolve(peer_.address));
  tries_unix_ = config_.use_unix &&
                addresses_.front().port() != own_unix_port_ &&
                std::any_of(addresses_.begin(), addresses_.end(), IsOfThisHost);
  tcp_at_ = config_.clock->Now() + config_.handshake_timeout;
  return absl::OkStatus();
}

absl::Status PeerConnector::Begin() {
  is_over_unix_ = false;
  RETURN_IF_ERROR(FindAddresses());
  // A lookup may have taken seconds.
  const MonotonicTime now = config_.clock->Now();
  RETURN_IF_ERROR(FAIL_POINT("collective.connect"));
  is_over_unix_ = tries_unix_ && (answers_over_tcp_ || now < tcp_at_);
  if (is_over_unix_) {
    attempt_deadline_ = now + config_.handshake_timeout;
    absl::StatusOr<UniqueFd> socket = ConnectUnix(addresses_.front().port());
    if (!socket.ok()) return Failed(socket.status());
    return BeginHandshake(*std::move(socket));
  }
  const absl::Duration limit =
      config_.handshake_timeout / (tries_unix_ ? kShortAttempt : 1);
  attempt_deadline_ = now + limit;
  tcp_at_ = attempt_deadline_ + config_.handshake_timeout;
  ASSIGN_OR_RETURN(
      connecting_,
      BeginConnect(addresses_[next_address_++ % addresses_.size()]));
  return absl::OkStatus();
}

void PeerConnector::Expire(MonotonicTime now) {
  if (is_idle() || is_connected() || now < attempt_deadline_) return;
  (void)Failed(absl::DeadlineExceededError("no answer to the handshake"));
}

absl::Status PeerConnector::OnReady() {
  if (handshake_.has_value()) return OnHandshake();
  const absl::Status connected = ConnectResult(connecting_.get());
  if (!connected.ok()) return Failed(connected);
  return BeginHandshake(std::move(connecting_));
}

absl::Status PeerConnector::BeginHandshake(UniqueFd socket) {
  const absl::StatusOr<Nonce> nonce = NewNonce();
  if (!nonce.ok()) return Failed(nonce.status());
  LinkIdentity link;
  link.job = JobHash(config_.job_id);
  link.generation = static_cast<uint64_t>(config_.generation);
  link.from_rank = static_cast<uint32_t>(config_.rank);
  link.to_rank = static_cast<uint32_t>(peer_.peer_rank);
  link.role = peer_.role;
  link.stripe = static_cast<uint8_t>(peer_.stripe);
  link.transport = is_over_unix_ ? Transport::kUnix : Transport::kTcp;
  handshake_.emplace(std::move(socket),
                     Handshake::Connector(link, config_.secret, *nonce),
                     attempt_deadline_);
  if (tries_unix_ && !is_over_unix_) handshake_->OnlyAsk();
  const absl::Status sent = handshake_->SendStart();
  return sent.ok() ? sent : Failed(sent);
}

absl::Status PeerConnector::OnHandshake() {
  absl::Status status = FAIL_POINT("collective.handshake");
  if (status.ok()) status = handshake_->OnReadable();
  if (!status.ok()) return Failed(status);
  if (handshake_->was_challenged()) {
    answers_over_tcp_ = true;
    handshake_.reset();
    retry_at_ = config_.clock->Now();
    return absl::OkStatus();
  }
  if (!handshake_->is_complete()) return absl::OkStatus();
  const Transport transport = handshake_->transport();
  std::string name = PeerName(peer_.peer_rank, peer_.address);
  if (transport == Transport::kUnix) name += " (unix)";
  if (config_.derives_keys) keys_ = handshake_->Keys();
  link_ =
      std::make_unique<SocketLink>(handshake_->TakeSocket(), std::move(name),
                                   config_.silence_limit, transport);
  handshake_.reset();
  return absl::OkStatus();
}

void PeerConnector::ChooseTransport(const absl::Status& why,
                                    MonotonicTime now) {
  const RefusalReason refusal = handshake_.has_value()
                                    ? handshake_->refused_by_peer()
                                    : RefusalReason::kNone;
  const bool is_late = absl::IsDeadlineExceeded(why) ||
                       absl::IsResourceExhausted(why) ||
                       refusal == RefusalReason::kFutureGeneration ||
                       refusal == RefusalReason::kAlreadyConnected;
  // Nobody listens, or whoever does hung up without a word: a peer that ends its
  // last generation, or one that takes no Unix connections.
  const bool is_absent =
      refusal == RefusalReason::kNone && absl::IsUnavailable(why);
  tries_unix_ = !answers_over_tcp_ && (is_late || is_absent);
  if (is_absent) tcp_at_ = now;
}

absl::Status PeerConnector::Failed(const absl::Status& why) {
  const MonotonicTime now = config_.clock->Now();
  const bool was_over_unix = std::exchange(is_over_unix_, false);
  if (was_over_unix) ChooseTransport(why, now);
  connecting_.Reset();
  handshake_.reset();
  if (was_over_unix) {
    last_error_ = Annotate(why, "over its Unix socket");
    if (!tries_unix_ || now >= tcp_at_) {
      retry_at_ = now;
      return absl::OkStatus();
    }
  } else if (IsFinal(why)) {
    return WithUnreachedPeer(
        Annotate(why, absl::StrCat("connecting to ",
                                   PeerName(peer_.peer_rank, peer_.address))),
        peer_.peer_rank);
  } else {
    last_error_ = why;
  }
  retry_at_ = now + retry_delay_;
  retry_delay_ = std::min(retry_delay_ * 2, kMaxRetryDelay);
  return absl::OkStatus();
}

}  // namespace ringmaster
