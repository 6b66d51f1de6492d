#include "common/transport/handshake_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/transport/socket_address.h"
#include "common/transport/unix_socket.h"

namespace ringmaster {

HandshakeSocket::HandshakeSocket(UniqueFd socket, Handshake handshake,
                                 MonotonicTime deadline)
    : socket_(std::move(socket)),
      handshake_(std::move(handshake)),
      deadline_(deadline) {
  if (transport() == Transport::kUnix) {
    remote_ = UnixPeerName(socket_.get());
  } else {
    const absl::StatusOr<SocketAddress> remote = RemoteAddress(socket_.get());
    remote_ = remote.ok() ? remote->ToString() : "(gone)";
  }
}

absl::Status HandshakeSocket::Send(const HandshakeMessage& message) {
  const HandshakeBytes bytes = EncodeHandshake(message);
  const ssize_t sent =
      send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  // A fresh socket always has room for a handshake; less means that the peer is
  // gone.
  return absl::UnavailableError(
      absl::StrCat(remote_, " went away during the handshake: ",
                   sent < 0 ? strerror(errno) : "short write"));
}

absl::Status HandshakeSocket::OnReadable() {
  // At most a message at a time, so that bytes after the handshake stay in the
  // socket.
  const ssize_t got = recv(fd(), incoming_.data() + incoming_have_,
                           incoming_.size() - incoming_have_, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
  if (got <= 0) {
    return absl::UnavailableError(
        absl::StrCat(remote_, " went away during the handshake: ",
                     got == 0 ? "closed" : strerror(errno)));
  }
  has_spoken_ = true;
  incoming_have_ += static_cast<size_t>(got);
  if (incoming_have_ < incoming_.size())
    return CheckHandshakeStart(std::span(incoming_).first(incoming_have_));
  incoming_have_ = 0;
  ASSIGN_OR_RETURN(const HandshakeMessage message, ParseHandshake(incoming_));
  if (message.type == HandshakeType::kRefuse) refused_by_peer_ = message.reason;
  if (only_asks_ && message.type == HandshakeType::kChallenge) {
    was_challenged_ = true;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Handshake::Reply reply, handshake_.OnMessage(message));
  if (reply.send.has_value()) {
    const absl::Status sent = Send(*reply.send);
    // A refused peer that is gone already was refused all the same.
    if (reply.refused.ok()) RETURN_IF_ERROR(sent);
  }
  is_complete_ = reply.is_complete;
  return reply.refused;
}

}  // namespace ringmaster
