#include "common/reduction/reduction_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "common/tensor/cpu_dispatch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr CpuIsa kIsas[] = {CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512};
constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kMax,
                                     Reduction::kMin, Reduction::kAverage};
constexpr int64_t kCounts[] = {0, 1, 7, 63, 64, 65, 1000, 2051};
constexpr std::byte kGuard{0xa5};

// The reference: an IEEE 754 format by the number of its bits, whose elements
// are patterns of bits, and whose numbers a double holds exactly.
struct Format {
  DType dtype;
  int exponent_bits;
  int fraction_bits;

  int bytes() const { return static_cast<int>(SizeOf(dtype)); }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t sign() const {
    return uint64_t{1} << (exponent_bits + fraction_bits);
  }
  uint64_t infinity() const {
    return ((uint64_t{1} << exponent_bits) - 1) << fraction_bits;
  }
  uint64_t quiet() const { return uint64_t{1} << (fraction_bits - 1); }
  uint64_t nan() const { return infinity() | quiet(); }
  bool IsNan(uint64_t bits) const { return (bits & ~sign()) > infinity(); }
};

double Finite(const Format& format, uint64_t magnitude) {
  const auto exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const uint64_t one = uint64_t{1} << format.fraction_bits;
  const uint64_t fraction = magnitude & (one - 1);
  const int scale = -format.bias() - format.fraction_bits;
  return exponent == 0 ? std::ldexp(static_cast<double>(fraction), 1 + scale)
                       : std::ldexp(static_cast<double>(one + fraction),
                                    exponent + scale);
}

double Number(const Format& format, uint64_t bits) {
  if (format.IsNan(bits)) return std::nan("");
  const uint64_t magnitude = bits & ~format.sign();
  const double positive = magnitude == format.infinity()
                              ? std::numeric_limits<double>::infinity()
                              : Finite(format, magnitude);
  return magnitude == bits ? positive : -positive;
}

uint64_t NearestMagnitude(const Format& format, double number) {
  if (number == 0) return 0;
  if (std::isinf(number)) return format.infinity();
  int exponent = std::max(std::ilogb(number), 1 - format.bias());
  double digits =
      std::nearbyint(std::ldexp(number, format.fraction_bits - exponent));
  const double one = std::ldexp(1.0, format.fraction_bits);
  if (digits == 2 * one) {
    digits = one;
    ++exponent;
  }
  if (exponent > format.bias()) return format.infinity();
  if (digits < one) return static_cast<uint64_t>(digits);
  const auto biased = static_cast<uint64_t>(exponent + format.bias());
  return (biased << format.fraction_bits) + static_cast<uint64_t>(digits - one);
}

// The nearest, and in the middle the even one.
uint64_t Nearest(const Format& format, double number) {
  if (std::isnan(number)) return format.nan();
  const uint64_t sign = std::signbit(number) ? format.sign() : 0;
  return sign | NearestMagnitude(format, std::fabs(number));
}

constexpr Format kFloat64 = {DType::kFloat64, 11, 52};
constexpr Format kFloat32 = {DType::kFloat32, 8, 23};
constexpr Format kFloat16 = {DType::kFloat16, 5, 10};
constexpr Format kBFloat16 = {DType::kBFloat16, 8, 7};

struct FormatPair {
  Format memory;
  Format wire;
};
constexpr FormatPair kFormatPairs[] = {
    {kFloat32, kFloat32}, {kFloat32, kFloat16}, {kFloat32, kBFloat16},
    {kFloat64, kFloat64}, {kFloat16, kFloat16}, {kBFloat16, kBFloat16}};

// A NaN keeps its sign and its upper bits, and becomes quiet.
uint64_t Converted(const Format& from, const Format& to, uint64_t bits) {
  if (!from.IsNan(bits)) return Nearest(to, Number(from, bits));
  const int wider = to.fraction_bits - from.fraction_bits;
  const uint64_t fraction = bits & ~(from.sign() | from.infinity());
  const uint64_t upper = wider >= 0 ? fraction << wider : fraction >> -wider;
  const uint64_t sign = (bits & from.sign()) != 0 ? to.sign() : 0;
  return sign | to.nan() | upper;
}

// A number is rounded to a float32 before it is rounded to 16 bits.
uint64_t Computed(const Format& memory, double number) {
  if (memory.dtype == DType::kFloat64) return Nearest(memory, number);
  return Nearest(memory, Number(kFloat32, Nearest(kFloat32, number)));
}

