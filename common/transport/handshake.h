// The handshake that every data-plane connection begins with: it establishes
// the peer's identity and generation, and that it knows the generation's
// secret.
//
// Four messages of one fixed size: Hello (connector's identity and nonce),
// Challenge (acceptor's nonce), Proof (connector's MAC), Accept (acceptor's
// MAC), or a Refuse with a reason in place of the last three. A MAC is
// HMAC-SHA256 (RFC 2104) under the secret over a label for the side, job,
// generation, both ranks, the role, the transport and both nonces, compared in
// constant time; so recorded and reflected exchanges are refused, and so is one
// relayed over TCP by an attacker who took a rank's Unix socket name. The keys
// of frames that are encrypted after it come from the same secret and the same
// text (DeriveKey).
//
// Pure except for the nonces, which are arguments; no sockets or clocks.
// Thread-compatible.
#ifndef RINGMASTER_COMMON_TRANSPORT_HANDSHAKE_H_
#define RINGMASTER_COMMON_TRANSPORT_HANDSHAKE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/channel.h"
#include "common/transport/frame_cipher.h"

namespace ringmaster {

// The purpose of a connection.
enum class LinkRole : uint8_t {
  kCollective = 1,
  kSnapshot = 2,
  kParameterServer = 3,  // a worker with a holder of shards of the parameters
  kReplica = 4,          // a holder of a shard with one that gets copies of it
  kMessages = 5,  // two ranks of a PyTorch process group: single messages
};

inline constexpr size_t kHandshakeMessageBytes = 80;
inline constexpr size_t kMinSecretBytes = 16;

using HandshakeBytes = std::array<std::byte, kHandshakeMessageBytes>;
using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

enum class HandshakeType : uint8_t {
  kHello = 1,
  kChallenge,
  kProof,
  kAccept,
  kRefuse
};

enum class RefusalReason : uint8_t {
  kNone = 0,
  kOtherJob,          // the acceptor works for another job
  kStaleGeneration,   // the connector's generation is over
  kFutureGeneration,  // the acceptor has not got there yet: try again
  kUnexpectedRank,  // not a neighbour in this generation, or meant for another
                    // rank
  kAlreadyConnected,  // that rank's connection is up
  kWrongSecret,
  kRelayed,  // connected over another transport than the acceptor was reached by
};

struct HandshakeMessage {
  HandshakeType type = HandshakeType::kHello;
  RefusalReason reason = RefusalReason::kNone;
  LinkRole role = LinkRole::kCollective;
  Transport transport = Transport::kTcp;  // the sender's socket's
  uint8_t stripe = 0;       // of the pair's connections, below kMaxConnections
  uint64_t job = 0;         // the sender's
  uint64_t generation = 0;  // the sender's
  uint32_t from_rank =
      0;                 // the connector's rank; in a Refuse the acceptor's own
  uint32_t to_rank = 0;  // the rank the connector wants to reach
  std::array<std::byte, 32> proof = {};  // nonce or MAC

