#include "common/transport/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/plan/mesh.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/transport/little_endian.h"

namespace ringmaster {
namespace {

constexpr std::string_view kHandshakeMagic = "RMRH";
constexpr uint16_t kHandshakeVersion = 2;

bool IsKnownRole(uint8_t role) {
  return role >= 1 && role <= static_cast<uint8_t>(LinkRole::kMessages);
}
bool IsKnownType(uint8_t type) { return type >= 1 && type <= 5; }
bool IsKnownReason(uint8_t reason) { return reason <= 7; }
bool IsKnownTransport(uint8_t transport) {
  return transport == static_cast<uint8_t>(Transport::kTcp) ||
         transport == static_cast<uint8_t>(Transport::kUnix);
}

std::string Describe(const LinkIdentity& link) {
  return absl::StrCat("rank ", link.from_rank, " to rank ", link.to_rank,
                      " at generation ", link.generation);
}

// All that makes a connection and its side what they are.
std::string Transcript(std::string_view label, HandshakeSide side,
                       const LinkIdentity& link, const Nonce& connector_nonce,
                       const Nonce& acceptor_nonce) {
  std::array<std::byte, 1 + 8 + 8 + 4 + 4 + 1 + 1 + 1 + 64> text;
  std::byte* to = text.data();
  *to++ = static_cast<std::byte>(side);
  StoreLittleEndian(link.job, to);
  StoreLittleEndian(link.generation, to + 8);
  StoreLittleEndian(link.from_rank, to + 16);
  StoreLittleEndian(link.to_rank, to + 20);
  to[24] = static_cast<std::byte>(link.role);
  to[25] = static_cast<std::byte>(link.transport);
  to[26] = static_cast<std::byte>(link.stripe);
  to = std::copy(connector_nonce.begin(), connector_nonce.end(), to + 27);
  std::copy(acceptor_nonce.begin(), acceptor_nonce.end(), to);
  std::string all(label);
  all.append(reinterpret_cast<const char*>(text.data()), text.size());
  return all;
}

}  // namespace

HandshakeBytes EncodeHandshake(const HandshakeMessage& message) {
  HandshakeBytes bytes = {};
  std::byte* const to = bytes.data();
  std::memcpy(to, kHandshakeMagic.data(), kHandshakeMagic.size());
  StoreLittleEndian(kHandshakeVersion, to + 4);
  to[6] = static_cast<std::byte>(message.type);
  to[7] = static_cast<std::byte>(message.reason);
  StoreLittleEndian(message.job, to + 8);
  StoreLittleEndian(message.generation, to + 16);
  StoreLittleEndian(message.from_rank, to + 24);
  StoreLittleEndian(message.to_rank, to + 28);
  to[32] = static_cast<std::byte>(message.role);
  to[33] = static_cast<std::byte>(message.transport);
  to[34] = static_cast<std::byte>(message.stripe);
  std::copy(message.proof.begin(), message.proof.end(), to + 48);
  return bytes;
}

absl::Status CheckHandshakeStart(std::span<const std::byte> bytes) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min(bytes.size(), kHandshakeMagic.size()));
  if (kHandshakeMagic.starts_with(start)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the peer does not speak our protocol: it began with \"",
      absl::CHexEscape(absl::string_view(start.data(), start.size())),
      "\", not with a handshake"));
}