// The double that is the sum or the quotient of two float32, once more rounded,
// is what float32 gives: it has more than twice the digits.
uint64_t Combined(const FormatPair& pair, Reduction reduction, uint64_t element,
                  uint64_t other) {
  const double a = Number(pair.memory, element);
  const double b = Number(pair.wire, other);
  if (std::isnan(a) || std::isnan(b)) return pair.memory.nan();
  if (reduction == Reduction::kSum || reduction == Reduction::kAverage)
    return Computed(pair.memory, a + b);
  const bool a_is_larger = a > b || (a == b && !std::signbit(a));
  const bool takes_larger = reduction == Reduction::kMax;
  return Nearest(pair.memory, a_is_larger == takes_larger ? a : b);
}

uint64_t Finished(const FormatPair& pair, Reduction reduction, uint64_t element,
                  int world_size) {
  const Format& memory = pair.memory;
  uint64_t result = element;
  if (reduction == Reduction::kAverage) {
    result = memory.IsNan(element)
                 ? element | memory.quiet()
                 : Computed(memory, Number(memory, element) / world_size);
  }
  return Converted(pair.wire, memory, Converted(memory, pair.wire, result));
}

// Elements of any size at an address that is aligned to nothing, with a guard
// behind the last one.
class Elements {
 public:
  Elements(int bytes, int64_t count, int offset)
      : bytes_(bytes),
        count_(count),
        offset_(offset),
        memory_(static_cast<size_t>(offset + bytes * count + 1), kGuard) {}

  std::byte* at(int64_t i) { return memory_.data() + offset_ + bytes_ * i; }
  const std::byte* at(int64_t i) const {
    return memory_.data() + offset_ + bytes_ * i;
  }
  uint64_t Get(int64_t i) const {
    uint64_t bits = 0;
    std::memcpy(&bits, at(i), static_cast<size_t>(bytes_));
    return bits;
  }
  void Set(int64_t i, uint64_t bits) {
    std::memcpy(at(i), &bits, static_cast<size_t>(bytes_));
  }
  bool IsGuardIntact() const { return *at(count_) == kGuard; }

 private:
  int bytes_;
  int64_t count_;
  int offset_;
  std::vector<std::byte> memory_;
};

uint64_t SpecialBits(const Format& format, uint64_t random) {
  const uint64_t special[] = {
      0,
      1,                                    // the smallest subnormal number
      format.quiet(),                       // another subnormal number
      uint64_t{1} << format.fraction_bits,  // the smallest normal number
      format.infinity() - 1,                // the largest number
      format.infinity(),
      format.infinity() | 1,  // a signalling NaN
      format.nan(),
      format.nan() | 3,
      Nearest(format, 65504),  // the largest float16
      Nearest(format, 65520),  // the smallest that is an infinity in float16
      Nearest(format, 1),
      Nearest(format, 1 + 0x1p-11),  // between two float16
      Nearest(format, 1 + 0x1p-8),   // between two bfloat16
      Nearest(format, 3 * 0x1p-25),  // between two subnormal float16
  };
  return special[random % std::size(special)];
}

// A third each: special, any bits, numbers of one magnitude.
uint64_t RandomBits(const Format& format, std::mt19937_64& random) {
  const uint64_t sign = random() % 2 == 0 ? format.sign() : 0;
  switch (random() % 3) {
    case 0:
      return sign | SpecialBits(format, random());
    case 1:
      return sign | (random() & (format.sign() - 1));
    default:
      return sign |
             Nearest(format, 1 + static_cast<double>(random() % 4099) / 64);
  }
}

Elements RandomElements(const Format& format, int64_t count, int offset,
                        std::mt19937_64& random) {
  Elements elements(format.bytes(), count, offset);
  for (int64_t i = 0; i < count; ++i)
    elements.Set(i, RandomBits(format, random));
  return elements;
}

