// DType names the element types that tensors, arenas and wire frames may hold.
//
// Thread-safety: pure functions.
#ifndef RINGMASTER_COMMON_TENSOR_DTYPE_H_
#define RINGMASTER_COMMON_TENSOR_DTYPE_H_

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "absl/status/statusor.h"

namespace ringmaster {

// The values are part of file and wire formats: never renumber, only append.
enum class DType : uint8_t {
  kFloat32 = 1,
  kFloat64 = 2,
  kFloat16 = 3,
  kBFloat16 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kUint8 = 7,
};

// Bytes of one element.
int64_t SizeOf(DType dtype);

// "float32", "bfloat16", ... ; "unknown" for a value outside the enum.
std::string_view DTypeName(DType dtype);

// The inverse of DTypeName. INVALID_ARGUMENT names the text and the accepted
// names.
[[nodiscard]] absl::StatusOr<DType> ParseDType(std::string_view name);

// The DType of a C++ type that has one.
template <typename T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::kFloat32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::kFloat64;
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return DType::kInt32;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return DType::kInt64;
  } else {
    static_assert(std::is_same_v<T, uint8_t>, "this type has no DType");
    return DType::kUint8;
  }
}

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TENSOR_DTYPE_H_
