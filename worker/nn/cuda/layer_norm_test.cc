#include "worker/nn/cuda/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/layer_norm.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_gpt_ops.h"

namespace ringmaster::cuda {
namespace {

constexpr double kEpsilon = 1e-5;
// Rows of a sample's mask.
constexpr int64_t kSampleRows = 3;

// Inputs that T holds exactly.
template <typename T>
struct Inputs {
  explicit Inputs(RowShape shape)
      : x(RoundedTo<T>(Random<float>(shape.rows * shape.dim, 1, 2))),
        delta(RoundedTo<T>(Random<float>(shape.rows * shape.dim, 2))),
        gamma(RoundedTo<T>(Random<float>(shape.dim, 3))),
        beta(RoundedTo<T>(Random<float>(shape.dim, 4))),
        dy(RoundedTo<T>(Random<float>(shape.rows * shape.dim, 5))),
        dsum(RoundedTo<T>(Random<float>(shape.rows * shape.dim, 6))) {
    for (int64_t row = 0; row < shape.rows; row += kSampleRows)
      sample_ids.push_back(1000 - row);
  }
  DropoutOperands DropoutOf(RowShape shape, double rate) const {
    return {rate, 9, sample_ids, kSampleRows * shape.dim};
  }

  std::vector<float> x, delta, gamma, beta, dy, dsum;
  std::vector<int64_t> sample_ids;
};

struct Outputs {
  std::vector<float> sum, y, mean, rstd;
  std::vector<float> dsum, dgamma, dbeta;
};

// The options of a case besides its shape.
struct Options {
  double rate = 0;
  Write write = Write::kSet;
  int64_t offset = 0;  // of all arrays
};

template <typename T>
class LayerNormTest : public DeviceTest {
 protected:
  // Runs forward and backward on the device, without delta if `inputs` has
  // none.
  Outputs Run(RowShape shape, const Inputs<T>& inputs, Options options) {
    const int64_t elems = shape.rows * shape.dim;
    const int64_t offset = options.offset;
    const auto x = DeviceArray<T>::Of(inputs.x, offset);
    const auto delta = DeviceArray<T>::Of(inputs.delta, offset);
    const auto gamma = DeviceArray<T>::Of(inputs.gamma, offset);
    const auto beta = DeviceArray<T>::Of(inputs.beta, offset);
    const auto dy = DeviceArray<T>::Of(inputs.dy, offset);
    const DropoutOperands dropout = inputs.DropoutOf(shape, options.rate);
    const DeviceArray<T> sum(elems, offset);
    const DeviceArray<T> y(elems, offset);
    const DeviceArray<float> mean(shape.rows);
    const DeviceArray<float> rstd(shape.rows);
    const bool has_delta = !inputs.delta.empty();
    ResidualLayerNormForward<T>(
        this->stream(), shape, x.get(), has_delta ? delta.get() : nullptr,
        dropout.on_device(), sum.get(), gamma.get(), beta.get(), kEpsilon,
        y.get(), mean.get(), rstd.get());

    const auto dsum = DeviceArray<T>::Of(inputs.dsum, offset);
    const DeviceArray<float> scratch(
        LayerNormScratchElems(this->stream(), shape));
    const DeviceArray<float> dgamma(Before<float>(options.write, shape.dim),
                                    offset);
    const DeviceArray<float> dbeta(Before<float>(options.write, shape.dim),
                                   offset);
    const DeviceArray<float> dsum_total(Before<float>(options.write, shape.dim),
                                        offset);
    LayerNormBackward<T>(this->stream(), shape, options.write, dy.get(),
                         has_delta ? sum.get() : x.get(), gamma.get(),
                         mean.get(), rstd.get(), scratch.get(), dsum.get(),
                         dgamma.get(), dbeta.get(), dsum_total.get());
    EXPECT_TRUE(this->Finish());
    ExpectIsTotal(dsum_total.Read(), dsum.Floats(), shape.dim, options.write);
    static_cast<void>(scratch.Read());  // its guards
    return {has_delta ? sum.Floats() : inputs.x,
            y.Floats(),
            mean.Read(),
            rstd.Read(),
            dsum.Floats(),
            dgamma.Read(),
            dbeta.Read()};
  }

  static void ExpectIsTotal(const std::vector<float>& got,
                            const std::vector<float>& rows, int64_t dim,
                            Write write) {
    const std::vector<float> before = Before<float>(write, dim);
    for (int64_t column = 0; column < dim; ++column) {
      double want = write == Write::kAdd ? before[column] : 0;
      double magnitude = std::abs(want);
      for (size_t i = column; i < rows.size(); i += dim) {
        want += rows[i];
        magnitude += std::abs(rows[i]);
      }
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got[column])) << column;
      } else {
        EXPECT_NEAR(got[column], want, 1e-6 * (1 + magnitude)) << column;
      }
    }
  }
};
TYPED_TEST_SUITE(LayerNormTest, ElementTypes);