// Calls check(pair, count, offset, random) for every case there is, in every
// variant that this processor has.
template <typename Check>
void ForEachCase(Check check) {
  for (CpuIsa isa : kIsas) {
    const ScopedIsaCap cap(isa);
    SCOPED_TRACE(CpuIsaName(isa));
    for (const FormatPair& pair : kFormatPairs) {
      SCOPED_TRACE(DTypeName(pair.memory.dtype));
      SCOPED_TRACE(DTypeName(pair.wire.dtype));
      std::mt19937_64 random(7);
      for (int64_t count : kCounts) {
        for (int offset : {0, 1, 6}) check(pair, count, offset, random);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

ReductionKernels Kernels(const FormatPair& pair, Reduction reduction) {
  return KernelsFor(pair.memory.dtype, pair.wire.dtype, reduction).value();
}

void CheckConversions(const FormatPair& pair, int64_t count, int offset,
                      std::mt19937_64& random) {
  const ReductionKernels kernels = Kernels(pair, Reduction::kSum);
  const bool converts = pair.memory.dtype != pair.wire.dtype;
  ASSERT_EQ(kernels.encode != nullptr, converts);
  ASSERT_EQ(kernels.keep != nullptr, converts);
  if (!converts) return;
  const Elements elements = RandomElements(pair.memory, count, offset, random);
  Elements wire(pair.wire.bytes(), count, offset + 1);
  kernels.encode(wire.at(0), elements.at(0), count);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(wire.Get(i), Converted(pair.memory, pair.wire, elements.Get(i)))
        << elements.Get(i);
  }
  EXPECT_TRUE(wire.IsGuardIntact());
  Elements kept(pair.memory.bytes(), count, offset);
  kernels.keep(kept.at(0), wire.at(0), count);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(kept.Get(i), Converted(pair.wire, pair.memory, wire.Get(i)))
        << wire.Get(i);
  }
  EXPECT_TRUE(kept.IsGuardIntact());
}

TEST(ReductionKernelsTest, EncodeAndKeepConvertWhatTravelsInOtherBytes) {
  ForEachCase(CheckConversions);
}

void CheckCombination(DecodeFn combine, const FormatPair& pair,
                      Reduction reduction, int64_t count, int offset,
                      std::mt19937_64& random) {
  Elements elements = RandomElements(pair.memory, count, offset, random);
  const Elements before = elements;
  const Elements other = RandomElements(pair.wire, count, offset + 1, random);
  combine(elements.at(0), other.at(0), count);
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(elements.Get(i),
              Combined(pair, reduction, before.Get(i), other.Get(i)))
        << ReductionName(reduction) << " of " << before.Get(i) << " and "
        << other.Get(i);
  }
  EXPECT_TRUE(elements.IsGuardIntact());
}

TEST(ReductionKernelsTest, ReduceAndCombineHaveTheBitsOfTheReference) {
  ForEachCase([](const FormatPair& pair, int64_t count, int offset,
                 std::mt19937_64& random) {
    for (Reduction reduction : kReductions) {
      const ReductionKernels kernels = Kernels(pair, reduction);
      CheckCombination(kernels.reduce, pair, reduction, count, offset, random);
      CheckCombination(kernels.combine, {pair.memory, pair.memory}, reduction,
                       count, offset, random);
    }
  });
}

bool IsFinite(const Format& format, uint64_t bits) {
  return (bits & format.infinity()) != format.infinity();
}

Elements FiniteElements(const Format& format, int64_t count, int offset,
                        std::mt19937_64& random) {
  Elements elements = RandomElements(format, count, offset, random);
  for (int64_t i = 0; i < count; ++i) {
    if (!IsFinite(format, elements.Get(i))) elements.Set(i, 0);
  }
  return elements;
}

// None, one at any place, or each in turn.
void CheckWhatIsSeen(DecodeFn combine, const FormatPair& pair, int64_t count,
                     int offset, std::mt19937_64& random) {
  const Elements elements = FiniteElements(pair.memory, count, offset, random);
  const Elements other = FiniteElements(pair.wire, count, offset + 1, random);
  Elements result = elements;
  EXPECT_EQ(combine(result.at(0), other.at(0), count), NonFinite());
  if (count == 0) return;
  const auto place = static_cast<int64_t>(random() % count);
  for (const bool is_nan : {false, true}) {
    const auto planted = [&](const Format& format) {
      const uint64_t bits = is_nan ? format.nan() : format.infinity();
      return random() % 2 == 0 ? bits : bits | format.sign();
    };
    result = elements;
    result.Set(place, planted(pair.memory));
    Elements spoilt = other;
    EXPECT_EQ(combine(result.at(0), spoilt.at(0), count),
              (NonFinite{.in_elements = true, .in_wire = false}));
    result = elements;
    spoilt.Set(place, planted(pair.wire));
    EXPECT_EQ(combine(result.at(0), spoilt.at(0), count),
              (NonFinite{.in_elements = false, .in_wire = true}));
    result = elements;
    result.Set(count - 1, planted(pair.memory));
    EXPECT_EQ(combine(result.at(0), spoilt.at(0), count),
              (NonFinite{.in_elements = true, .in_wire = true}));
  }
}

TEST(ReductionKernelsTest, ReduceAndCombineSeeWhichOperandIsNotFinite) {
  ForEachCase([](const FormatPair& pair, int64_t count, int offset,
                 std::mt19937_64& random) {
    for (Reduction reduction : kReductions) {
      const ReductionKernels kernels = Kernels(pair, reduction);
      CheckWhatIsSeen(kernels.reduce, pair, count, offset, random);
      CheckWhatIsSeen(kernels.combine, {pair.memory, pair.memory}, count,
                      offset, random);
    }
  });
}

TEST(ReductionKernelsTest, EitherOrderOfTheOperandsHasTheSameBits) {
  ForEachCase([](const FormatPair& pair, int64_t count, int offset,
                 std::mt19937_64& random) {
    const Elements a = RandomElements(pair.memory, count, offset, random);
    const Elements b = RandomElements(pair.memory, count, offset + 1, random);
    for (Reduction reduction : kReductions) {
      const ReductionKernels kernels = Kernels(pair, reduction);
      Elements ab = a;
      Elements ba = b;
      kernels.combine(ab.at(0), b.at(0), count);
      kernels.combine(ba.at(0), a.at(0), count);
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(ab.Get(i), ba.Get(i));
    }
  });
}

void CheckFinish(const FormatPair& pair, Reduction reduction, int64_t count,
                 int offset, std::mt19937_64& random) {
  const ReductionKernels kernels = Kernels(pair, reduction);
  const bool has_work =
      reduction == Reduction::kAverage || pair.memory.dtype != pair.wire.dtype;
  ASSERT_EQ(kernels.finish != nullptr, has_work);
  if (!has_work) return;
  for (int world_size : {1, 2, 3, 49}) {
    Elements elements = RandomElements(pair.memory, count, offset, random);
    const Elements before = elements;
    kernels.finish(elements.at(0), count, world_size);
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(elements.Get(i),
                Finished(pair, reduction, before.Get(i), world_size))
          << before.Get(i) << " divided by " << world_size;
    }
    EXPECT_TRUE(elements.IsGuardIntact());
  }
}