absl::StatusOr<HandshakeMessage> ParseHandshake(
    std::span<const std::byte, kHandshakeMessageBytes> bytes) {
  const std::byte* const from = bytes.data();
  RETURN_IF_ERROR(CheckHandshakeStart(bytes));
  const auto version = LoadLittleEndian<uint16_t>(from + 4);
  if (version != kHandshakeVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the peer speaks handshake version ", version,
                     ", this binary ", kHandshakeVersion));
  }
  const auto type = std::to_integer<uint8_t>(from[6]);
  const auto reason = std::to_integer<uint8_t>(from[7]);
  const auto role = std::to_integer<uint8_t>(from[32]);
  const auto transport = std::to_integer<uint8_t>(from[33]);
  const auto stripe = std::to_integer<uint8_t>(from[34]);
  if (!IsKnownType(type) || !IsKnownReason(reason) || !IsKnownRole(role) ||
      !IsKnownTransport(transport) || stripe >= kMaxConnections) {
    return absl::FailedPreconditionError(absl::StrCat(
        "malformed handshake: type ", type, ", reason ", reason, ", role ",
        role, ", transport ", transport, ", stripe ", stripe));
  }
  HandshakeMessage message;
  message.type = static_cast<HandshakeType>(type);
  message.reason = static_cast<RefusalReason>(reason);
  message.role = static_cast<LinkRole>(role);
  message.transport = static_cast<Transport>(transport);
  message.stripe = stripe;
  message.job = LoadLittleEndian<uint64_t>(from + 8);
  message.generation = LoadLittleEndian<uint64_t>(from + 16);
  message.from_rank = LoadLittleEndian<uint32_t>(from + 24);
  message.to_rank = LoadLittleEndian<uint32_t>(from + 28);
  std::copy_n(from + 48, message.proof.size(), message.proof.begin());
  return message;
}

uint64_t JobHash(std::string_view job_id) {
  std::array<std::byte, EVP_MAX_MD_SIZE> digest = {};
  EVP_Digest(job_id.data(), job_id.size(),
             reinterpret_cast<unsigned char*>(digest.data()), nullptr,
             EVP_sha256(), nullptr);
  return LoadLittleEndian<uint64_t>(digest.data());
}

absl::StatusOr<Nonce> NewNonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()),
                 nonce.size()) != 1) {
    return absl::ResourceExhaustedError(
        "the system's random generator gives no bytes");
  }
  return nonce;
}

Mac ComputeMac(std::string_view secret, HandshakeSide side,
               const LinkIdentity& link, const Nonce& connector_nonce,
               const Nonce& acceptor_nonce) {
  const std::string text = Transcript("ringmaster data plane 2", side, link,
                                      connector_nonce, acceptor_nonce);
  Mac mac = {};
  unsigned int length = mac.size();
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(mac.data()), &length);
  return mac;
}

FrameKey DeriveKey(std::string_view secret, HandshakeSide sender,
                   const LinkIdentity& link, const Nonce& connector_nonce,
                   const Nonce& acceptor_nonce) {
  const std::string info = Transcript("ringmaster frame key 1", sender, link,
                                      connector_nonce, acceptor_nonce);
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  FrameKey key = {};
  size_t length = key.size();
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> hkdf(
      EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), EVP_PKEY_CTX_free);
  RM_CHECK(
      hkdf != nullptr && EVP_PKEY_derive_init(hkdf.get()) == 1 &&
          EVP_PKEY_CTX_set_hkdf_md(hkdf.get(), EVP_sha256()) == 1 &&
          EVP_PKEY_CTX_set1_hkdf_key(hkdf.get(), bytes(secret),
                                     static_cast<int>(secret.size())) == 1 &&
          EVP_PKEY_CTX_add1_hkdf_info(hkdf.get(), bytes(info),
                                      static_cast<int>(info.size())) == 1 &&
          EVP_PKEY_derive(hkdf.get(),
                          reinterpret_cast<unsigned char*>(key.data()),
                          &length) == 1 &&
          length == key.size(),
      "OpenSSL has no HKDF");
  return key;
}

Handshake::Handshake(HandshakeSide side, const LinkIdentity& link,
                     std::string_view secret, const Nonce& nonce)
    : side_(side),
      link_(link),
      secret_(secret),
      nonce_(nonce),
      awaited_(side == HandshakeSide::kConnector ? HandshakeType::kChallenge
                                                 : HandshakeType::kHello) {}

Handshake Handshake::Connector(const LinkIdentity& link,
                               std::string_view secret, const Nonce& nonce) {
  return Handshake(HandshakeSide::kConnector, link, secret, nonce);
}

Handshake Handshake::Acceptor(const LinkIdentity& self, std::string_view secret,
                              const Nonce& nonce, Admission admission) {
  Handshake handshake(HandshakeSide::kAcceptor, self, secret, nonce);
  handshake.admission_ = std::move(admission);
  return handshake;
}

