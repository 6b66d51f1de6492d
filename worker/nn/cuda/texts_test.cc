// The operators of BERT that only read ids or move rows: as on a CPU, to the
// bit.
#include "worker/nn/cuda/texts.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/cuda/gather.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/testing/operator_testing.h"

namespace ringmaster::cuda {
namespace {

// Ids below 5, and padding (1) at the end.
std::vector<int32_t> Ids(TextShape shape) {
  std::vector<int32_t> ids;
  for (int64_t s = 0; s < shape.samples; ++s) {
    for (int64_t i = 0; i < shape.tokens; ++i) {
      const bool is_padding = i > shape.tokens - 2 * s;
      ids.push_back(
          is_padding ? 1 : static_cast<int32_t>((7 * i + 3 * s) % 11 % 5));
    }
  }
  return ids;
}

constexpr TextShape kShapes[] = {{0, 4}, {1, 1}, {3, 7}, {4, 300}};

template <typename T>
class TextsTest : public DeviceTest {};
TYPED_TEST_SUITE(TextsTest, ElementTypes);

TYPED_TEST(TextsTest, EndsAndTypesAreThoseOfACpu) {
  using T = TypeParam;
  for (const TextShape& shape : kShapes) {
    for (const int64_t count : {1, 2}) {
      const std::vector<int32_t> ids = Ids(shape);
      const int64_t rows = shape.samples * shape.tokens;
      std::vector<int32_t> want_lengths(shape.samples),
          want_firsts = want_lengths;
      std::vector<float> want_types = Unwritten<float>(rows * count);
      ringmaster::FindTexts(OneThread(), shape, 1, ids.data(),
                            want_lengths.data(), want_firsts.data());
      ringmaster::FindTypes<float>(OneThread(), shape, count, 3, ids.data(),
                                   want_types.data());
      const DeviceArray<int32_t> device_ids(ids);
      const DeviceArray<int32_t> lengths(shape.samples), firsts(shape.samples);
      const DeviceArray<T> types(rows * count);
      FindTexts(this->stream(), shape, 1, device_ids.get(), lengths.get(),
                firsts.get());
      FindTypes<T>(this->stream(), shape, count, 3, device_ids.get(),
                   types.get());
      ASSERT_TRUE(this->Finish());
      EXPECT_EQ(lengths.Read(), want_lengths);
      EXPECT_EQ(firsts.Read(), want_firsts);
      EXPECT_EQ(types.Floats(), want_types);
    }
  }
}

TYPED_TEST(TextsTest, RowsAreGatheredAndPutBack) {
  using T = TypeParam;
  const GatherShape shape = {3, 8, 5};
  const std::vector<int32_t> places = {6, 0, 3};
  const std::vector<float> x = RoundedTo<T>(Random<float>(40, 1));
  const std::vector<float> dy = RoundedTo<T>(Random<float>(15, 2));
  std::vector<float> want_y(15), want_dx = Unwritten<float>(40);
  ringmaster::GatherForward<float>(OneThread(), shape, places.data(), x.data(),
                                   want_y.data());
  ringmaster::GatherBackward<float>(OneThread(), shape, places.data(),
                                    dy.data(), want_dx.data());
  const DeviceArray<int32_t> device_places(places);
  const auto device_x = DeviceArray<T>::Of(x);
  const auto device_dy = DeviceArray<T>::Of(dy);
  const DeviceArray<T> y(15), dx(40);
  GatherForward<T>(this->stream(), shape, device_places.get(), device_x.get(),
                   y.get());
  GatherBackward<T>(this->stream(), shape, device_places.get(), device_dy.get(),
                    dx.get());
  ASSERT_TRUE(this->Finish());
  EXPECT_EQ(y.Floats(), want_y);
  EXPECT_EQ(dx.Floats(), want_dx);
}

class MaskTokensTest : public DeviceTest {};

TEST_F(MaskTokensTest, MasksTheTokensThatACpuMasks) {
  const std::vector<int64_t> sample_ids = {41, 7, 1'000'003, 9};
  for (const TextShape& texts : kShapes) {
    const MaskingShape shape = {texts, (texts.tokens + 5) / 6, 50, 49};
    const std::vector<int32_t> ids = Ids(texts);
    const DropoutOperands draw(0.15, 99, sample_ids, texts.tokens);
    std::vector<int32_t> want_inputs(ids.size());
    std::vector<int32_t> want_places(texts.samples * shape.count);
    std::vector<int32_t> want_targets = want_places;
    ringmaster::MaskTokens(OneThread(), shape, draw.on_host(), ids.data(),
                           want_inputs.data(), want_places.data(),
                           want_targets.data());
    const DeviceArray<int32_t> device_ids(ids);
    const DeviceArray<int32_t> inputs(static_cast<int64_t>(ids.size()));
    const DeviceArray<int32_t> places(texts.samples * shape.count),
        targets(texts.samples * shape.count);
    MaskTokens(stream(), shape, draw.on_device(), device_ids.get(),
               inputs.get(), places.get(), targets.get());
    ASSERT_TRUE(Finish());
    EXPECT_EQ(inputs.Read(), want_inputs);
    EXPECT_EQ(places.Read(), want_places);
    EXPECT_EQ(targets.Read(), want_targets);
  }
}

}  // namespace
}  // namespace ringmaster::cuda
