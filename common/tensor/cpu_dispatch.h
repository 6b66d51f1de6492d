// CallOnCpu runs a kernel in the widest vectors that this processor has, from
// one source.
//
// The kernel is an ordinary loop, marked RM_KERNEL so that it is compiled again
// inside each caller. Only the width differs: AVX2 without fused multiply-add,
// so every element's result is the same on every processor. That needs
// -ffp-contract=off, and -O3 -fno-math-errno -fno-trapping-math (which change
// no result) to vectorize: kernel targets take their copts from KERNEL_COPTS in
// kernel_copts.bzl.
// Example:
//   RM_KERNEL void Scale(float* x, int64_t n, float by) {
//     for (int64_t i = 0; i < n; ++i) x[i] *= by;
//   }
//   CallOnCpu<Scale>(x, n, 2.0f);
#ifndef RINGMASTER_COMMON_TENSOR_CPU_DISPATCH_H_
#define RINGMASTER_COMMON_TENSOR_CPU_DISPATCH_H_

#define RM_KERNEL [[gnu::always_inline]] static inline

namespace ringmaster {

#if defined(__x86_64__)
namespace cpu_dispatch_internal {

template <auto kKernel, typename... Args>
[[gnu::target("avx2")]] [[gnu::noinline]] auto CallAvx2(Args... args) {
  return kKernel(args...);
}

}  // namespace cpu_dispatch_internal
#endif

template <auto kKernel, typename... Args>
auto CallOnCpu(Args... args) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2)
    return cpu_dispatch_internal::CallAvx2<kKernel, Args...>(args...);
#endif
  return kKernel(args...);
}

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TENSOR_CPU_DISPATCH_H_
