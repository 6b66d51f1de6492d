// TryWireInput gives the parsers of the data plane bytes as they may come from
// the network, and aborts where they do what they must not:
//   - a header, message or stream counts as good exactly where its bytes are the
//     expected ones, which is found out from the bytes alone;
//   - a header or payload that does not fit its checksum or tag is damage, and no
//     other is;
//   - what was parsed stands for the bytes that it was parsed from;
//   - a frame's payload is placed in its own buffer, and unless that is scratch
//     only once its header is the expected one; nothing is read beyond a header
//     that is not;
//   - a handshake is complete only with a peer that knows the secret, for the
//     very connection that it says.
// Sanitizers see the rest. Pure: no sockets, clocks or threads.
#ifndef RINGMASTER_TESTS_FUZZ_WIRE_TARGET_H_
#define RINGMASTER_TESTS_FUZZ_WIRE_TARGET_H_

#include <cstddef>
#include <span>

namespace ringmaster::fuzz {

// Whether all of `input` (wire_input.h) was good; not if it is too short.
bool TryWireInput(std::span<const std::byte> input);

}  // namespace ringmaster::fuzz

#endif  // RINGMASTER_TESTS_FUZZ_WIRE_TARGET_H_
