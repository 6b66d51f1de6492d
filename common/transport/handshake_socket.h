// HandshakeSocket runs one Handshake over one non-blocking socket.
//
// Used by EstablishLinks only. Thread-compatible.
#ifndef RINGMASTER_COMMON_TRANSPORT_HANDSHAKE_SOCKET_H_
#define RINGMASTER_COMMON_TRANSPORT_HANDSHAKE_SOCKET_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/clock/monotonic_time.h"
#include "common/transport/channel.h"
#include "common/transport/handshake.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

class HandshakeSocket {
 public:
  // `handshake` must know what transport `socket` is of.
  HandshakeSocket(UniqueFd socket, Handshake handshake, MonotonicTime deadline);

  // Sends the connector's first message.
  [[nodiscard]] absl::Status SendStart() { return Send(handshake_.Start()); }

  // Takes what has arrived. A status that is not OK ends the attempt:
  //   from Handshake::OnMessage and Reply::refused, or UNAVAILABLE if the peer
  //   went away.
  [[nodiscard]] absl::Status OnReadable();

  // Only finds out whether a peer answers: a Challenge gets no Proof;
  // was_challenged() is true then.
  void OnlyAsk() { only_asks_ = true; }
  [[nodiscard]] bool was_challenged() const { return was_challenged_; }

  // Something has come from the peer.
  [[nodiscard]] bool has_spoken() const { return has_spoken_; }
  [[nodiscard]] bool is_complete() const { return is_complete_; }
  [[nodiscard]] MonotonicTime deadline() const { return deadline_; }
  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] const LinkIdentity& link() const { return handshake_.link(); }
  // "10.0.0.7:40312" or "pid 4711 (unix)".
  [[nodiscard]] const std::string& remote() const { return remote_; }
  // kTcp or kUnix.
  [[nodiscard]] Transport transport() const { return link().transport; }
  // Why the other side refused us; kNone as long as it has not.
  [[nodiscard]] RefusalReason refused_by_peer() const {
    return refused_by_peer_;
  }
  // The keys of encrypted frames, once complete.
  [[nodiscard]] FrameKeys Keys() const { return handshake_.Keys(); }
  // The socket, once complete.
  [[nodiscard]] UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  [[nodiscard]] absl::Status Send(const HandshakeMessage& message);

  UniqueFd socket_;
  Handshake handshake_;
  MonotonicTime deadline_;
  std::string remote_;
  RefusalReason refused_by_peer_ = RefusalReason::kNone;
  HandshakeBytes incoming_;
  size_t incoming_have_ = 0;
  bool only_asks_ = false;
  bool was_challenged_ = false;
  bool has_spoken_ = false;
  bool is_complete_ = false;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_HANDSHAKE_SOCKET_H_
