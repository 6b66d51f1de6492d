#include "common/optimizer/parameter_hash.h"

#include "common/plan/arena.h"
#include "common/tensor/allocator.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(HashParametersTest, IsEqualForEqualBitsAndChangesWithAnyOneOfThem) {
  HeapAllocator allocator;
  const Arena a =
      *Arena::Create(ArenaRole::kParameters, DType::kFloat32, 1000, allocator);
  const Arena b =
      *Arena::Create(ArenaRole::kParameters, DType::kFloat32, 1000, allocator);
  for (int i = 0; i < 1000; ++i)
    a.Elems<float>()[i] = b.Elems<float>()[i] = 0.5f * static_cast<float>(i);
  EXPECT_EQ(HashParameters(a), HashParameters(b));
  b.Elems<float>()[999] += 1e-4f;
  EXPECT_NE(HashParameters(a), HashParameters(b));
  b.Elems<float>()[999] = a.Elems<float>()[999];
  b.Elems<float>()[0] = -0.0f;
  EXPECT_NE(HashParameters(a), HashParameters(b));
}

}  // namespace
}  // namespace ringmaster