HandshakeMessage Handshake::Message(HandshakeType type) const {
  HandshakeMessage message;
  message.type = type;
  message.role = link_.role;
  message.transport = link_.transport;
  message.stripe = link_.stripe;
  message.job = link_.job;
  message.generation = link_.generation;
  message.from_rank = link_.from_rank;
  message.to_rank = link_.to_rank;
  return message;
}

HandshakeMessage Handshake::Start() const {
  HandshakeMessage hello = Message(HandshakeType::kHello);
  hello.proof = nonce_;
  return hello;
}

absl::StatusOr<Handshake::Reply> Handshake::OnMessage(
    const HandshakeMessage& message) {
  if (side_ == HandshakeSide::kConnector &&
      message.type == HandshakeType::kRefuse) {
    return RefusedBy(message);
  }
  if (message.type != awaited_) {
    return absl::FailedPreconditionError(
        absl::StrCat("handshake ", Describe(link_), ": got message ",
                     static_cast<int>(message.type), ", expected ",
                     static_cast<int>(awaited_)));
  }
  switch (message.type) {
    case HandshakeType::kHello:
      return OnHello(message);
    case HandshakeType::kChallenge:
      return OnChallenge(message);
    case HandshakeType::kProof:
      return OnProof(message);
    case HandshakeType::kAccept:
      return OnAccept(message);
    case HandshakeType::kRefuse:
      break;
  }
  return absl::InternalError("handshake in no known state");
}

absl::StatusOr<Handshake::Reply> Handshake::OnHello(
    const HandshakeMessage& hello) {
  RefusalReason reason = RefusalReason::kNone;
  if (hello.job != link_.job) {
    reason = RefusalReason::kOtherJob;
  } else if (hello.generation < link_.generation) {
    reason = RefusalReason::kStaleGeneration;
  } else if (hello.generation > link_.generation) {
    reason = RefusalReason::kFutureGeneration;
  } else if (hello.to_rank != link_.to_rank) {
    reason = RefusalReason::kUnexpectedRank;
  } else if (hello.transport != link_.transport) {
    reason = RefusalReason::kRelayed;
  } else {
    reason = admission_(hello);
  }
  if (reason != RefusalReason::kNone) return Refuse(reason, hello);
  link_.from_rank = hello.from_rank;
  link_.role = hello.role;
  link_.stripe = hello.stripe;
  peer_nonce_ = hello.proof;
  awaited_ = HandshakeType::kProof;
  Reply reply;
  reply.send = Message(HandshakeType::kChallenge);
  reply.send->proof = nonce_;
  return reply;
}

absl::StatusOr<Handshake::Reply> Handshake::OnChallenge(
    const HandshakeMessage& challenge) {
  peer_nonce_ = challenge.proof;
  awaited_ = HandshakeType::kAccept;
  Reply reply;
  reply.send = Message(HandshakeType::kProof);
  reply.send->proof = ComputeMac(secret_, HandshakeSide::kConnector, link_,
                                 nonce_, peer_nonce_);
  return reply;
}

absl::StatusOr<Handshake::Reply> Handshake::OnProof(
    const HandshakeMessage& proof) {
  const Mac wanted = ComputeMac(secret_, HandshakeSide::kConnector, link_,
                                peer_nonce_, nonce_);
  if (CRYPTO_memcmp(wanted.data(), proof.proof.data(), wanted.size()) != 0) {
    return Refuse(RefusalReason::kWrongSecret, proof);
  }
  Reply reply;
  reply.send = Message(HandshakeType::kAccept);
  reply.send->proof =
      ComputeMac(secret_, HandshakeSide::kAcceptor, link_, peer_nonce_, nonce_);
  reply.is_complete = true;
  return reply;
}

absl::StatusOr<Handshake::Reply> Handshake::OnAccept(
    const HandshakeMessage& accept) {
  const Mac wanted =
      ComputeMac(secret_, HandshakeSide::kAcceptor, link_, nonce_, peer_nonce_);
  if (CRYPTO_memcmp(wanted.data(), accept.proof.data(), wanted.size()) != 0) {
    return absl::UnauthenticatedError(absl::StrCat(
        "handshake ", Describe(link_),
        ": whoever accepted does not know the generation's secret"));
  }
  Reply reply;
  reply.is_complete = true;
  return reply;
}

