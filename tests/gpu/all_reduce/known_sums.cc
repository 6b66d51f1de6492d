#include "tests/gpu/all_reduce/known_sums.h"

#include <cmath>
#include <vector>

namespace ringmaster {
namespace {

// Sums among other than powers of two round, each by less than 1e-7.
constexpr double kTolerance = 1e-5;

}  // namespace

float KnownValue(int rank, int64_t i) {
  return static_cast<float>((rank + 1) * (i % kKnownPeriod + 1));
}

double KnownSum(int ranks, int times, int64_t i) {
  const double once =
      static_cast<double>(i % kKnownPeriod + 1) * ranks * (ranks + 1) / 2;
  return once * std::pow(ranks, times - 1);
}

std::optional<int64_t> FirstWrongSum(std::span<const float> values, int ranks,
                                     int times) {
  std::vector<double> wanted;
  for (int64_t i = 0; i < kKnownPeriod; ++i) {
    wanted.push_back(KnownSum(ranks, times, i));
  }
  size_t place = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    // Also not so for NaN.
    if (!(std::abs(values[i] - wanted[place]) <= kTolerance * wanted[place])) {
      return static_cast<int64_t>(i);
    }
    if (++place == wanted.size()) place = 0;
  }
  return std::nullopt;
}

}  // namespace ringmaster
