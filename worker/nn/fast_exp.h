// FastExp is exp(x) in a form that compilers vectorize: no branch, no table, no
// call.
//
// float: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for exp(r) (its
// Taylor series to r^7, whose error there is below 2^-27), and 2^n put into the
// exponent bits. Relative error below 3e-7. Arguments outside [-60, 60] give
// the value at the nearer end (1e-26, 1e26): far from denormal numbers, which
// cost processors a hundred times as much, even after a few multiplications.
// NaN stays NaN.
//
// double: std::exp, since double is for checks.
//
// Thread-safety: pure. Compile with KERNEL_COPTS.
#ifndef RINGMASTER_WORKER_NN_FAST_EXP_H_
#define RINGMASTER_WORKER_NN_FAST_EXP_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/tensor/cpu_dispatch.h"

namespace ringmaster {

RM_KERNEL float FastExp(float x) {
  // Adding 1.5 * 2^23 rounds to the nearest integer, and leaves that integer in
  // the low bits.
  constexpr float kRounder = 12582912.0f;
  constexpr float kLog2E = 1.44269504f;
  // ln 2 in two parts; the first has few bits, so that n times it is exact.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  x = x < -60.0f ? -60.0f : x;
  x = x > 60.0f ? 60.0f : x;
  const float shifted = x * kLog2E + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // 2^n; unsigned, because the bits of a NaN may overflow.
  const uint32_t exponent =
      std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRounder);
  return p * std::bit_cast<float>((exponent + 127u) << 23);
}

RM_KERNEL double FastExp(double x) { return std::exp(x); }

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_FAST_EXP_H_
