#include "common/reduction/reduction_kernels.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/reduction/float16.h"
#include "common/tensor/cpu_dispatch.h"
#include "common/tensor/float_bits.h"

namespace ringmaster {
namespace {

// A format says how an element is Stored, and as what Value it is computed
// with.

template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  RM_KERNEL T Widen(T stored) { return stored; }
  RM_KERNEL T Narrow(T value) { return value; }
};

struct BFloat16 {
  using Stored = uint16_t;
  using Value = float;
  RM_KERNEL float Widen(uint16_t stored) { return WidenBFloat16(stored); }
  RM_KERNEL uint16_t Narrow(float value) { return NarrowToBFloat16(value); }
};

// IEEE 754 binary16. Loops cannot convert it element by element at the speed of
// memory: it is widened to blocks of float32, and narrowed from them.
struct Float16 {
  using Stored = uint16_t;
  using Value = float;
};

// One NaN for all: which operand's NaN an instruction returns, and the sign of
// a new one, depend on the processor and on the order of the operands.
template <typename T>
constexpr T kNan = std::numeric_limits<T>::quiet_NaN();

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

struct Sum {
  // Any NaN, to be made the one by OneNanLoop: only operands that are not
  // finite have a sum that is a NaN.
  template <std::floating_point T>
  RM_KERNEL T Of(T a, T b) {
    return a + b;
  }
  // Unsigned, because sums of counters and hashes may wrap around.
  template <std::integral T>
  RM_KERNEL T Of(T a, T b) {
    return static_cast<T>(static_cast<BitsOf<T>>(a) +
                          static_cast<BitsOf<T>>(b));
  }
};

struct Max {
  template <std::floating_point T>
  RM_KERNEL T Of(T a, T b) {
    // Equal numbers have equal bits, except for zeros: there, the positive one.
    const T equal = std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) &
                                     std::bit_cast<BitsOf<T>>(b));
    const T equal_or_nan = a == b ? equal : kNan<T>;
    const T not_larger = b > a ? b : equal_or_nan;
    return a > b ? a : not_larger;
  }
  template <std::integral T>
  RM_KERNEL T Of(T a, T b) {
    return a > b ? a : b;
  }
};

struct Min {
  template <std::floating_point T>
  RM_KERNEL T Of(T a, T b) {
    // Equal numbers have equal bits, except for zeros: there, the negative one.
    const T equal = std::bit_cast<T>(std::bit_cast<BitsOf<T>>(a) |
                                     std::bit_cast<BitsOf<T>>(b));
    const T equal_or_nan = a == b ? equal : kNan<T>;
    const T not_smaller = b < a ? b : equal_or_nan;
    return a < b ? a : not_smaller;
  }
  template <std::integral T>
  RM_KERNEL T Of(T a, T b) {
    return a < b ? a : b;
  }
};

template <typename Format>
constexpr auto kBytesOf = static_cast<int64_t>(sizeof(typename Format::Stored));

// Elements are copied in and out because they need not be aligned; the copies
// become unaligned loads and stores.

template <typename Format>
RM_KERNEL typename Format::Value Load(const std::byte* array, int64_t i) {
  typename Format::Stored stored;
  std::memcpy(&stored, array + i * kBytesOf<Format>, sizeof(stored));
  return Format::Widen(stored);
}

template <typename Format>
RM_KERNEL void Store(std::byte* array, int64_t i,
                     typename Format::Value value) {
  const typename Format::Stored stored = Format::Narrow(value);
  std::memcpy(array + i * kBytesOf<Format>, &stored, sizeof(stored));
}

template <typename To, typename From>
RM_KERNEL void ConvertLoop(std::byte* __restrict to,
                           const std::byte* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) Store<To>(to, i, Load<From>(from, i));
}

template <typename Memory>
RM_KERNEL void OneNanLoop(std::byte* elements, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const auto value = Load<Memory>(elements, i);
    Store<Memory>(elements, i,
                  value == value ? value : kNan<typename Memory::Value>);
  }
}

// Zero for all that is finite: an infinity less itself is a NaN.
template <typename T>
RM_KERNEL BitsOf<T> NonFiniteBits(T value) {
  if constexpr (std::is_integral_v<T>) return 0;
  return std::bit_cast<BitsOf<T>>(value - value);
}

