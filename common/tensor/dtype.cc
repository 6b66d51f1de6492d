#include "common/tensor/dtype.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

struct DTypeEntry {
  DType dtype;
  int64_t size_bytes;
  const char* name;
};

constexpr DTypeEntry kDTypes[] = {
    {DType::kFloat32, 4, "float32"}, {DType::kFloat64, 8, "float64"},
    {DType::kFloat16, 2, "float16"}, {DType::kBFloat16, 2, "bfloat16"},
    {DType::kInt32, 4, "int32"},     {DType::kInt64, 8, "int64"},
    {DType::kUint8, 1, "uint8"},
};

}  // namespace

int64_t SizeOf(DType dtype) {
  for (const DTypeEntry& entry : kDTypes) {
    if (entry.dtype == dtype) return entry.size_bytes;
  }
  return 0;
}

std::string_view DTypeName(DType dtype) {
  for (const DTypeEntry& entry : kDTypes) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "unknown";
}

absl::StatusOr<DType> ParseDType(std::string_view name) {
  std::string known;
  for (const DTypeEntry& entry : kDTypes) {
    if (name == entry.name) return entry.dtype;
    absl::StrAppend(&known, known.empty() ? "" : ", ", entry.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown dtype \"", absl::string_view(name.data(), name.size()),
      "\"; known are ", known));
}

}  // namespace ringmaster