FrameKeys Handshake::Keys() const {
  const bool connects = side_ == HandshakeSide::kConnector;
  const auto key_of = [&](HandshakeSide sender) {
    return DeriveKey(secret_, sender, link_, connects ? nonce_ : peer_nonce_,
                     connects ? peer_nonce_ : nonce_);
  };
  return {.send = key_of(side_),
          .receive = key_of(connects ? HandshakeSide::kAcceptor
                                     : HandshakeSide::kConnector)};
}

Handshake::Reply Handshake::Refuse(RefusalReason reason,
                                   const HandshakeMessage& hello) const {
  Reply reply;
  reply.send = Message(HandshakeType::kRefuse);
  reply.send->reason = reason;
  reply.send->from_rank = link_.to_rank;
  reply.send->to_rank = hello.from_rank;
  const std::string who =
      absl::StrCat("rank ", link_.to_rank, " (generation ", link_.generation,
                   ") refused rank ", hello.from_rank, " (generation ",
                   hello.generation, "): ");
  switch (reason) {
    case RefusalReason::kOtherJob:
      reply.refused = absl::FailedPreconditionError(
          absl::StrCat(who, "it works for another job"));
      break;
    case RefusalReason::kStaleGeneration:
      reply.refused =
          absl::AbortedError(absl::StrCat(who, "its generation is over"));
      break;
    case RefusalReason::kFutureGeneration:
      reply.refused = absl::UnavailableError(
          absl::StrCat(who, "its generation is not ours yet"));
      break;
    case RefusalReason::kAlreadyConnected:
      reply.refused = absl::FailedPreconditionError(
          absl::StrCat(who, "it is connected already"));
      break;
    case RefusalReason::kWrongSecret:
      reply.refused =
          absl::UnauthenticatedError(absl::StrCat(who, "wrong secret"));
      break;
    case RefusalReason::kRelayed:
      reply.refused = absl::FailedPreconditionError(absl::StrCat(
          who, "it connected over ", TransportName(hello.transport),
          " and reached us over ", TransportName(link_.transport),
          ", so somebody in between relays it"));
      break;
    case RefusalReason::kNone:
    case RefusalReason::kUnexpectedRank:
      reply.refused = absl::FailedPreconditionError(absl::StrCat(
          who, "not awaited here (it asked for rank ", hello.to_rank, ")"));
      break;
  }
  return reply;
}

absl::Status Handshake::RefusedBy(const HandshakeMessage& refusal) const {
  const std::string who =
      absl::StrCat("rank ", link_.from_rank, " (generation ", link_.generation,
                   ") was refused by rank ", refusal.from_rank, " (generation ",
                   refusal.generation, "): ");
  switch (refusal.reason) {
    case RefusalReason::kStaleGeneration:
      return absl::AbortedError(
          absl::StrCat(who, "our generation is over; rejoin"));
    case RefusalReason::kOtherJob:
      return absl::UnavailableError(
          absl::StrCat(who, "it works for another job now"));
    case RefusalReason::kFutureGeneration:
      return absl::UnavailableError(
          absl::StrCat(who, "it has not reached our generation"));
    case RefusalReason::kAlreadyConnected:
      return absl::UnavailableError(
          absl::StrCat(who, "it holds a connection of ours already"));
    case RefusalReason::kWrongSecret:
      return absl::UnauthenticatedError(
          absl::StrCat(who, "our secret is not this generation's"));
    case RefusalReason::kRelayed:
      return absl::FailedPreconditionError(absl::StrCat(
          who, "whoever listens here over ", TransportName(link_.transport),
          " relays us to it over another transport"));
    case RefusalReason::kNone:
    case RefusalReason::kUnexpectedRank:
      break;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(who, "it does not await rank ", link_.from_rank, " as rank ",
                   link_.to_rank));
}

}  // namespace ringmaster
