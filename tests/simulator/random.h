// Random: the simulator's only source of chance, splitmix64.
//
// Equal seeds give equal sequences on every machine, which the distributions of
// the standard library do not promise. Thread-compatible.
#ifndef RINGMASTER_TESTS_SIMULATOR_RANDOM_H_
#define RINGMASTER_TESTS_SIMULATOR_RANDOM_H_

#include <cstdint>

namespace ringmaster::simulator {

// splitmix64's finalizer: a bijection whose every output bit depends on every
// input bit.
constexpr uint64_t Mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(Mix(seed)) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    return Mix(state_);
  }
  // Uniform in [low, high]; requires low <= high. The bias is below 2^-32 for
  // the small ranges that are drawn here.
  int64_t Between(int64_t low, int64_t high) {
    const uint64_t span = static_cast<uint64_t>(high - low) + 1;
    return low + static_cast<int64_t>(Next() % span);
  }
  bool Chance(int percent) { return Between(0, 99) < percent; }
  // In [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_RANDOM_H_
