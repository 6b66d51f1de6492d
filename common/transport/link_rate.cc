#include "common/transport/link_rate.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"

namespace ringmaster {
namespace {

// The amount that may pass at once, so that time is not spent on looking at the
// clock.
constexpr double kAtOnceSeconds = 250e-6;
constexpr double kLeastAtOnce = 8 << 10;
// A caller that comes late, as timers and schedulers do, makes up for at most
// this much.
constexpr int64_t kMakesUpNanos = 2'000'000;

int64_t NanosOf(MonotonicTime time) {
  return absl::ToInt64Nanoseconds(time - MonotonicTime());
}

std::unique_ptr<LinkRate> RateOfEnvironment() {
  const char* const text = std::getenv(kLinkRateVariable);
  double rate = 0;
  if (text == nullptr || !absl::SimpleAtod(text, &rate) || !(rate > 0))
    return nullptr;
  return std::make_unique<LinkRate>(rate);
}

}  // namespace

LinkRate::LinkRate(double bytes_per_second)
    : bytes_per_second_(bytes_per_second),
      at_once_(static_cast<size_t>(
          std::max(kLeastAtOnce, kAtOnceSeconds * bytes_per_second))) {}

LinkRate* LinkRate::OfProcess() {
  // Links may outlive static objects.
  static LinkRate* const rate = RateOfEnvironment().release();
  return rate;
}

size_t LinkRate::Allowed(Direction direction, MonotonicTime now) const {
  return now < FreeAt(direction) ? 0 : at_once_;
}

void LinkRate::Pass(Direction direction, size_t bytes, MonotonicTime now) {
  const auto length = static_cast<int64_t>(1e9 * static_cast<double>(bytes) /
                                           bytes_per_second_);
  const int64_t earliest = NanosOf(now) - kMakesUpNanos;
  int64_t free_at = free_at_[direction].load(std::memory_order_relaxed);
  while (!free_at_[direction].compare_exchange_weak(
      free_at, std::max(free_at, earliest) + length,
      std::memory_order_relaxed)) {
  }
}

MonotonicTime LinkRate::FreeAt(Direction direction) const {
  return MonotonicTime() +
         absl::Nanoseconds(free_at_[direction].load(std::memory_order_relaxed));
}

}  // namespace ringmaster
