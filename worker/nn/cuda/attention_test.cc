#include "worker/nn/cuda/attention.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_attention.h"

namespace ringmaster::cuda {
namespace {

using ::testing::HasSubstr;

const std::vector<int64_t> kSampleIds = {41, 7, 1'000'003};

int64_t QkvCount(AttentionShape s) {
  return s.samples * s.window * 3 * s.heads * s.head_dim;
}
int64_t OutCount(AttentionShape s) { return QkvCount(s) / 3; }
int64_t RowCount(AttentionShape s) { return s.samples * s.heads * s.window; }

// All results of forward and backward.
struct Result {
  std::vector<float> out;
  std::vector<float> log_sum_exp;
  std::vector<float> dqkv;

  bool operator==(const Result&) const = default;
};

// Elements of T; the reference gets the same values.
struct Inputs {
  std::vector<float> qkv;
  std::vector<float> dout;
};

template <typename T>
Inputs RandomInputs(AttentionShape shape, double bound) {
  return {RoundedTo<T>(Random<float>(QkvCount(shape), 1, bound)),
          RoundedTo<T>(Random<float>(OutCount(shape), 2))};
}

Result RunPlain(AttentionShape shape, double rate, const Inputs& inputs) {
  const DropoutOperands dropout(rate, 99, kSampleIds,
                                shape.heads * shape.window * shape.window);
  Result result = {Unwritten<float>(OutCount(shape)),
                   Unwritten<float>(RowCount(shape)),
                   Unwritten<float>(QkvCount(shape))};
  reference::AttentionForward<float>(shape, dropout.on_host(),
                                     inputs.qkv.data(), result.out.data(),
                                     result.log_sum_exp.data());
  reference::AttentionBackward<float>(shape, dropout.on_host(),
                                      inputs.dout.data(), inputs.qkv.data(),
                                      result.dqkv.data());
  return result;
}

template <typename T>
class AttentionTest : public DeviceTest {
 protected:
  Result Run(AttentionShape shape, double rate, const Inputs& inputs,
             const std::vector<int64_t>& sample_ids = kSampleIds) {
    const DeviceArray<int32_t> lengths =
        shape.lengths == nullptr
            ? DeviceArray<int32_t>(0)
            : DeviceArray<int32_t>(std::vector<int32_t>(
                  shape.lengths, shape.lengths + shape.samples));
    if (shape.lengths != nullptr) shape.lengths = lengths.get();
    const DropoutOperands dropout(rate, 99, sample_ids,
                                  shape.heads * shape.window * shape.window);
    const auto qkv = DeviceArray<T>::Of(inputs.qkv, offset_);
    const auto dout = DeviceArray<T>::Of(inputs.dout, offset_);
    const DeviceArray<T> out(OutCount(shape));
    const DeviceArray<float> log_sum_exp(RowCount(shape));
    const DeviceArray<float> scratch(
        AttentionScratchElems(this->stream(), shape));
    const DeviceArray<T> dqkv(QkvCount(shape));
    TiledAttentionForward<T>(this->stream(), shape, dropout.on_device(),
                             qkv.get(), out.get(), log_sum_exp.get());
    TiledAttentionBackward<T>(this->stream(), shape, dropout.on_device(),
                              dout.get(), qkv.get(), out.get(),
                              log_sum_exp.get(), scratch.get(), dqkv.get());
    EXPECT_TRUE(this->Finish());
    return {out.Floats(), log_sum_exp.Floats(), dqkv.Floats()};
  }
  // From here on, inputs lie `offset` elements behind an aligned address.
  void SetOffset(int64_t offset) { offset_ = offset; }
  void ExpectMatchesReference(AttentionShape shape, double rate) {
    SCOPED_TRACE(testing::Message()
                 << "window " << shape.window << ", head_dim " << shape.head_dim
                 << ", rate " << rate);
    const Inputs inputs = RandomInputs<T>(shape, 3);
    const Result got = Run(shape, rate, inputs);
    const Result want = RunPlain(shape, rate, inputs);
    EXPECT_LE(RelativeError(got.out, want.out), kTolerance<T>) << "out";
    EXPECT_LE(RelativeError(got.log_sum_exp, want.log_sum_exp),
              kTolerance<float>)
        << "log_sum_exp";
    // dqkv has inputs that were rounded (out) or computed in float
    // (log_sum_exp).
    EXPECT_LE(RelativeError(got.dqkv, want.dqkv), 3 * kTolerance<T>) << "dqkv";
  }

