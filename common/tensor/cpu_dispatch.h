// CallOnCpu and CallOnCpuFma run a kernel in the widest vectors that this
// processor has, from one source.
//
// The kernel is an ordinary loop, marked RM_KERNEL so that it is compiled again
// inside each caller: for AVX-512 (with 512-bit vectors), for AVX2, and for
// the baseline that the rest of the program is compiled for.
//
// CallOnCpu: only the width differs. No variant fuses a multiplication and an
// addition into one rounding, so every element's result is the same on every
// processor: use it where ranks must agree to the bit (sums of gradients, the
// optimizer). Its targets take copts = KERNEL_COPTS: -ffp-contract=off, and
// -O3 -fno-math-errno -fno-trapping-math, which change no result, to vectorize.
//
// CallOnCpuFma: the AVX2 and AVX-512 variants do fuse, about twice as fast
// where arithmetic is the limit. Results differ in the last bits between
// variants, but not between calls: use it for activations and their gradients.
// Its targets take copts = FMA_KERNEL_COPTS, the same with -ffp-contract=fast.
// Since the compiler fuses by target, not by function, each of the two calls
// exists only under its own options.
//
// The environment variable RINGMASTER_MAX_CPU_ISA, read once, caps what both
// use: "avx512", "avx2" or "baseline".
// Example:
//   RM_KERNEL void Scale(float* x, int64_t n, float by) {
//     for (int64_t i = 0; i < n; ++i) x[i] *= by;
//   }
//   CallOnCpu<Scale>(x, n, 2.0f);
#ifndef RINGMASTER_COMMON_TENSOR_CPU_DISPATCH_H_
#define RINGMASTER_COMMON_TENSOR_CPU_DISPATCH_H_

#include <optional>
#include <string_view>

#define RM_KERNEL [[gnu::always_inline]] static inline

namespace ringmaster {

// Each one includes those before it.
enum class CpuIsa {
  kBaseline,
  kAvx2,    // AVX2 and FMA
  kAvx512,  // AVX-512 F, BW, DQ, VL
};

// "baseline", "avx2", "avx512".
std::string_view CpuIsaName(CpuIsa isa);
// The inverse; nothing for any other text.
std::optional<CpuIsa> CpuIsaNamed(std::string_view name);

// Returns the ISA that this processor and its operating system have.
CpuIsa ProcessorIsa();
// Returns the ISA that kernels use now: ProcessorIsa() under the caps.
CpuIsa CurrentIsa();

// Caps CurrentIsa() while it lives, so that a test can compare the variants of
// a function. Not while another thread runs kernels.
class ScopedIsaCap {
 public:
  explicit ScopedIsaCap(CpuIsa cap);
  ~ScopedIsaCap();
  ScopedIsaCap(const ScopedIsaCap&) = delete;
  ScopedIsaCap& operator=(const ScopedIsaCap&) = delete;

 private:
  CpuIsa before_;
};

#if defined(__x86_64__)
// GCC has to be told to use vectors as wide as it may; clang does so anyway.
#if defined(__clang__)
#define RM_AVX512_TARGET "avx512f,avx512bw,avx512dq,avx512vl"
#else
#define RM_AVX512_TARGET \
  "avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"
#endif
// Without "fma" no option can make the compiler fuse; AVX-512 itself has fused
// instructions, so there the options alone decide.
#if defined(RINGMASTER_FMA_KERNELS)
#define RM_AVX2_TARGET "avx2,fma"
#else
#define RM_AVX2_TARGET "avx2"
#endif

namespace cpu_dispatch_internal {

template <auto kKernel, typename... Args>
[[gnu::target(RM_AVX512_TARGET)]] [[gnu::noinline]] auto CallAvx512(
    Args... args) {
  return kKernel(args...);
}

template <auto kKernel, typename... Args>
[[gnu::target(RM_AVX2_TARGET)]] [[gnu::noinline]] auto CallAvx2(Args... args) {
  return kKernel(args...);
}

}  // namespace cpu_dispatch_internal

#undef RM_AVX512_TARGET
#undef RM_AVX2_TARGET
#endif

#if defined(RINGMASTER_FMA_KERNELS)
template <auto kKernel, typename... Args>
auto CallOnCpuFma(Args... args) {
#else
template <auto kKernel, typename... Args>
auto CallOnCpu(Args... args) {
#endif
#if defined(__x86_64__)
  switch (CurrentIsa()) {
    case CpuIsa::kAvx512:
      return cpu_dispatch_internal::CallAvx512<kKernel, Args...>(args...);
    case CpuIsa::kAvx2:
      return cpu_dispatch_internal::CallAvx2<kKernel, Args...>(args...);
    case CpuIsa::kBaseline:
      break;
  }
#endif
  return kKernel(args...);
}

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TENSOR_CPU_DISPATCH_H_