template <typename Memory, typename Other, typename Op>
RM_KERNEL NonFinite CombineLoop(std::byte* __restrict elements,
                                const std::byte* __restrict other,
                                int64_t count) {
  BitsOf<typename Memory::Value> in_elements = 0;
  BitsOf<typename Memory::Value> in_other = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto a = Load<Memory>(elements, i);
    const auto b = Load<Other>(other, i);
    in_elements |= NonFiniteBits(a);
    in_other |= NonFiniteBits(b);
    Store<Memory>(elements, i, Op::Of(a, b));
  }
  if constexpr (std::is_same_v<Op, Sum>) {
    if ((in_elements | in_other) != 0) OneNanLoop<Memory>(elements, count);
  }
  return {in_elements != 0, in_other != 0};
}

template <typename Memory, typename Wire>
RM_KERNEL void RoundLoop(std::byte* elements, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const auto value = Load<Memory>(elements, i);
    Store<Memory>(elements, i, Wire::Widen(Wire::Narrow(value)));
  }
}

// A product with the reciprocal would be rounded twice.
template <typename Memory>
RM_KERNEL void DivideLoop(std::byte* elements, int64_t count, int world_size) {
  const auto divisor = static_cast<typename Memory::Value>(world_size);
  for (int64_t i = 0; i < count; ++i)
    Store<Memory>(elements, i, Load<Memory>(elements, i) / divisor);
}

template <typename Memory>
RM_KERNEL void ScaleLoop(std::byte* elements, int64_t count,
                         typename Memory::Value factor) {
  for (int64_t i = 0; i < count; ++i)
    Store<Memory>(elements, i, Load<Memory>(elements, i) * factor);
}

// The rest are functions of whole arrays, and those of 16-bit elements of
// blocks that stay in the processor's nearest cache.

using Float32 = Plain<float>;
constexpr int64_t kBlock = 1024;
using Block = std::byte[kBlock * sizeof(float)];

// Calls visit(begin, count) for blocks that cover `count` elements.
template <typename Visit>
void ForEachBlock(int64_t count, Visit visit) {
  for (int64_t begin = 0; begin < count; begin += kBlock)
    visit(begin, std::min(kBlock, count - begin));
}

template <typename To, typename From>
void Convert(std::byte* to, const std::byte* from, int64_t count) {
  if constexpr (std::is_same_v<To, Float16>) {
    NarrowToFloat16(to, from, count);
  } else if constexpr (std::is_same_v<From, Float16>) {
    WidenFloat16(to, from, count);
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    NarrowToBFloat16(to, from, count);
  } else {
    CallOnCpu<ConvertLoop<To, From>>(to, from, count);
  }
}

template <typename Memory, typename Wire>
NonFinite Keep(std::byte* elements, const std::byte* wire, int64_t count) {
  Convert<Memory, Wire>(elements, wire, count);
  return {};
}

template <typename Memory, typename Other, typename Op>
NonFinite Combine(std::byte* elements, const std::byte* other, int64_t count) {
  constexpr bool kIsNarrow = kBytesOf<Memory> == 2;
  if constexpr (!kIsNarrow && !std::is_same_v<Other, Float16>) {
    return CallOnCpu<CombineLoop<Memory, Other, Op>>(elements, other, count);
  } else {
    NonFinite seen;
    ForEachBlock(count, [&](int64_t begin, int64_t block_count) {
      std::byte* const block = elements + begin * kBytesOf<Memory>;
      alignas(64) Block widened;
      Convert<Float32, Other>(widened, other + begin * kBytesOf<Other>,
                              block_count);
      if constexpr (kIsNarrow) {
        alignas(64) Block sums;
        Convert<Float32, Memory>(sums, block, block_count);
        seen |= Combine<Float32, Float32, Op>(sums, widened, block_count);
        Convert<Memory, Float32>(block, sums, block_count);
      } else {
        seen |= Combine<Float32, Float32, Op>(block, widened, block_count);
      }
    });
    return seen;
  }
}

// Rounds elements in memory to what the wire can carry.
template <typename Memory, typename Wire>
void Round(std::byte* elements, int64_t count, int /*world_size*/) {
  if constexpr (!std::is_same_v<Wire, Float16>) {
    CallOnCpu<RoundLoop<Memory, Wire>>(elements, count);
  } else {
    ForEachBlock(count, [&](int64_t begin, int64_t block_count) {
      alignas(64) Block narrowed;
      std::byte* const block = elements + begin * kBytesOf<Float32>;
      NarrowToFloat16(narrowed, block, block_count);
      WidenFloat16(block, narrowed, block_count);
    });
  }
}

