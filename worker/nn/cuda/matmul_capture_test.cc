// Tests products in CUDA graphs: calls that allocate memory or wait cannot be
// captured.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/cuda/matmul.h"
#include "worker/nn/cuda/testing/captured.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/cuda/testing/matmul_testing.h"
#include "worker/nn/testing/operator_testing.h"

namespace ringmaster::cuda {
namespace {

constexpr GemmShape kSize = {9, 24, 40};
constexpr int64_t kCount = kSize.m * kSize.n;
constexpr MatmulShape kShape = {Transpose::kYes, Transpose::kNo, kSize};

// Every kind of product, and its results.
template <typename T>
class Products {
 public:
  void Queue(CudaMatmul& matmul) {
    matmul.Multiply<T>(
        kShape, a_.get(), b_.get(),
        {.c = gelu_.get(), .bias = bias_.get(), .pre = pre_.get()});
    matmul.Multiply<T>(kShape, a_.get(), b_.get(),
                       {.c = dgelu_.get(), .gelu_input = pre_.get()});
    const auto apart = [&] {
      is_apart_ = true;
      matmul.MultiplyToFloat<T>(kShape, a_.get(), b_.get(), Write::kSet,
                                fused_.get());
    };
    matmul.MultiplyWithSums<T>(kShape, a_.get(), b_.get(), nullptr,
                               column_sums_.get(), fused_.get(), apart);
    for (const Write write : {Write::kSet, Write::kAdd}) {
      matmul.MultiplyToFloat<T>(kShape, a_.get(), b_.get(), write, sum_.get());
    }
  }
  void Forget() {
    for (const DeviceArray<T>* output : {&pre_, &gelu_, &dgelu_})
      cudaMemset(output->get(), 0xff, kCount * sizeof(T));
    cudaMemset(sum_.get(), 0xff, kCount * sizeof(float));
    cudaMemset(fused_.get(), 0xff, kCount * sizeof(float));
    cudaMemset(column_sums_.get(), 0xff, kSize.n * sizeof(float));
    cudaDeviceSynchronize();
  }
  std::vector<std::vector<float>> Read() const {
    std::vector<std::vector<float>> results = {pre_.Floats(), gelu_.Floats(),
                                               dgelu_.Floats(), sum_.Floats(),
                                               fused_.Floats()};
    if (!is_apart_) results.push_back(column_sums_.Floats());
    return results;
  }

 private:
  const DeviceArray<T> a_ =
      DeviceArray<T>::Of(Random<float>(kSize.m * kSize.k, 1));
  const DeviceArray<T> b_ =
      DeviceArray<T>::Of(Random<float>(kSize.k * kSize.n, 2));
  const DeviceArray<T> bias_ = DeviceArray<T>::Of(Random<float>(kSize.n, 3));
  const DeviceArray<T> pre_{kCount}, gelu_{kCount}, dgelu_{kCount};
  const DeviceArray<float> sum_{kCount}, fused_{kCount};
  const DeviceArray<float> column_sums_{kSize.n};
  bool is_apart_ = false;  // column_sums_ are not written
};

template <typename T>
class MatmulCaptureTest : public MatmulDeviceTest {};
TYPED_TEST_SUITE(MatmulCaptureTest, ElementTypes);

TYPED_TEST(MatmulCaptureTest, WhatWasMetOnceCanBeCaptured) {
  Products<TypeParam> products;
  products.Queue(this->matmul());
  ASSERT_TRUE(this->Finish());
  const auto want = products.Read();
  Captured captured(this->stream(), [&] { products.Queue(this->matmul()); });
  products.Forget();
  captured.Launch();
  ASSERT_TRUE(this->Finish());
  EXPECT_EQ(products.Read(), want);
}

TYPED_TEST(MatmulCaptureTest, WhatIsMetInACaptureIsNotMeasured) {
  Products<TypeParam> products;
  // Relaxed, since a GPU has yet to load the kernels.
  Captured captured(
      this->stream(), [&] { products.Queue(this->matmul()); },
      cudaStreamCaptureModeRelaxed);
  captured.Launch();
  ASSERT_TRUE(this->Finish());
  const auto captured_results = products.Read();
  products.Forget();
  products.Queue(this->matmul());
  ASSERT_TRUE(this->Finish());
  EXPECT_EQ(products.Read(), captured_results);
}

TYPED_TEST(MatmulCaptureTest, WhatIsFirstAddedIsAddedOnce) {
  using T = TypeParam;
  const DeviceArray<T> ones = DeviceArray<T>::Of(std::vector<float>(64, 1));
  const auto sum = DeviceArray<float>::Of(std::vector<float>(64, 5));
  ASSERT_TRUE(this->Finish());
  Captured captured(
      this->stream(),
      [&] {
        this->matmul().template MultiplyToFloat<T>({.size = {8, 8, 8}},
                                                   ones.get(), ones.get(),
                                                   Write::kAdd, sum.get());
      },
      cudaStreamCaptureModeRelaxed);
  captured.Launch();
  ASSERT_TRUE(this->Finish());
  EXPECT_EQ(sum.Floats(), std::vector<float>(64, 13));
}

}  // namespace
}  // namespace ringmaster::cuda