// The reference, from the sum that the device has written: that is rounded, and
// what follows must not add to it.
template <typename T>
Outputs Reference(RowShape shape, const Inputs<T>& inputs, Options options,
                  const std::vector<float>& device_sum) {
  const auto elems = static_cast<size_t>(shape.rows * shape.dim);
  std::vector<double> wide(device_sum.begin(), device_sum.end());
  std::vector<double> y(elems), mean(static_cast<size_t>(shape.rows)),
      rstd(mean);
  const std::vector<double> gamma(inputs.gamma.begin(), inputs.gamma.end());
  const std::vector<double> beta(inputs.beta.begin(), inputs.beta.end());
  const std::vector<double> dy(inputs.dy.begin(), inputs.dy.end());
  std::vector<double> none(elems, 0.0);
  std::vector<double> same(elems);
  reference::ResidualLayerNormForward<double>(
      shape, wide.data(), none.data(), Dropout(), same.data(), gamma.data(),
      beta.data(), kEpsilon, y.data(), mean.data(), rstd.data());
  std::vector<double> dsum(inputs.dsum.begin(), inputs.dsum.end());
  std::vector<float> before = Before<float>(options.write, shape.dim);
  std::vector<double> dgamma(before.begin(), before.end());
  std::vector<double> dbeta = dgamma;
  reference::LayerNormBackward<double>(
      shape, options.write, dy.data(), wide.data(), gamma.data(), mean.data(),
      rstd.data(), dsum.data(), dgamma.data(), dbeta.data());
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  Outputs outputs = {{},           floats(y),      floats(mean), floats(rstd),
                     floats(dsum), floats(dgamma), floats(dbeta)};
  outputs.sum.resize(elems);
  if (inputs.delta.empty()) {
    outputs.sum = inputs.x;
  } else {
    std::vector<float> ignored(elems), statistics(mean.size());
    reference::ResidualLayerNormForward<float>(
        shape, inputs.x.data(), inputs.delta.data(),
        inputs.DropoutOf(shape, options.rate).on_host(), outputs.sum.data(),
        inputs.gamma.data(), inputs.beta.data(), kEpsilon, ignored.data(),
        statistics.data(), statistics.data());
  }
  return outputs;
}

template <typename T>
void ExpectOutputs(const Outputs& got, const Outputs& want) {
  ExpectNear<T>(got.sum, want.sum, "sum");
  ExpectNear<T>(got.y, want.y, "y");
  // The mean may be next to 0, where a relative error means nothing.
  for (size_t i = 0; i < want.mean.size(); ++i)
    EXPECT_NEAR(got.mean[i], want.mean[i], 1e-6) << "row " << i;
  ExpectNear<float>(got.rstd, want.rstd, "rstd");
  ExpectNear<T>(got.dsum, want.dsum, "dsum");
  ExpectNear<float>(got.dgamma, want.dgamma, "dgamma");
  ExpectNear<float>(got.dbeta, want.dbeta, "dbeta");
}

TYPED_TEST(LayerNormTest, MatchesReference) {
  using T = TypeParam;
  for (int64_t rows : {0, 1, 7, 70}) {
    for (int64_t dim : {3, 8, 64, 130, 264, 512, 776, 1056}) {
      const RowShape shape = {rows, dim};
      const Inputs<T> inputs(shape);
      for (Options options : {Options{}, Options{0.3, Write::kAdd},
                              Options{0.3, Write::kSet, 1}}) {
        SCOPED_TRACE(::testing::Message()
                     << rows << "x" << dim << " rate " << options.rate
                     << " offset " << options.offset);
        const Outputs got = this->Run(shape, inputs, options);
        ExpectOutputs<T>(got, Reference(shape, inputs, options, got.sum));
      }
    }
  }
}

TYPED_TEST(LayerNormTest, ManyRowsAreAddedUpByBlocks) {
  using T = TypeParam;
  const RowShape shape = {4200, 8};  // more than a block's least rows
  const Inputs<T> inputs(shape);
  const Outputs got = this->Run(shape, inputs, {});
  ExpectOutputs<T>(got, Reference(shape, inputs, {}, got.sum));
}

TYPED_TEST(LayerNormTest, RowsAreAsLongAsABlockAndLonger) {
  using T = TypeParam;
  for (int64_t dim : {8192, 8200}) {
    const RowShape shape = {2, dim};
    const Inputs<T> inputs(shape);
    const Outputs got = this->Run(shape, inputs, {.rate = 0.5});
    ExpectOutputs<T>(got, Reference(shape, inputs, {.rate = 0.5}, got.sum));
  }
}

TYPED_TEST(LayerNormTest, WithoutDeltaNormalizesX) {
  using T = TypeParam;
  for (int64_t dim : {40, 41}) {
    const RowShape shape = {5, dim};
    Inputs<T> inputs(shape);
    inputs.delta.clear();
    const Outputs got = this->Run(shape, inputs, {});
    ExpectOutputs<T>(got, Reference(shape, inputs, {}, got.sum));
  }
}

