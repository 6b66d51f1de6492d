// Random numbers as a pure function of a key and a counter: the same on every
// rank, in any order, without state.
//
// CounterRandom is two rounds of the finalizer of SplitMix64 (Steele, Lea,
// Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014). Good
// for data and initial values, not for secrets.
// Thread-safety: pure.
#ifndef RINGMASTER_COMMON_PLAN_COUNTER_RANDOM_H_
#define RINGMASTER_COMMON_PLAN_COUNTER_RANDOM_H_

#include <cstdint>

namespace ringmaster {

// A bijection of 64 bits, in which every input bit moves about half of the
// output bits.
constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// 64 uniform bits for (key, counter).
constexpr uint64_t CounterRandom(uint64_t key, uint64_t counter) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  return MixBits(MixBits(key + kGolden) + (counter + 1) * kGolden);
}

// A double in [0, 1), from the upper 53 of `bits`.
constexpr double UnitInterval(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PLAN_COUNTER_RANDOM_H_
