// The input of the data plane's fuzz target: what each byte of it
// stands for, valid inputs, and changes to them.
//
// An input is a byte for its WireKind (modulo their number), then
//   kFrame             expectation (4 bytes), header (64)
//   kFrames            number of frames - 1 (1 byte, modulo 3), an expectation
//                      for each, sizes of the first 8 reads, over and over
//                      (8 bytes; 255: all there is), then the stream
//   kCheckedFrames     the same, where frames carry checksums
//   kSealedFrames      the same, where they are encrypted under SealedKey()
//   kHandshake         message (80)
//   kAcceptor          what a connector sends: messages (80 each)
//   kConnector         what an acceptor sends
//   kShareMessage      message (128)
// An expectation is 1 byte of flags (1: the payload's place is scratch), 1 that
// all fields of the expected header follow from, and 2 for the payload's size
// (little endian, modulo kMaxPayloadBytes + 1).
#ifndef RINGMASTER_TESTS_FUZZ_WIRE_INPUT_H_
#define RINGMASTER_TESTS_FUZZ_WIRE_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/transport/frame.h"
#include "common/transport/frame_cipher.h"
#include "common/transport/handshake.h"
#include "tests/simulator/random.h"

namespace ringmaster::fuzz {

using simulator::Random;
using Bytes = std::vector<std::byte>;

enum class WireKind : uint8_t {
  kFrame,
  kFrames,
  kHandshake,
  kAcceptor,
  kConnector,
  kShareMessage,
  kCheckedFrames,
  kSealedFrames
};
inline constexpr int kWireKinds = 8;

inline constexpr size_t kMaxFrames = 3;
inline constexpr size_t kExpectationBytes = 4;
inline constexpr size_t kChunks = 8;
inline constexpr uint32_t kMaxPayloadBytes = 1500;

// The header that an expectation stands for.
[[nodiscard]] FrameHeader ExpectedHeader(uint8_t fields,
                                         uint32_t payload_bytes);

// The key that frames are sealed with here.
[[nodiscard]] FrameKey SealedKey();

// The only connection that an honest peer makes here, and its secret.
inline constexpr LinkIdentity kLink = {.job = 0x0123456789abcdef,
                                       .generation = 7,
                                       .from_rank = 2,
                                       .to_rank = 5,
                                       .role = LinkRole::kCollective,
                                       .transport = Transport::kUnix};
inline constexpr std::string_view kSecret = "a secret of 24 bytes....";
[[nodiscard]] Nonce ConnectorNonce();
[[nodiscard]] Nonce AcceptorNonce();
// The bytes that its honest sides send.
[[nodiscard]] HandshakeMessage HonestMessage(HandshakeType type);

// An input of `kind` that everything accepts.
[[nodiscard]] Bytes ValidInput(WireKind kind, Random& random);

// Changes `input` at one place: a bit, a byte, a number at a border, bytes
// removed, added or moved.
void Mutate(Bytes& input, Random& random);

// Input `index` of `seed`: a valid one with up to four changes. Equal everywhere
// and always.
[[nodiscard]] Bytes InputOf(uint64_t seed, uint64_t index);

}  // namespace ringmaster::fuzz

#endif  // RINGMASTER_TESTS_FUZZ_WIRE_INPUT_H_