TEST(ReductionKernelsTest, FinishDividesAndRoundsToWhatTheWireCarries) {
  ForEachCase([](const FormatPair& pair, int64_t count, int offset,
                 std::mt19937_64& random) {
    for (Reduction reduction : kReductions)
      CheckFinish(pair, reduction, count, offset, random);
  });
}

// The rank that finishes keeps what its peers will decode.
TEST(ReductionKernelsTest, AFinishedElementTravelsUnchanged) {
  constexpr int64_t kCount = 5000;
  for (const Format& format : {kFloat16, kBFloat16}) {
    for (Reduction reduction : kReductions) {
      const ReductionKernels kernels = Kernels({kFloat32, format}, reduction);
      std::mt19937_64 random(11);
      Elements elements = RandomElements(kFloat32, kCount, 0, random);
      kernels.finish(elements.at(0), kCount, 3);
      Elements wire(format.bytes(), kCount, 1);
      kernels.encode(wire.at(0), elements.at(0), kCount);
      Elements peers(kFloat32.bytes(), kCount, 0);
      kernels.keep(peers.at(0), wire.at(0), kCount);
      for (int64_t i = 0; i < kCount; ++i)
        ASSERT_EQ(peers.Get(i), elements.Get(i));
    }
  }
}

// Times the reciprocal of 3, the first would be 1.6666667.
TEST(ReductionKernelsTest, AnAverageIsAQuotient) {
  const ReductionKernels kernels =
      Kernels({kFloat32, kFloat32}, Reduction::kAverage);
  std::vector<float> sums = {5.0f, -9.0f, 1.0f};
  kernels.finish(reinterpret_cast<std::byte*>(sums.data()), 3, 3);
  EXPECT_EQ(sums, (std::vector<float>{5.0f / 3.0f, -3.0f, 1.0f / 3.0f}));
}

template <typename T>
T CombinedIntegers(Reduction reduction, T a, T b) {
  using Unsigned = std::make_unsigned_t<T>;
  if (reduction == Reduction::kMax) return std::max(a, b);
  if (reduction == Reduction::kMin) return std::min(a, b);
  return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
}

template <typename T>
Elements RandomIntegers(int64_t count, int offset, std::mt19937_64& random) {
  constexpr T kSpecial[] = {std::numeric_limits<T>::min(), -1, 0,
                            std::numeric_limits<T>::max()};
  Elements elements(sizeof(T), count, offset);
  for (int64_t i = 0; i < count; ++i) {
    const T integer =
        random() % 2 == 0 ? kSpecial[random() % 4] : static_cast<T>(random());
    elements.Set(i, static_cast<uint64_t>(integer));
  }
  return elements;
}

