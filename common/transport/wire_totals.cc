#include "common/transport/wire_totals.h"

#include <atomic>

namespace ringmaster {
namespace {

// Sender and receiver may be different threads.
alignas(64) constinit std::atomic<int64_t> sent_bytes{0};
alignas(64) constinit std::atomic<int64_t> received_bytes{0};

}  // namespace

WireTotals WireTotalsSoFar() {
  return {sent_bytes.load(std::memory_order_relaxed),
          received_bytes.load(std::memory_order_relaxed)};
}

void CountSent(int64_t payload_bytes) {
  sent_bytes.fetch_add(payload_bytes, std::memory_order_relaxed);
}

void CountReceived(int64_t payload_bytes) {
  received_bytes.fetch_add(payload_bytes, std::memory_order_relaxed);
}

}  // namespace ringmaster