TYPED_TEST(LayerNormTest, ValuesFarFromZeroAreNormalizedAccurately) {
  using T = TypeParam;
  const RowShape shape = {4, 96};
  Inputs<T> inputs(shape);
  for (float& value : inputs.x) value += 1000;
  inputs.x = RoundedTo<T>(inputs.x);
  inputs.delta.clear();
  const Outputs got = this->Run(shape, inputs, {});
  const Outputs want = Reference(shape, inputs, {}, got.sum);
  EXPECT_LE(RelativeError(got.y, want.y), 1e-4 + kTolerance<T>);
  EXPECT_LE(RelativeError(got.rstd, want.rstd), 1e-4);
}

TYPED_TEST(LayerNormTest, DropsTheElementsThatACpuDrops) {
  using T = TypeParam;
  const RowShape shape = {10, 64};
  Inputs<T> inputs(shape);
  std::fill(inputs.x.begin(), inputs.x.end(), 0.0f);
  std::fill(inputs.delta.begin(), inputs.delta.end(), 1.0f);
  const Options options = {.rate = 0.5};
  const Outputs got = this->Run(shape, inputs, options);
  EXPECT_EQ(got.sum, Reference(shape, inputs, options, got.sum).sum);
}

// Against the CPU's, which is checked by its formula.
TYPED_TEST(LayerNormTest, WithoutMeanAndBetaRowsAreNotCentred) {
  using T = TypeParam;
  for (int64_t dim : {3, 64, 776, 1056, 8200}) {
    const RowShape shape = {9, dim};
    const Inputs<T> inputs(shape);
    const auto x = DeviceArray<T>::Of(inputs.x);
    const auto gamma = DeviceArray<T>::Of(inputs.gamma);
    const auto dy = DeviceArray<T>::Of(inputs.dy);
    const auto dsum = DeviceArray<T>::Of(inputs.dsum);
    const DeviceArray<T> y(9 * dim);
    const DeviceArray<float> rstd(9), dgamma(dim),
        scratch(LayerNormScratchElems(this->stream(), shape));
    ResidualLayerNormForward<T>(this->stream(), shape, x.get(), nullptr, {},
                                nullptr, gamma.get(), nullptr, kEpsilon,
                                y.get(), nullptr, rstd.get());
    LayerNormBackward<T>(this->stream(), shape, Write::kSet, dy.get(), x.get(),
                         gamma.get(), nullptr, rstd.get(), scratch.get(),
                         dsum.get(), dgamma.get(), nullptr);
    ASSERT_TRUE(this->Finish());
    std::vector<float> want_y(inputs.x.size()), want_rstd(9), want_dgamma(dim),
        want_dsum = inputs.dsum,
        cpu_scratch(ringmaster::LayerNormScratchElems(OneThread(), shape));
    ringmaster::ResidualLayerNormForward<float>(
        OneThread(), shape, inputs.x.data(), nullptr, {}, nullptr,
        inputs.gamma.data(), nullptr, kEpsilon, want_y.data(), nullptr,
        want_rstd.data());
    ringmaster::LayerNormBackward<float>(
        OneThread(), shape, Write::kSet, inputs.dy.data(), inputs.x.data(),
        inputs.gamma.data(), nullptr, want_rstd.data(), cpu_scratch.data(),
        want_dsum.data(), want_dgamma.data(), nullptr);
    ExpectNear<T>(y.Floats(), want_y, "y");
    ExpectNear<float>(rstd.Read(), want_rstd, "rstd");
    ExpectNear<T>(dsum.Floats(), want_dsum, "dsum");
    ExpectNear<float>(dgamma.Read(), want_dgamma, "dgamma");
  }
}

TYPED_TEST(LayerNormTest, NanIsNotHidden) {
  using T = TypeParam;
  for (int64_t offset : {0, 1}) {
    const RowShape shape = {4, 64};
    Inputs<T> inputs(shape);
    inputs.x[64 + 5] = std::numeric_limits<float>::quiet_NaN();
    const Outputs got = this->Run(shape, inputs, {.offset = offset});
    EXPECT_FALSE(std::isnan(got.y[63]));
    EXPECT_TRUE(std::isnan(got.y[64]));
    EXPECT_TRUE(std::isnan(got.mean[1]));
    EXPECT_TRUE(std::isnan(got.dsum[127]));
    EXPECT_FALSE(std::isnan(got.dsum[128]));
    EXPECT_TRUE(std::isnan(got.dgamma[5]));
    EXPECT_FALSE(std::isnan(got.dbeta[5]));
  }
}

TYPED_TEST(LayerNormTest, GivesTheSameBitsAgain) {
  using T = TypeParam;
  const RowShape shape = {300, 72};
  const Inputs<T> inputs(shape);
  const Outputs first = this->Run(shape, inputs, {.rate = 0.1});
  const Outputs again = this->Run(shape, inputs, {.rate = 0.1});
  EXPECT_EQ(first.y, again.y);
  EXPECT_EQ(first.dsum, again.dsum);
  EXPECT_EQ(first.dgamma, again.dgamma);
  EXPECT_EQ(first.dbeta, again.dbeta);
}

}  // namespace
}  // namespace ringmaster::cuda