  friend bool operator==(const HandshakeMessage&,
                         const HandshakeMessage&) = default;
};

[[nodiscard]] HandshakeBytes EncodeHandshake(const HandshakeMessage& message);
// FAILED_PRECONDITION, showing the bytes, if no handshake message begins with
// `bytes`, which may be incomplete: this recognizes a stranger at once, even
// one that sends little and waits for an answer.
[[nodiscard]] absl::Status CheckHandshakeStart(
    std::span<const std::byte> bytes);
// Total: FAILED_PRECONDITION for bytes that are no handshake message of this
// version.
[[nodiscard]] absl::StatusOr<HandshakeMessage> ParseHandshake(
    std::span<const std::byte, kHandshakeMessageBytes> bytes);

// The 64 bits that stand for a job's id in handshakes and frames: the start of
// its SHA-256.
[[nodiscard]] uint64_t JobHash(std::string_view job_id);

// 32 bytes from the system's cryptographic generator. RESOURCE_EXHAUSTED if it
// has none.
[[nodiscard]] absl::StatusOr<Nonce> NewNonce();

// One connection as both sides must see it.
struct LinkIdentity {
  uint64_t job = 0;
  uint64_t generation = 0;
  uint32_t from_rank = 0;  // the connector
  uint32_t to_rank = 0;    // the acceptor
  LinkRole role = LinkRole::kCollective;
  Transport transport = Transport::kTcp;  // or kUnix
  uint8_t stripe = 0;
};

enum class HandshakeSide : uint8_t { kConnector = 1, kAcceptor = 2 };

// The proof that `side` knows `secret`.
[[nodiscard]] Mac ComputeMac(std::string_view secret, HandshakeSide side,
                             const LinkIdentity& link,
                             const Nonce& connector_nonce,
                             const Nonce& acceptor_nonce);

// The key of the frames that `sender` sends: HKDF-SHA256 (RFC 5869) of `secret`
// without salt, with the text that a MAC is over under another label. Fresh
// nonces of both sides make it one of this connection and direction only.
[[nodiscard]] FrameKey DeriveKey(std::string_view secret, HandshakeSide sender,
                                 const LinkIdentity& link,
                                 const Nonce& connector_nonce,
                                 const Nonce& acceptor_nonce);

// One side of one handshake, fed with the peer's messages.
class Handshake {
 public:
  // The result of a message: an answer to send, and whether the handshake is
  // complete after it.
  struct Reply {
    std::optional<HandshakeMessage> send;
    bool is_complete = false;
    // Set with a Refuse to send: the report on the refused connection.
    absl::Status refused;
  };

  // Decides about a Hello: kNone to go on.
  using Admission = std::function<RefusalReason(const HandshakeMessage& hello)>;

  // The connecting side; Start gives its first message.
  static Handshake Connector(const LinkIdentity& link, std::string_view secret,
                             const Nonce& nonce);
  // The accepting side. `self` is what it knows before the Hello: all but
  // from_rank and role.
  static Handshake Acceptor(const LinkIdentity& self, std::string_view secret,
                            const Nonce& nonce, Admission admission);

  [[nodiscard]] HandshakeMessage Start() const;

  // Takes the peer's next message.
  //   FAILED_PRECONDITION  out of order, or refused for good (unexpected rank,
  //                        relayed)
  //   ABORTED              refused: our generation is over
  //   UNAVAILABLE          refused for now: try again
  //   UNAUTHENTICATED      refused: wrong secret; or the acceptor does not know
  //   it
  [[nodiscard]] absl::StatusOr<Reply> OnMessage(
      const HandshakeMessage& message);

  // The connection's identity; the acceptor's is known after the Hello.
  [[nodiscard]] const LinkIdentity& link() const { return link_; }

  // This side's keys. Requires that the handshake is complete.
  [[nodiscard]] FrameKeys Keys() const;

 private:
  Handshake(HandshakeSide side, const LinkIdentity& link,
            std::string_view secret, const Nonce& nonce);

  [[nodiscard]] HandshakeMessage Message(HandshakeType type) const;
  [[nodiscard]] Reply Refuse(RefusalReason reason,
                             const HandshakeMessage& hello) const;
  [[nodiscard]] absl::StatusOr<Reply> OnHello(const HandshakeMessage& hello);
  [[nodiscard]] absl::StatusOr<Reply> OnChallenge(
      const HandshakeMessage& challenge);
  [[nodiscard]] absl::StatusOr<Reply> OnProof(const HandshakeMessage& proof);
  [[nodiscard]] absl::StatusOr<Reply> OnAccept(const HandshakeMessage& accept);
  [[nodiscard]] absl::Status RefusedBy(const HandshakeMessage& refusal) const;

  HandshakeSide side_;
  LinkIdentity link_;
  std::string secret_;
  Nonce nonce_;
  Nonce peer_nonce_ = {};
  HandshakeType awaited_;
  Admission admission_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_HANDSHAKE_H_
