#include "tests/fuzz/wire_target.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include "absl/status/statusor.h"
#include "common/status/check.h"
#include "common/transport/frame.h"
#include "common/transport/handshake.h"
#include "common/transport/little_endian.h"
#include "common/transport/share_message.h"
#include "common/transport/shared_layout.h"
#include "tests/fuzz/frames_target.h"
#include "tests/fuzz/wire_input.h"

namespace ringmaster::fuzz {
namespace {

bool TryFrame(std::span<const std::byte> input) {
  if (input.size() < kExpectationBytes + kFrameHeaderBytes) return false;
  const FrameHeader expected = ExpectedHeader(
      std::to_integer<uint8_t>(input[1]),
      LoadLittleEndian<uint16_t>(input.data() + 2) % (kMaxPayloadBytes + 1));
  const auto bytes =
      input.subspan(kExpectationBytes).first<kFrameHeaderBytes>();
  const absl::StatusOr<FrameHeader> header = ParseFrameHeader(bytes);
  bool is_good = header.ok();
  if (header.ok()) {
    const FrameHeaderBytes again = EncodeFrameHeader(*header);
    RM_CHECK(std::equal(again.begin(), again.end(), bytes.begin()),
             "a header does not stand for its bytes");
    RM_CHECK(header->payload_bytes <= kMaxFramePayloadBytes,
             "a payload above the limit");
    is_good = MatchFrame(expected, *header, 1).ok();
  }
  const FrameHeaderBytes wanted = EncodeFrameHeader(expected);
  RM_CHECK(is_good == std::equal(wanted.begin(), wanted.end(), bytes.begin()),
           "a header counts as good, or not, against its bytes");
  return is_good;
}

bool IsGoodHandshake(std::span<const std::byte, kHandshakeMessageBytes> bytes) {
  // Magic "RMRH" and version 2, then type, reason, and far behind the role, the
  // transport and the stripe.
  constexpr uint8_t kStart[] = {'R', 'M', 'R', 'H', 2, 0};
  const auto at = [bytes](size_t i) {
    return std::to_integer<uint8_t>(bytes[i]);
  };
  for (size_t i = 0; i < std::size(kStart); ++i) {
    if (at(i) != kStart[i]) return false;
  }
  return at(6) >= 1 && at(6) <= 5 && at(7) <= 7 && at(32) >= 1 && at(32) <= 5 &&
         at(33) >= 1 && at(33) <= 2 && at(34) <= 15;
}

bool TryHandshake(std::span<const std::byte> input) {
  if (input.size() < kHandshakeMessageBytes) return false;
  const auto bytes = input.first<kHandshakeMessageBytes>();
  const absl::StatusOr<HandshakeMessage> message = ParseHandshake(bytes);
  RM_CHECK(message.ok() == IsGoodHandshake(bytes),
           "a handshake message counts as good, or not, against its bytes");
  if (!message.ok()) return false;
  HandshakeBytes again = EncodeHandshake(*message);
  // Nobody looks at what lies between the stripe and the proof.
  std::copy(bytes.begin() + 35, bytes.begin() + 48, again.begin() + 35);
  RM_CHECK(std::equal(again.begin(), again.end(), bytes.begin()),
           "a handshake message does not stand for its bytes");
  return true;
}

// Whether `message` says what the honest one of that type does, where the
// receiver has to look at it: a Hello in all but the reason (which only a Refuse
// has), the others in the proof, as the Hello has said the rest.
bool IsHonest(const HandshakeMessage& message, HandshakeType type) {
  HandshakeMessage honest = HonestMessage(type);
  if (type != HandshakeType::kHello)
    return message.type == type && message.proof == honest.proof;
  honest.reason = message.reason;
  return message == honest;
}

// Has `side` of a handshake take the messages in `input`, of which those of
// types `first` and `second` should be the first two.
bool TryDialogue(Handshake side, HandshakeType first, HandshakeType second,
                 std::span<const std::byte> input) {
  bool is_honest = true;
  for (int taken = 0; input.size() >= kHandshakeMessageBytes; ++taken) {
    const absl::StatusOr<HandshakeMessage> message =
        ParseHandshake(input.first<kHandshakeMessageBytes>());
    input = input.subspan(kHandshakeMessageBytes);
    is_honest = is_honest && message.ok() && taken < 2 &&
                IsHonest(*message, taken == 0 ? first : second);
    bool is_complete = false;
    bool is_refused = !message.ok();
    if (message.ok()) {
      const absl::StatusOr<Handshake::Reply> reply = side.OnMessage(*message);
      is_refused = !reply.ok() || !reply->refused.ok();
      is_complete = reply.ok() && reply->is_complete;
    }
    RM_CHECK(!is_honest || !is_refused, "refuses an honest peer");
    RM_CHECK(is_complete == (is_honest && taken == 1),
             "is complete without an honest peer, or not with one");
    if (is_complete || is_refused) return is_complete;
  }
  return false;
}

bool TryAcceptor(std::span<const std::byte> input) {
  // It would take anybody who asks; the proof has to tell.
  return TryDialogue(Handshake::Acceptor(kLink, kSecret, AcceptorNonce(),
                                         [](const HandshakeMessage&) {
                                           return RefusalReason::kNone;
                                         }),
                     HandshakeType::kHello, HandshakeType::kProof, input);
}

bool TryConnector(std::span<const std::byte> input) {
  return TryDialogue(Handshake::Connector(kLink, kSecret, ConnectorNonce()),
                     HandshakeType::kChallenge, HandshakeType::kAccept, input);
}

bool IsGoodShareMessage(std::span<const std::byte, kShareMessageBytes> bytes) {
  const std::byte* const from = bytes.data();
  const auto kind = std::to_integer<int>(bytes[6]);
  if (LoadLittleEndian<uint32_t>(from) != kShareMagic ||
      LoadLittleEndian<uint16_t>(from + 4) != kShareVersion ||
      (kind != 1 && kind != 2)) {
    return false;
  }
  if (kind == 2 || bytes[7] == std::byte{0}) return true;
  const uint64_t count = LoadLittleEndian<uint32_t>(from + 8);
  const uint64_t slot = LoadLittleEndian<uint32_t>(from + 12);
  return count >= 1 && count <= kMaxSlots && slot >= 64 && slot % 64 == 0 &&
         slot <= kMaxFramePayloadBytes &&
         LoadLittleEndian<uint64_t>(from + 16) ==
             sizeof(SharedControl) + count * (kFrameHeaderBytes + slot);
}

// Up to the first zero, with '?' for what is not ASCII's to print.
std::string PrintableReason(std::span<const std::byte> bytes) {
  std::string reason;
  for (const std::byte byte : bytes.last<kMaxShareReasonBytes>()) {
    const auto code = std::to_integer<int>(byte);
    if (code == 0) break;
    reason += code >= 0x20 && code < 0x7f ? static_cast<char>(code) : '?';
  }
  return reason;
}

bool TryShareMessage(std::span<const std::byte> input) {
  if (input.size() < kShareMessageBytes) return false;
  const auto bytes = input.first<kShareMessageBytes>();
  const absl::StatusOr<ShareMessage> message = ParseShareMessage(bytes);
  RM_CHECK(message.ok() == IsGoodShareMessage(bytes),
           "a message about memory counts as good, or not, against its bytes");
  if (!message.ok()) return false;
  RM_CHECK(message->reason == PrintableReason(bytes),
           "a reason that is not the bytes', or cannot be printed");
  const absl::StatusOr<ShareMessage> again =
      ParseShareMessage(EncodeShareMessage(*message));
  RM_CHECK(again.ok() && *again == *message,
           "a message about memory changes on its way");
  // All numbers are those of the bytes.
  const ShareMessageBytes encoded = EncodeShareMessage(*message);
  RM_CHECK(
      std::equal(encoded.begin() + 8, encoded.begin() + 32, bytes.begin() + 8),
      "a message about memory does not stand for its bytes");
  return true;
}

}  // namespace

bool TryWireInput(std::span<const std::byte> input) {
  if (input.empty()) return false;
  const std::span<const std::byte> rest = input.subspan(1);
  switch (static_cast<WireKind>(std::to_integer<int>(input[0]) % kWireKinds)) {
    case WireKind::kFrame:
      return TryFrame(rest);
    case WireKind::kFrames:
      return TryFrames(rest, FrameIntegrity::kNone);
    case WireKind::kCheckedFrames:
      return TryFrames(rest, FrameIntegrity::kCrc32c);
    case WireKind::kSealedFrames:
      return TryFrames(rest, FrameIntegrity::kAes256Gcm);
    case WireKind::kHandshake:
      return TryHandshake(rest);
    case WireKind::kAcceptor:
      return TryAcceptor(rest);
    case WireKind::kConnector:
      return TryConnector(rest);
    case WireKind::kShareMessage:
      return TryShareMessage(rest);
  }
  return false;
}

}  // namespace ringmaster::fuzz