template <typename T>
void CheckIntegers(Reduction reduction, int64_t count, int offset) {
  const ReductionKernels kernels =
      KernelsFor(DTypeOf<T>(), DTypeOf<T>(), reduction).value();
  EXPECT_EQ(kernels.encode, nullptr);
  EXPECT_EQ(kernels.keep, nullptr);
  EXPECT_EQ(kernels.finish, nullptr);
  EXPECT_EQ(kernels.element_bytes, static_cast<int64_t>(sizeof(T)));
  EXPECT_EQ(kernels.wire_bytes, static_cast<int64_t>(sizeof(T)));
  std::mt19937_64 random(13);
  for (DecodeFn combine : {kernels.reduce, kernels.combine}) {
    Elements elements = RandomIntegers<T>(count, offset, random);
    const Elements before = elements;
    const Elements other = RandomIntegers<T>(count, offset + 1, random);
    EXPECT_EQ(combine(elements.at(0), other.at(0), count), NonFinite());
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(static_cast<T>(elements.Get(i)),
                CombinedIntegers(reduction, static_cast<T>(before.Get(i)),
                                 static_cast<T>(other.Get(i))));
    }
    EXPECT_TRUE(elements.IsGuardIntact());
  }
}

TEST(ReductionKernelsTest, IntegersWrapAroundAndCompare) {
  for (CpuIsa isa : kIsas) {
    const ScopedIsaCap cap(isa);
    SCOPED_TRACE(CpuIsaName(isa));
    for (Reduction reduction :
         {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
      SCOPED_TRACE(ReductionName(reduction));
      for (int64_t count : kCounts) {
        CheckIntegers<int32_t>(reduction, count, 1);
        CheckIntegers<int64_t>(reduction, count, 3);
      }
    }
  }
}

TEST(ReductionKernelsTest, TellsTheBytesOfOneElement) {
  for (const FormatPair& pair : kFormatPairs) {
    for (Reduction reduction : kReductions) {
      const ReductionKernels kernels = Kernels(pair, reduction);
      EXPECT_EQ(kernels.element_bytes, pair.memory.bytes());
      EXPECT_EQ(kernels.wire_bytes, pair.wire.bytes());
    }
  }
}

bool CanTravel(DType dtype, DType wire) {
  if (dtype == wire) return dtype != DType::kUint8;
  return dtype == DType::kFloat32 &&
         (wire == DType::kFloat16 || wire == DType::kBFloat16);
}

TEST(ReductionKernelsTest, TakesKnownPairsOnly) {
  for (int first = 1; first <= static_cast<int>(DType::kUint8); ++first) {
    for (int second = 1; second <= static_cast<int>(DType::kUint8); ++second) {
      const auto dtype = static_cast<DType>(first);
      const auto wire = static_cast<DType>(second);
      for (Reduction reduction :
           {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
        EXPECT_EQ(KernelsFor(dtype, wire, reduction).ok(),
                  CanTravel(dtype, wire))
            << DTypeName(dtype) << " as " << DTypeName(wire);
      }
    }
  }
}

std::string Refusal(DType dtype, DType wire, Reduction reduction) {
  const absl::Status status = KernelsFor(dtype, wire, reduction).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(ReductionKernelsTest, ARefusalSaysWhatIsTaken) {
  EXPECT_EQ(Refusal(DType::kFloat64, DType::kFloat16, Reduction::kSum),
            "a buffer of float64 cannot travel as float16; expected its own "
            "type, or float16 or bfloat16 for float32");
  EXPECT_EQ(Refusal(DType::kUint8, DType::kUint8, Reduction::kSum),
            "there is no reduction of uint8; expected float32, float64, "
            "float16, bfloat16, int32 or int64");
  for (DType dtype : {DType::kInt32, DType::kInt64}) {
    EXPECT_THAT(Refusal(dtype, dtype, Reduction::kAverage),
                HasSubstr("takes floating point, not int"));
  }
}

TEST(ReductionKernelsTest, RefusesValuesOutsideTheEnums) {
  const auto no_dtype = static_cast<DType>(99);
  EXPECT_THAT(Refusal(no_dtype, no_dtype, Reduction::kSum),
              HasSubstr("no reduction of unknown"));
  const auto no_reduction = static_cast<Reduction>(0);
  EXPECT_THAT(Refusal(DType::kFloat32, DType::kFloat32, no_reduction),
              HasSubstr("no reduction 0; expected sum, max, min or average"));
}

}  // namespace
}  // namespace ringmaster
