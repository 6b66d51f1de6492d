#include "common/tensor/cpu_dispatch.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace ringmaster {
namespace {

constexpr char kCapVariable[] = "RINGMASTER_MAX_CPU_ISA";

// Returns the widest ISA that the environment allows. An unknown text caps
// nothing: the variable is a tool for measuring and must not stop a job.
CpuIsa EnvironmentCap() {
  const char* text = std::getenv(kCapVariable);
  if (text == nullptr) return CpuIsa::kAvx512;
  const std::optional<CpuIsa> cap = CpuIsaNamed(text);
  if (!cap) {
    std::fprintf(stderr,
                 "%s is \"%s\" and has no effect; known are baseline, avx2 "
                 "and avx512\n",
                 kCapVariable, text);
  }
  return cap.value_or(CpuIsa::kAvx512);
}

std::atomic<CpuIsa>& Current() {
  static std::atomic<CpuIsa> current =
      std::min(ProcessorIsa(), EnvironmentCap());
  return current;
}

}  // namespace

std::string_view CpuIsaName(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kBaseline:
      break;
  }
  return "baseline";
}

std::optional<CpuIsa> CpuIsaNamed(std::string_view name) {
  for (CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (CpuIsaName(isa) == name) return isa;
  }
  return std::nullopt;
}

CpuIsa ProcessorIsa() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return CpuIsa::kBaseline;
  const bool has_avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx512 ? CpuIsa::kAvx512 : CpuIsa::kAvx2;
#else
  return CpuIsa::kBaseline;
#endif
}

CpuIsa CurrentIsa() { return Current().load(std::memory_order_relaxed); }

ScopedIsaCap::ScopedIsaCap(CpuIsa cap) : before_(CurrentIsa()) {
  Current().store(std::min(before_, cap), std::memory_order_relaxed);
}

ScopedIsaCap::~ScopedIsaCap() {
  Current().store(before_, std::memory_order_relaxed);
}

}  // namespace ringmaster