template <typename Memory>
void Divide(std::byte* elements, int64_t count, int world_size) {
  if constexpr (!std::is_same_v<Memory, Float16>) {
    using Value = typename Memory::Value;
    if (std::has_single_bit(static_cast<unsigned>(world_size))) {
      // Its reciprocal is exact: the quotient's bits, in less time.
      CallOnCpu<ScaleLoop<Memory>>(elements, count,
                                   1 / static_cast<Value>(world_size));
    } else {
      CallOnCpu<DivideLoop<Memory>>(elements, count, world_size);
    }
  } else {
    ForEachBlock(count, [&](int64_t begin, int64_t block_count) {
      alignas(64) Block widened;
      std::byte* const block = elements + begin * kBytesOf<Float16>;
      WidenFloat16(widened, block, block_count);
      Divide<Float32>(widened, block_count, world_size);
      NarrowToFloat16(block, widened, block_count);
    });
  }
}

template <typename Memory, typename Wire>
void DivideAndRound(std::byte* elements, int64_t count, int world_size) {
  ForEachBlock(count, [&](int64_t begin, int64_t block_count) {
    std::byte* const block = elements + begin * kBytesOf<Memory>;
    Divide<Memory>(block, block_count, world_size);
    Round<Memory, Wire>(block, block_count, world_size);
  });
}

template <typename Memory, typename Wire, typename Op>
ReductionKernels KernelsOf(bool divide) {
  ReductionKernels kernels;
  kernels.reduce = Combine<Memory, Wire, Op>;
  kernels.combine = Combine<Memory, Memory, Op>;
  if constexpr (!std::is_same_v<Memory, Wire>) {
    kernels.encode = Convert<Wire, Memory>;
    kernels.keep = Keep<Memory, Wire>;
    kernels.finish =
        divide ? DivideAndRound<Memory, Wire> : Round<Memory, Wire>;
  } else if constexpr (std::is_floating_point_v<typename Memory::Value>) {
    if (divide) kernels.finish = Divide<Memory>;
  }
  kernels.element_bytes = kBytesOf<Memory>;
  kernels.wire_bytes = kBytesOf<Wire>;
  return kernels;
}

template <typename Memory, typename Wire = Memory>
absl::StatusOr<ReductionKernels> KernelsOf(DType dtype, Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return KernelsOf<Memory, Wire, Sum>(/*divide=*/false);
    case Reduction::kMax:
      return KernelsOf<Memory, Wire, Max>(/*divide=*/false);
    case Reduction::kMin:
      return KernelsOf<Memory, Wire, Min>(/*divide=*/false);
    case Reduction::kAverage:
      if (std::is_integral_v<typename Memory::Value>) {
        return absl::InvalidArgumentError(absl::StrCat(
            "a reduction to the average takes floating point, not ",
            std::string(DTypeName(dtype)),
            "; use the sum, and divide as the integers need"));
      }
      return KernelsOf<Memory, Wire, Sum>(/*divide=*/true);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no reduction ", static_cast<int>(reduction),
                   "; expected sum, max, min or average"));
}

absl::StatusOr<ReductionKernels> KernelsOfPlainWire(DType dtype,
                                                    Reduction reduction) {
  switch (dtype) {
    case DType::kFloat32:
      return KernelsOf<Plain<float>>(dtype, reduction);
    case DType::kFloat64:
      return KernelsOf<Plain<double>>(dtype, reduction);
    case DType::kFloat16:
      return KernelsOf<Float16>(dtype, reduction);
    case DType::kBFloat16:
      return KernelsOf<BFloat16>(dtype, reduction);
    case DType::kInt32:
      return KernelsOf<Plain<int32_t>>(dtype, reduction);
    case DType::kInt64:
      return KernelsOf<Plain<int64_t>>(dtype, reduction);
    case DType::kUint8:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no reduction of ", std::string(DTypeName(dtype)),
      "; expected float32, float64, float16, bfloat16, int32 or int64"));
}

}  // namespace

absl::StatusOr<ReductionKernels> KernelsFor(DType dtype, DType wire,
                                            Reduction reduction) {
  if (wire == dtype) return KernelsOfPlainWire(dtype, reduction);
  if (dtype == DType::kFloat32 && wire == DType::kFloat16)
    return KernelsOf<Plain<float>, Float16>(dtype, reduction);
  if (dtype == DType::kFloat32 && wire == DType::kBFloat16)
    return KernelsOf<Plain<float>, BFloat16>(dtype, reduction);
  return absl::InvalidArgumentError(absl::StrCat(
      "a buffer of ", std::string(DTypeName(dtype)), " cannot travel as ",
      std::string(DTypeName(wire)),
      "; expected its own type, or float16 or bfloat16 for float32"));
}

}  // namespace ringmaster
