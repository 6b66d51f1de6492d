// The words of CUDA's device code for a C++ compiler, on top of block.h. For
// kernel.cuh only.
//
// Shuffles and votes take the full mask only. Fast-math intrinsics are the
// plain functions, so they are more exact than a GPU's.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_KERNEL_BUILTINS_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_KERNEL_BUILTINS_H_

#include <cuda_runtime.h>
#include <math.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "worker/device/cuda/emulator/block.h"

// cuda_runtime.h defines these as nothing for C++.
#define __launch_bounds__(...)
#undef __shared__
// Belongs to the block, that is, to the thread that runs all of a block. In a
// function it is static anyway.
#define __shared__ thread_local

// glibc reserves these names for itself.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, s, c) sincosf(x, s, c)

#define RINGMASTER_HERE \
  std::source_location where = std::source_location::current()

namespace ringmaster::cuda_emulator {

inline constexpr unsigned kFullMask = 0xFFFFFFFFu;

inline void CheckMask(unsigned mask, const std::source_location& where) {
  if (mask != kFullMask) [[unlikely]] {
    RefuseInKernel("a warp's exchange whose mask is not that of all 32 threads",
                   where);
  }
}

template <typename T>
uint64_t ToBits(const T& value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

// The calling thread's lane within its section of `width` lanes.
inline int LaneIn(int width) { return Lane() & (width - 1); }

// Returns the value of lane `from` of the caller's section, or the caller's own
// if that lane is outside the section.
template <typename T>
T Shuffle(unsigned mask, T value, int from, int width,
          const std::source_location& where) {
  CheckMask(mask, where);
  if (width <= 0 || width > kWarpThreads || (width & (width - 1)) != 0) {
    RefuseInKernel("a shuffle whose width is no power of two up to 32", where);
  }
  const uint64_t* const values = WarpExchange(ToBits(value), where);
  if (from < 0 || from >= width) return value;
  T result = value;
  std::memcpy(&result, &values[Lane() - LaneIn(width) + from], sizeof(T));
  return result;
}

inline unsigned Ballot(unsigned mask, bool predicate,
                       const std::source_location& where) {
  CheckMask(mask, where);
  const uint64_t* const values = WarpExchange(predicate ? 1 : 0, where);
  unsigned votes = 0;
  for (int i = 0; i < kWarpThreads; ++i) {
    votes |= static_cast<unsigned>(values[i]) << i;
  }
  return votes;
}

}  // namespace ringmaster::cuda_emulator

// --- Barriers ---------------------------------------------------------------

inline void __syncthreads(RINGMASTER_HERE) {
  ringmaster::cuda_emulator::Barrier(false, where);
}
inline int __syncthreads_count(int predicate, RINGMASTER_HERE) {
  return ringmaster::cuda_emulator::Barrier(predicate != 0, where);
}
inline int __syncthreads_or(int predicate, RINGMASTER_HERE) {
  return ringmaster::cuda_emulator::Barrier(predicate != 0, where) != 0;
}
inline int __syncthreads_and(int predicate, RINGMASTER_HERE) {
  return ringmaster::cuda_emulator::Barrier(predicate == 0, where) == 0;
}
inline void __syncwarp(unsigned mask = ringmaster::cuda_emulator::kFullMask,
                       RINGMASTER_HERE) {
  ringmaster::cuda_emulator::CheckMask(mask, where);
  ringmaster::cuda_emulator::WarpExchange(0, where);
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() {}
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// --- Warps ------------------------------------------------------------------

template <typename T>
T __shfl_sync(unsigned mask, T value, int source_lane,
              int width = ringmaster::cuda_emulator::kWarpThreads,
              RINGMASTER_HERE) {
  return ringmaster::cuda_emulator::Shuffle(
      mask, value, source_lane & (width - 1), width, where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask,
                  int width = ringmaster::cuda_emulator::kWarpThreads,
                  RINGMASTER_HERE) {
  return ringmaster::cuda_emulator::Shuffle(
      mask, value, ringmaster::cuda_emulator::LaneIn(width) ^ lane_mask, width,
      where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta,
                   int width = ringmaster::cuda_emulator::kWarpThreads,
                   RINGMASTER_HERE) {
  return ringmaster::cuda_emulator::Shuffle(
      mask, value,
      ringmaster::cuda_emulator::LaneIn(width) + static_cast<int>(delta), width,
      where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta,
                 int width = ringmaster::cuda_emulator::kWarpThreads,
                 RINGMASTER_HERE) {
  return ringmaster::cuda_emulator::Shuffle(
      mask, value,
      ringmaster::cuda_emulator::LaneIn(width) - static_cast<int>(delta), width,
      where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, RINGMASTER_HERE) {
  return ringmaster::cuda_emulator::Ballot(mask, predicate != 0, where);
}
inline int __any_sync(unsigned mask, int predicate, RINGMASTER_HERE) {
  return ringmaster::cuda_emulator::Ballot(mask, predicate != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, RINGMASTER_HERE) {
  return ringmaster::cuda_emulator::Ballot(mask, predicate != 0, where) ==
         ringmaster::cuda_emulator::kFullMask;
}

// --- Memory -----------------------------------------------------------------

// Streams run beside each other, so these are really atomic.
inline int atomicAdd(int* address, int value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
inline unsigned long long atomicAdd(unsigned long long* address,
                                    unsigned long long value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcg(const T* address) {
  return *address;
}
template <typename T>
T __ldca(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
T __ldlu(const T* address) {
  return *address;
}
template <typename T>
T __ldcv(const T* address) {
  return *address;
}
template <typename T>
void __stwb(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <typename T>
void __stcg(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <typename T>
void __stcs(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <typename T>
void __stwt(T* address, std::type_identity_t<T> value) {
  *address = value;
}

// --- Numbers ----------------------------------------------------------------

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __fdividef(float x, float y) { return x / y; }
inline float fdividef(float x, float y) { return x / y; }
// NaN becomes 0, as on a GPU.
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
// The lowest set bit's position from 1; 0 if there is none.
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __mulhi(int x, int y) {
  return static_cast<int>((static_cast<int64_t>(x) * y) >> 32);
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<uint64_t>(x) * y) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long x,
                                     unsigned long long y) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(x) * y) >> 64);
}

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return std::bit_cast<double>(x);
}
inline int __float2int_rn(float x) { return static_cast<int>(rintf(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

#define RINGMASTER_MIN_MAX(T)                      \
  inline T min(T x, T y) { return y < x ? y : x; } \
  inline T max(T x, T y) { return x < y ? y : x; }
RINGMASTER_MIN_MAX(int)
RINGMASTER_MIN_MAX(unsigned)
RINGMASTER_MIN_MAX(long)
RINGMASTER_MIN_MAX(unsigned long)
RINGMASTER_MIN_MAX(long long)
RINGMASTER_MIN_MAX(unsigned long long)
#undef RINGMASTER_MIN_MAX
// For a number and NaN the result is the number, as on a GPU.
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }

#undef RINGMASTER_HERE

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_EMULATOR_KERNEL_BUILTINS_H_
