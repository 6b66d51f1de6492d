// WireTotals: the bytes that this process has sent to and received from its
// peers so far, over channels of all kinds but loopback: payloads of whole
// frames, as they travelled.
//
// Thread-safe. A counter a direction, for the process: a process is one rank.
#ifndef RINGMASTER_COMMON_TRANSPORT_WIRE_TOTALS_H_
#define RINGMASTER_COMMON_TRANSPORT_WIRE_TOTALS_H_

#include <cstdint>

namespace ringmaster {

struct WireTotals {
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
};

[[nodiscard]] WireTotals WireTotalsSoFar();

// For channels, at the end of a frame.
void CountSent(int64_t payload_bytes);
void CountReceived(int64_t payload_bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_WIRE_TOTALS_H_
