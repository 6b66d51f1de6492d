// LinkRate limits the rate at which this process sends to other hosts and
// receives from them: it emulates a slow network.
//
// All links of a process share it, as they would share a network card. Bytes
// that are not read stay in the sockets and so hold the senders back.
// Thread-safe; time is an argument.
#ifndef RINGMASTER_COMMON_TRANSPORT_LINK_RATE_H_
#define RINGMASTER_COMMON_TRANSPORT_LINK_RATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/clock/monotonic_time.h"

namespace ringmaster {

// Bytes a second, each way; see OfProcess.
inline constexpr const char* kLinkRateVariable = "RINGMASTER_LINK_RATE";

class LinkRate {
 public:
  enum Direction { kSend = 0, kReceive = 1 };

  // Requires a rate above 0.
  explicit LinkRate(double bytes_per_second);

  // Returns the rate that kLinkRateVariable sets, read at the first call; null
  // if it is not set, or is not a number above 0: then nothing is held back.
  static LinkRate* OfProcess();

  // Bytes that may pass at `now`; 0: none before FreeAt.
  [[nodiscard]] size_t Allowed(Direction direction, MonotonicTime now) const;
  // Notes that `bytes` have passed.
  void Pass(Direction direction, size_t bytes, MonotonicTime now);
  [[nodiscard]] MonotonicTime FreeAt(Direction direction) const;

 private:
  const double bytes_per_second_;
  const size_t at_once_;
  // Since MonotonicTime(), in nanoseconds.
  std::atomic<int64_t> free_at_[2] = {0, 0};
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TRANSPORT_LINK_RATE_H_
