#include "worker/nn/cuda/embedding.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/embedding.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/token_embedding.h"

namespace ringmaster::cuda {
namespace {

template <typename T>
class EmbeddingTest : public DeviceTest {
 protected:
  std::vector<float> Backward(EmbeddingShape shape, Write write,
                              const std::vector<int32_t>& ids,
                              const std::vector<float>& dy,
                              int64_t offset = 0) {
    const DeviceArray<int32_t> device_ids(ids);
    const auto device_dy = DeviceArray<T>::Of(dy, offset);
    const DeviceArray<int32_t> scratch(
        EmbeddingScratchElems(this->stream(), shape.count));
    const DeviceArray<float> dtable(
        Before<float>(write, shape.vocabulary * shape.dim), offset);
    EmbeddingBackward<T>(this->stream(), shape, write, device_ids.get(),
                         device_dy.get(), scratch.get(), dtable.get());
    EXPECT_TRUE(this->Finish());
    static_cast<void>(scratch.Read());  // its guards
    return dtable.Read();
  }
};
TYPED_TEST_SUITE(EmbeddingTest, ElementTypes);

std::vector<float> CpuBackward(EmbeddingShape shape, Write write,
                               const std::vector<int32_t>& ids,
                               const std::vector<float>& dy) {
  std::vector<float> dtable =
      Before<float>(write, shape.vocabulary * shape.dim);
  ringmaster::EmbeddingBackward<float>(OneThread(), shape, write, ids.data(),
                                       dy.data(), nullptr, dtable.data());
  return dtable;
}

TYPED_TEST(EmbeddingTest, MatchesTheCpuToTheBit) {
  using T = TypeParam;
  for (int64_t count : {0, 1, 40, 700}) {
    for (int64_t dim : {1, 8, 17, 72}) {
      for (int64_t offset : {0, 1}) {
        const EmbeddingShape shape = {count, 50, dim};
        const std::vector<int32_t> ids = RandomIds(count, 50, 3);
        const std::vector<float> table =
            RoundedTo<T>(Random<float>(50 * dim, 1));
        const std::vector<float> dy =
            RoundedTo<T>(Random<float>(count * dim, 2));
        const DeviceArray<int32_t> device_ids(ids);
        const auto device_table = DeviceArray<T>::Of(table, offset);
        const DeviceArray<T> y(count * dim, offset);
        EmbeddingForward<T>(this->stream(), shape, device_ids.get(),
                            device_table.get(), y.get());
        ASSERT_TRUE(this->Finish());
        std::vector<float> want = Unwritten<float>(count * dim);
        ringmaster::EmbeddingForward<float>(OneThread(), shape, ids.data(),
                                            table.data(), want.data());
        EXPECT_EQ(y.Floats(), want);
        for (Write write : {Write::kSet, Write::kAdd}) {
          EXPECT_EQ(this->Backward(shape, write, ids, dy, offset),
                    CpuBackward(shape, write, ids, dy))
              << count << "x" << dim << " at " << offset;
        }
      }
    }
  }
}

TYPED_TEST(EmbeddingTest, ManyPlacesOfOneIdAreAddedInTheirOrder) {
  using T = TypeParam;
  // Blocks have 32 threads for a row of 8, and look at that many places at
  // once.
  for (int64_t count : {31, 32, 33, 64, 65, 1000}) {
    const EmbeddingShape shape = {count, 50257, 8};
    const std::vector<int32_t> ids(static_cast<size_t>(count), 50256);
    const std::vector<float> dy = RoundedTo<T>(Random<float>(count * 8, 2));
    EXPECT_EQ(this->Backward(shape, Write::kSet, ids, dy),
              CpuBackward(shape, Write::kSet, ids, dy))
        << count;
  }
}

TYPED_TEST(EmbeddingTest, RowsMayBeLongerThanABlock) {
  using T = TypeParam;
  const EmbeddingShape shape = {6, 3, 8200};
  const std::vector<int32_t> ids = {2, 0, 2, 2, 0, 2};
  const std::vector<float> dy = RoundedTo<T>(Random<float>(6 * 8200, 2));
  EXPECT_EQ(this->Backward(shape, Write::kAdd, ids, dy),
            CpuBackward(shape, Write::kAdd, ids, dy));
}

TYPED_TEST(EmbeddingTest, OfTokensAndPositionsMatchesTheCpu) {
  using T = TypeParam;
  for (int64_t samples : {0, 1, 5}) {
    for (int64_t dim : {3, 8, 40}) {
      for (int64_t offset : {0, 1}) {
        const TokenEmbeddingShape shape = {samples, 13, 300, dim};
        const int64_t elems = samples * 13 * dim;
        const std::vector<int32_t> ids = RandomIds(samples * 13, 300, 3);
        const std::vector<float> tokens =
            RoundedTo<T>(Random<float>(300 * dim, 1));
        const std::vector<float> positions =
            RoundedTo<T>(Random<float>(13 * dim, 4));
        const std::vector<float> dy = RoundedTo<T>(Random<float>(elems, 2));
        const DeviceArray<int32_t> device_ids(ids);
        const auto device_tokens = DeviceArray<T>::Of(tokens, offset);
        const auto device_positions = DeviceArray<T>::Of(positions, offset);
        const auto device_dy = DeviceArray<T>::Of(dy, offset);
        const DeviceArray<T> y(elems, offset);
        TokenEmbeddingForward<T>(this->stream(), shape, device_ids.get(),
                                 device_tokens.get(), device_positions.get(),
                                 y.get());
        ASSERT_TRUE(this->Finish());
        std::vector<float> want = Unwritten<float>(elems);
        ringmaster::TokenEmbeddingForward<float>(OneThread(), shape, ids.data(),
                                                 tokens.data(),
                                                 positions.data(), want.data());
        EXPECT_EQ(y.Floats(), RoundedTo<T>(want));

        for (Write write : {Write::kSet, Write::kAdd}) {
          const DeviceArray<float> dpositions(Before<float>(write, 13 * dim),
                                              offset);
          TokenEmbeddingBackwardPositions<T>(this->stream(), shape, write,
                                             device_dy.get(), dpositions.get());
          ASSERT_TRUE(this->Finish());
          std::vector<float> want_positions = Before<float>(write, 13 * dim);
          ringmaster::TokenEmbeddingBackwardPositions<float>(
              OneThread(), shape, write, dy.data(), want_positions.data());
          EXPECT_EQ(dpositions.Read(), want_positions);
        }
      }
    }
  }
}

TYPED_TEST(EmbeddingTest, NanIsNotHidden) {
  std::vector<float> dy(3 * 8, 1.0f);
  dy[8] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> got =
      this->Backward({3, 4, 8}, Write::kSet, {1, 3, 3}, dy);
  EXPECT_EQ(got[8], 1);
  EXPECT_TRUE(std::isnan(got[3 * 8]));
  EXPECT_EQ(got[3 * 8 + 1], 2);
  EXPECT_EQ(got[0], 0);
}

}  // namespace
}  // namespace ringmaster::cuda
