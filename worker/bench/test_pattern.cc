#include "worker/bench/test_pattern.h"

#include <algorithm>
#include <cstring>

#include "common/reduction/float16.h"
#include "common/status/check.h"

namespace ringmaster {
namespace {

// A prime: no chunk or segment begins where a period does.
constexpr int64_t kPeriod = 4093;

// The common part of the ranks' values at `index`, and their average.
int BaseOf(int64_t index) { return static_cast<int>(index % 3); }

// The ranks 2k and 2k + 1 are off by the same, one above and one below; a last
// one without a partner is not.
int InputOf(int64_t index, int rank, int ranks) {
  const auto pair = static_cast<uint32_t>(rank / 2);
  const bool has_partner = (rank ^ 1) < ranks;
  const uint32_t mixed =
      (static_cast<uint32_t>(index) + 1) * (pair * 2654435762u + 2246822519u);
  const int off = has_partner ? static_cast<int>(mixed >> 31) : 0;
  return BaseOf(index) + (rank % 2 == 0 ? off : -off);
}

int ResultOf(int64_t index, int ranks, Reduction reduction) {
  if (reduction == Reduction::kAverage) return BaseOf(index);
  int result = InputOf(index, 0, ranks);
  for (int rank = 1; rank < ranks; ++rank) {
    const int input = InputOf(index, rank, ranks);
    if (reduction == Reduction::kSum) result += input;
    if (reduction == Reduction::kMax) result = std::max(result, input);
    if (reduction == Reduction::kMin) result = std::min(result, input);
  }
  return result;
}

template <typename T>
void StoreAs(std::byte* element, int value) {
  const T converted = static_cast<T>(value);
  std::memcpy(element, &converted, sizeof(converted));
}

void Store(DType dtype, std::byte* element, int value) {
  switch (dtype) {
    case DType::kFloat32:
      return StoreAs<float>(element, value);
    case DType::kFloat64:
      return StoreAs<double>(element, value);
    case DType::kInt32:
      return StoreAs<int32_t>(element, value);
    case DType::kInt64:
      return StoreAs<int64_t>(element, value);
    case DType::kFloat16: {
      const auto wide = static_cast<float>(value);
      return NarrowToFloat16(element, reinterpret_cast<const std::byte*>(&wide),
                             1);
    }
    case DType::kBFloat16: {
      const auto wide = static_cast<float>(value);
      uint32_t bits = 0;
      std::memcpy(&bits, &wide, sizeof(bits));
      // The upper half; the lower one of so small an integer is zero.
      return StoreAs<uint16_t>(element, static_cast<int>(bits >> 16));
    }
    case DType::kUint8:
      break;
  }
  RM_CHECK(false, "a dtype of collectives");
}

}  // namespace

TestPattern::TestPattern(DType dtype, Reduction reduction, int ranks, int rank)
    : element_bytes_(SizeOf(dtype)),
      input_(static_cast<size_t>(kPeriod * element_bytes_)),
      result_(input_.size()) {
  RM_CHECK(ranks >= 1 && ranks <= kMaxRanks, "sums are exact");
  for (int64_t i = 0; i < kPeriod; ++i) {
    const int64_t offset = i * element_bytes_;
    Store(dtype, input_.data() + offset, InputOf(i, rank, ranks));
    Store(dtype, result_.data() + offset, ResultOf(i, ranks, reduction));
  }
}

void TestPattern::Fill(std::byte* elements, int64_t count,
                       int64_t first) const {
  for (int64_t done = 0; done < count;) {
    const int64_t begin = (first + done) % kPeriod;
    const int64_t length = std::min(kPeriod - begin, count - done);
    std::memcpy(elements + done * element_bytes_,
                input_.data() + begin * element_bytes_,
                static_cast<size_t>(length * element_bytes_));
    done += length;
  }
}

int64_t TestPattern::CountWrong(const std::byte* elements, int64_t count,
                                int64_t first) const {
  int64_t wrong = 0;
  const auto size = static_cast<size_t>(element_bytes_);
  for (int64_t done = 0; done < count;) {
    const int64_t begin = (first + done) % kPeriod;
    const int64_t length = std::min(kPeriod - begin, count - done);
    const std::byte* const found = elements + done * element_bytes_;
    const std::byte* const expected = result_.data() + begin * element_bytes_;
    done += length;
    if (std::memcmp(found, expected, static_cast<size_t>(length) * size) == 0)
      continue;
    for (int64_t i = 0; i < length; ++i) {
      const int64_t offset = i * element_bytes_;
      if (std::memcmp(found + offset, expected + offset, size) != 0) ++wrong;
    }
  }
  return wrong;
}

}  // namespace ringmaster