 private:
  int64_t offset_ = 0;
};
TYPED_TEST_SUITE(AttentionTest, ElementTypes);

TYPED_TEST(AttentionTest, MatchesReferenceForAllWindows) {
  for (const int64_t window : {1, 2, 7, 31, 32, 33, 64, 65, 130})
    this->ExpectMatchesReference({2, window, window < 60 ? 3 : 1, 16}, 0);
}

TYPED_TEST(AttentionTest, MatchesReferenceWithoutACausalMask) {
  for (const int32_t window : {1, 7, 33, 65, 130}) {
    const std::vector<int32_t> lengths = {(window + 1) / 2, window};
    for (const bool is_apart : {false, true}) {
      AttentionShape shape = {2, window, 2, 20, /*is_causal=*/false, is_apart};
      this->ExpectMatchesReference(shape, 0.3);
      shape.lengths = lengths.data();
      this->ExpectMatchesReference(shape, 0);
    }
  }
}

TYPED_TEST(AttentionTest, MatchesReferenceForAllHeads) {
  for (const int64_t head_dim : {1, 5, 63, 64, 80, 128, 129, 256})
    this->ExpectMatchesReference({1, 40, 2, head_dim}, 0);
}

TYPED_TEST(AttentionTest, MatchesReferenceWithDropout) {
  for (const int64_t head_dim : {24, 100, 200})
    this->ExpectMatchesReference({3, 37, 2, head_dim}, 0.3);
}

TYPED_TEST(AttentionTest, InputsNeedNoAlignment) {
  this->SetOffset(1);
  for (const int64_t head_dim : {5, 16})
    this->ExpectMatchesReference({2, 37, 2, head_dim}, 0.3);
}

TYPED_TEST(AttentionTest, NoSamplesAreFine) {
  EXPECT_TRUE(this->Run({0, 8, 2, 4}, 0, {}).out.empty());
}

TYPED_TEST(AttentionTest, LargeScoresStayFinite) {
  const AttentionShape shape = {1, 70, 1, 16};
  const Inputs inputs = RandomInputs<TypeParam>(shape, 100);
  const Result got = this->Run(shape, 0, inputs);
  const Result want = RunPlain(shape, 0, inputs);
  EXPECT_LE(RelativeError(got.out, want.out), 5e-3);
  EXPECT_LE(RelativeError(got.log_sum_exp, want.log_sum_exp), 1e-5);
}

TYPED_TEST(AttentionTest, DropoutFollowsTheSampleAndNotItsPlace) {
  const AttentionShape shape = {2, 20, 2, 8};
  // The same sample twice, under one id and then under two.
  Inputs inputs = RandomInputs<TypeParam>(shape, 1);
  std::copy_n(inputs.qkv.begin(), inputs.qkv.size() / 2,
              inputs.qkv.begin() + inputs.qkv.size() / 2);
  const auto halves_are_equal = [&](const std::vector<int64_t>& ids) {
    const Result result = this->Run(shape, 0.5, inputs, ids);
    const auto half = static_cast<ptrdiff_t>(result.out.size() / 2);
    return std::equal(result.out.begin(), result.out.begin() + half,
                      result.out.begin() + half);
  };
  EXPECT_TRUE(halves_are_equal({5, 5}));
  EXPECT_FALSE(halves_are_equal({5, 6}));
}

using FloatAttentionTest = AttentionTest<float>;

TEST_F(FloatAttentionTest, TheFutureDoesNotChangeThePast) {
  const AttentionShape shape = {1, 130, 2, 16};
  const int64_t row = shape.heads * shape.head_dim;
  const Inputs inputs = RandomInputs<float>(shape, 1);
  const Result before = Run(shape, 0, inputs);
  for (const int64_t changed : {1, 63, 64, 100, 129}) {
    Inputs other = inputs;
    for (auto i = static_cast<size_t>(changed * 3 * row); i < other.qkv.size();
         ++i) {
      other.qkv[i] += 1;
    }
    const Result after = Run(shape, 0, other);
    const auto past = static_cast<ptrdiff_t>(changed * row);
    EXPECT_TRUE(std::equal(before.out.begin(), before.out.begin() + past,
                           after.out.begin()))
        << changed;
    EXPECT_FALSE(std::equal(before.out.begin() + past, before.out.end(),
                            after.out.begin() + past))
        << changed;
  }
}

TEST_F(FloatAttentionTest, IsTheSameEachTime) {
  const AttentionShape shape = {2, 70, 3, 24};
  const Inputs inputs = RandomInputs<float>(shape, 1);
  EXPECT_TRUE(Run(shape, 0.2, inputs) == Run(shape, 0.2, inputs));
}

TEST_F(FloatAttentionTest, WhatIsNotANumberStaysSo) {
  const AttentionShape shape = {1, 140, 1, 16};
  constexpr int64_t kBadRow = 133;
  constexpr int64_t kFirstSpoilt = kBadRow - 63;
  for (const int64_t part : {0, 1, 2}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
      Inputs inputs = RandomInputs<float>(shape, 1);
      inputs.qkv[(kBadRow * 3 + part) * 16] = bad;
      const Result got = Run(shape, 0, inputs);
      double sum = 0;
      for (float x : got.out) sum += x;
      // A key of infinity may have no weight at all.
      if (part != 1 || std::isnan(bad)) {
        EXPECT_FALSE(std::isfinite(sum));
        double gradients = 0;
        for (float x : got.dqkv) gradients += x;
        EXPECT_FALSE(std::isfinite(gradients));
      }
      for (int64_t i = 0; i < kFirstSpoilt * 16; ++i)
        ASSERT_TRUE(std::isfinite(got.out[i])) << i;
    }
  }
}

TEST_F(FloatAttentionTest, RefusesHeadsThatAreTooLarge) {
  TiledAttentionForward<float>(stream(), {1, 1, 1, 257}, {}, nullptr, nullptr,
                               nullptr);
  EXPECT_EQ(stream().status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(stream().status().message()),
              HasSubstr("at most 256 dimensions; this model's have 257"));
}

}  // namespace
}  // namespace ringmaster::cuda
