#include "tests/fuzz/wire_input.h"

#include <algorithm>
#include <array>
#include <span>

#include "common/transport/little_endian.h"
#include "common/transport/share_message.h"
#include "common/transport/shared_layout.h"

namespace ringmaster::fuzz {
namespace {

constexpr int kMaxMutations = 4;

void Append(Bytes& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

void AppendRandom(Bytes& bytes, size_t count, Random& random) {
  for (size_t i = 0; i < count; ++i)
    bytes.push_back(static_cast<std::byte>(random.Next()));
}

// Appends an expectation and returns its header.
FrameHeader AppendExpectation(Bytes& bytes, Random& random) {
  const auto fields = static_cast<uint8_t>(random.Next());
  const auto payload_bytes = static_cast<uint16_t>(
      random.Chance(20) ? 0 : random.Between(1, kMaxPayloadBytes));
  bytes.push_back(static_cast<std::byte>(random.Chance(50)));
  bytes.push_back(static_cast<std::byte>(fields));
  bytes.resize(bytes.size() + sizeof payload_bytes);
  StoreLittleEndian(payload_bytes,
                    bytes.data() + bytes.size() - sizeof payload_bytes);
  return ExpectedHeader(fields, payload_bytes);
}

// `cipher` has sealed the frames before it; only sealed frames use it.
void AppendFrame(Bytes& bytes, FrameHeader header, FrameIntegrity integrity,
                 FrameCipher& cipher, Random& random) {
  Bytes payload;
  AppendRandom(payload, header.payload_bytes, random);
  header.integrity = integrity;
  const FrameHeaderBytes encoded = EncodeFrameHeader(header);
  Append(bytes, encoded);
  if (integrity == FrameIntegrity::kAes256Gcm) {
    Append(bytes, cipher.SealHeader(encoded));
    if (payload.empty()) return;
    cipher.BeginPayload();
    cipher.Pass(payload, payload.data());
    Append(bytes, payload);
    Append(bytes, cipher.EndSeal());
    return;
  }
  if (integrity == FrameIntegrity::kCrc32c)
    Append(bytes, FrameChecksums(encoded, payload));
  Append(bytes, payload);
}

void AppendFrames(Bytes& bytes, FrameIntegrity integrity, Random& random) {
  const auto count = static_cast<size_t>(random.Between(1, kMaxFrames));
  bytes.push_back(static_cast<std::byte>(count - 1));
  std::vector<FrameHeader> headers;
  for (size_t i = 0; i < count; ++i)
    headers.push_back(AppendExpectation(bytes, random));
  for (size_t i = 0; i < kChunks; ++i) {
    bytes.push_back(
        static_cast<std::byte>(random.Chance(30) ? 255 : random.Next()));
  }
  FrameCipher cipher(CipherSide::kSeal, SealedKey());
  for (const FrameHeader& header : headers)
    AppendFrame(bytes, header, integrity, cipher, random);
}

HandshakeMessage RandomMessage(Random& random) {
  HandshakeMessage message;
  message.type = static_cast<HandshakeType>(random.Between(1, 5));
  message.reason = static_cast<RefusalReason>(random.Between(0, 7));
  message.role = static_cast<LinkRole>(random.Between(1, 5));
  message.transport = random.Chance(50) ? Transport::kTcp : Transport::kUnix;
  message.stripe = static_cast<uint8_t>(random.Between(0, 15));
  message.job = random.Next();
  message.generation = random.Next();
  message.from_rank = static_cast<uint32_t>(random.Next());
  message.to_rank = static_cast<uint32_t>(random.Next());
  for (std::byte& byte : message.proof)
    byte = static_cast<std::byte>(random.Next());
  return message;
}

ShareMessage RandomShareMessage(Random& random) {
  ShareMessage message;
  message.kind = random.Chance(50) ? ShareMessage::Kind::kOffer
                                   : ShareMessage::Kind::kAnswer;
  message.is_yes = random.Chance(50);
  if (message.is_yes) {
    message.slots.count = static_cast<uint32_t>(random.Between(1, kMaxSlots));
    message.slots.payload_bytes = static_cast<uint32_t>(
        64 * random.Between(1, kMaxFramePayloadBytes / 64));
    message.segment_bytes = SegmentBytes(message.slots);
    message.arena_bytes = random.Chance(50) ? random.Next() : 0;
  } else {
    const auto size =
        static_cast<size_t>(random.Between(0, kMaxShareReasonBytes));
    for (size_t i = 0; i < size; ++i)
      message.reason += static_cast<char>(random.Between(' ', '~'));
  }
  return message;
}

// Numbers at which some comparison changes its mind.
constexpr std::array<uint64_t, 12> kBorders = {0,
                                               1,
                                               0x7f,
                                               0xff,
                                               0xffff,
                                               0x7fffffff,
                                               0xffffffff,
                                               UINT64_MAX,
                                               kMaxFramePayloadBytes,
                                               kMaxFramePayloadBytes + 1,
                                               kFrameMagic,
                                               kShareMagic};

void Overwrite(Bytes& input, size_t at, Random& random) {
  std::array<std::byte, sizeof(uint64_t)> number;
  StoreLittleEndian(
      kBorders[static_cast<size_t>(random.Between(0, kBorders.size() - 1))],
      number.data());
  const size_t size =
      std::min(size_t{1} << random.Between(0, 3), input.size() - at);
  std::copy_n(number.begin(), size, input.begin() + static_cast<long>(at));
}

}  // namespace

FrameHeader ExpectedHeader(uint8_t fields, uint32_t payload_bytes) {
  Random random(fields);
  FrameHeader header;
  header.job = random.Next();
  header.generation = random.Next();
  header.sequence = random.Next();
  header.count = random.Next();
  header.offset = random.Next();
  header.source_rank = static_cast<uint32_t>(random.Next());
  header.step = static_cast<uint16_t>(random.Next());
  header.root = static_cast<uint16_t>(random.Next());
  header.payload_bytes = payload_bytes;
  header.op = static_cast<uint8_t>(random.Next());
  header.dtype = static_cast<uint8_t>(random.Next());
  header.wire = static_cast<uint8_t>(random.Next());
  header.reduction = static_cast<uint8_t>(random.Next());
  header.algorithm = static_cast<uint8_t>(random.Next());
  return header;
}

FrameKey SealedKey() {
  FrameKey key;
  key.fill(std::byte{0x33});
  return key;
}

Nonce ConnectorNonce() {
  Nonce nonce;
  nonce.fill(std::byte{0x11});
  return nonce;
}

Nonce AcceptorNonce() {
  Nonce nonce;
  nonce.fill(std::byte{0x22});
  return nonce;
}

HandshakeMessage HonestMessage(HandshakeType type) {
  HandshakeMessage message;
  message.type = type;
  message.role = kLink.role;
  message.transport = kLink.transport;
  message.job = kLink.job;
  message.generation = kLink.generation;
  message.from_rank = kLink.from_rank;
  message.to_rank = kLink.to_rank;
  const auto mac = [](HandshakeSide side) {
    return ComputeMac(kSecret, side, kLink, ConnectorNonce(), AcceptorNonce());
  };
  switch (type) {
    case HandshakeType::kHello:
      message.proof = ConnectorNonce();
      break;
    case HandshakeType::kChallenge:
      message.proof = AcceptorNonce();
      break;
    case HandshakeType::kProof:
      message.proof = mac(HandshakeSide::kConnector);
      break;
    case HandshakeType::kAccept:
      message.proof = mac(HandshakeSide::kAcceptor);
      break;
    case HandshakeType::kRefuse:
      break;
  }
  return message;
}

Bytes ValidInput(WireKind kind, Random& random) {
  Bytes bytes = {static_cast<std::byte>(kind)};
  switch (kind) {
    case WireKind::kFrame: {
      const FrameHeader header = AppendExpectation(bytes, random);
      Append(bytes, EncodeFrameHeader(header));
      break;
    }
    case WireKind::kFrames:
      AppendFrames(bytes, FrameIntegrity::kNone, random);
      break;
    case WireKind::kCheckedFrames:
      AppendFrames(bytes, FrameIntegrity::kCrc32c, random);
      break;
    case WireKind::kSealedFrames:
      AppendFrames(bytes, FrameIntegrity::kAes256Gcm, random);
      break;
    case WireKind::kHandshake:
      Append(bytes, EncodeHandshake(RandomMessage(random)));
      break;
    case WireKind::kAcceptor:
      Append(bytes, EncodeHandshake(HonestMessage(HandshakeType::kHello)));
      Append(bytes, EncodeHandshake(HonestMessage(HandshakeType::kProof)));
      break;
    case WireKind::kConnector:
      Append(bytes, EncodeHandshake(HonestMessage(HandshakeType::kChallenge)));
      Append(bytes, EncodeHandshake(HonestMessage(HandshakeType::kAccept)));
      break;
    case WireKind::kShareMessage:
      Append(bytes, EncodeShareMessage(RandomShareMessage(random)));
      break;
  }
  return bytes;
}

void Mutate(Bytes& input, Random& random) {
  if (input.empty()) {
    AppendRandom(input, 1, random);
    return;
  }
  const int64_t last = static_cast<int64_t>(input.size()) - 1;
  const int64_t at = random.Between(0, last);
  const int64_t length = std::min(random.Between(1, 16), last - at + 1);
  const auto place = input.begin() + at;
  switch (random.Between(0, 6)) {
    case 0:
    case 1:
      *place ^= std::byte{1} << random.Between(0, 7);
      break;
    case 2:
      *place = static_cast<std::byte>(random.Next());
      break;
    case 3:
      Overwrite(input, static_cast<size_t>(at), random);
      break;
    case 4:
      input.erase(place, place + length);
      break;
    case 5: {
      Bytes more;
      AppendRandom(more, static_cast<size_t>(length), random);
      input.insert(place, more.begin(), more.end());
      break;
    }
    default: {
      const Bytes moved(place, place + length);
      const int64_t to = random.Between(0, last - length + 1);
      std::copy(moved.begin(), moved.end(), input.begin() + to);
      break;
    }
  }
}

Bytes InputOf(uint64_t seed, uint64_t index) {
  Random random(simulator::Mix(seed) + index);
  Bytes input = ValidInput(
      static_cast<WireKind>(random.Between(0, kWireKinds - 1)), random);
  const int64_t mutations = random.Between(0, kMaxMutations);
  for (int64_t i = 0; i < mutations; ++i) Mutate(input, random);
  return input;
}

}  // namespace ringmaster::fuzz
