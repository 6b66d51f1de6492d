#include "common/tensor/dtype.h"

#include <string>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr DType kAll[] = {DType::kFloat32,  DType::kFloat64, DType::kFloat16,
                          DType::kBFloat16, DType::kInt32,   DType::kInt64,
                          DType::kUint8};

TEST(DTypeTest, HasTheSizeOfItsCppType) {
  EXPECT_EQ(SizeOf(DTypeOf<float>()), sizeof(float));
  EXPECT_EQ(SizeOf(DTypeOf<double>()), sizeof(double));
  EXPECT_EQ(SizeOf(DTypeOf<int32_t>()), sizeof(int32_t));
  EXPECT_EQ(SizeOf(DTypeOf<int64_t>()), sizeof(int64_t));
  EXPECT_EQ(SizeOf(DTypeOf<uint8_t>()), sizeof(uint8_t));
  EXPECT_EQ(SizeOf(DType::kBFloat16), 2);
}

TEST(DTypeTest, NameParsesBackToItself) {
  for (DType dtype : kAll) {
    const absl::StatusOr<DType> parsed = ParseDType(DTypeName(dtype));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, dtype);
  }
}

TEST(DTypeTest, UnknownNameIsRefusedWithTheKnownOnes) {
  const absl::StatusOr<DType> parsed = ParseDType("float23");
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(parsed.status().message())
                .find("\"float23\"; known are float32"),
            std::string::npos);
}

TEST(DTypeTest, UnknownValueHasNoSize) {
  EXPECT_EQ(SizeOf(static_cast<DType>(99)), 0);
  EXPECT_EQ(DTypeName(static_cast<DType>(99)), "unknown");
}

}  // namespace
}  // namespace ringmaster
