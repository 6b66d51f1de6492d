#include "worker/nn/cuda/matmul.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/logging/testing/log_capture.h"
#include "gtest/gtest.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/cuda/testing/matmul_testing.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_ops.h"

namespace ringmaster::cuda {
namespace {

constexpr Transpose kTransposes[] = {Transpose::kNo, Transpose::kYes};

// The operands of a product, and it itself from the reference.
struct Problem {
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> product;
};

template <typename T>
Problem RandomProblem(Transpose transpose_a, Transpose transpose_b,
                      GemmShape size) {
  Problem problem = {RoundedTo<T>(Random<float>(size.m * size.k, 1)),
                     RoundedTo<T>(Random<float>(size.k * size.n, 2)),
                     Unwritten<float>(size.m * size.n)};
  reference::Gemm<float>(transpose_a, transpose_b, size, problem.a.data(),
                         problem.b.data(), problem.product.data());
  return problem;
}

void AddBiasTo(int64_t columns, const std::vector<float>& bias,
               std::vector<float>& rows) {
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] += bias[i % static_cast<size_t>(columns)];
}

template <typename T>
class MatmulTest : public MatmulDeviceTest {};
TYPED_TEST_SUITE(MatmulTest, ElementTypes);

TYPED_TEST(MatmulTest, MatchesReferenceForAllShapes) {
  using T = TypeParam;
  for (const GemmShape size : {GemmShape{1, 1, 1}, GemmShape{3, 5, 7},
                               GemmShape{64, 32, 16}, GemmShape{33, 40, 65}}) {
    for (const Transpose transpose_a : kTransposes) {
      for (const Transpose transpose_b : kTransposes) {
        const Problem problem =
            RandomProblem<T>(transpose_a, transpose_b, size);
        const auto a = DeviceArray<T>::Of(problem.a);
        const auto b = DeviceArray<T>::Of(problem.b);
        const DeviceArray<T> c(size.m * size.n);
        this->matmul().template Multiply<T>({transpose_a, transpose_b, size},
                                            a.get(), b.get(), {.c = c.get()});
        ASSERT_TRUE(this->Finish());
        ExpectNear<T>(c.Floats(), problem.product, "c");
      }
    }
  }
}

TYPED_TEST(MatmulTest, AddsToWhatIsThere) {
  using T = TypeParam;
  const GemmShape size = {9, 24, 17};
  Problem problem = RandomProblem<T>(Transpose::kYes, Transpose::kNo, size);
  const auto a = DeviceArray<T>::Of(problem.a);
  const auto b = DeviceArray<T>::Of(problem.b);
  const std::vector<float> before = Random<float>(size.m * size.n, 3);
  const auto c = DeviceArray<float>::Of(before);
  const DeviceArray<float> alone(size.m * size.n);
  // The first call also measures algorithms, which must not add anything.
  for (int calls = 1; calls <= 2; ++calls) {
    this->matmul().template MultiplyToFloat<T>(
        {Transpose::kYes, Transpose::kNo, size}, a.get(), b.get(), Write::kAdd,
        c.get());
    ASSERT_TRUE(this->Finish());
    std::vector<float> want = before;
    for (size_t i = 0; i < want.size(); ++i)
      want[i] += static_cast<float>(calls) * problem.product[i];
    ExpectNear<float>(c.Floats(), want, "added");
  }
  this->matmul().template MultiplyToFloat<T>(
      {Transpose::kYes, Transpose::kNo, size}, a.get(), b.get(), Write::kSet,
      alone.get());
  ASSERT_TRUE(this->Finish());
  ExpectNear<float>(alone.Floats(), problem.product, "set");
}

TYPED_TEST(MatmulTest, EpiloguesMatchReferenceFusedOrNot) {
  using T = TypeParam;
  // Without measuring, all that can be fused is fused.
  auto fused = this->Create({.measure = false});
  ASSERT_TRUE(fused.ok()) << fused.status();
  auto unfused = this->Create({.fuse = false});
  ASSERT_TRUE(unfused.ok()) << unfused.status();
  // cuBLASLt has GELU for rows of a multiple of 8 only.
  for (const GemmShape size : {GemmShape{6, 16, 10}, GemmShape{5, 7, 3}}) {
    const Problem problem =
        RandomProblem<T>(Transpose::kNo, Transpose::kYes, size);
    const int64_t count = size.m * size.n;
    const std::vector<float> bias = RoundedTo<T>(Random<float>(size.n, 3));
    std::vector<float> want_pre = problem.product;
    AddBiasTo(size.n, bias, want_pre);
    std::vector<float> want_gelu = Unwritten<float>(count);
    reference::GeluForward<float>(count, want_pre.data(), want_gelu.data());
    std::vector<float> want_plain_gelu = Unwritten<float>(count);
    reference::GeluForward<float>(count, problem.product.data(),
                                  want_plain_gelu.data());
    const std::vector<float> x = RoundedTo<T>(Random<float>(count, 4, 3));
    std::vector<float> want_dgelu = Unwritten<float>(count);
    reference::GeluBackward<float>(count, x.data(), problem.product.data(),
                                   want_dgelu.data());
    const auto a = DeviceArray<T>::Of(problem.a);
    const auto b = DeviceArray<T>::Of(problem.b);
    const auto device_bias = DeviceArray<T>::Of(bias);
    const auto device_x = DeviceArray<T>::Of(x);
    for (CudaMatmul* matmul : {&this->matmul(), fused->get(), unfused->get()}) {
      SCOPED_TRACE(absl::StrCat("n ", size.n, ", fused ",
                                matmul->options().fuse, ", measured ",
                                matmul->options().measure));
      const DeviceArray<T> biased(count), pre(count), gelu(count);
      const DeviceArray<T> plain_pre(count), plain_gelu(count), dgelu(count);
      const MatmulShape shape = {Transpose::kNo, Transpose::kYes, size};
      const auto multiply = [&](const MatmulOutput<T>& output) {
        matmul->template Multiply<T>(shape, a.get(), b.get(), output);
      };
      multiply({.c = biased.get(), .bias = device_bias.get()});
      multiply({.c = gelu.get(), .bias = device_bias.get(), .pre = pre.get()});
      multiply({.c = plain_gelu.get(), .pre = plain_pre.get()});
      multiply({.c = dgelu.get(), .gelu_input = device_x.get()});
      ASSERT_TRUE(this->Finish());
      // A result that is not fused is rounded twice.
      const double most = 2 * kTolerance<T>;
      EXPECT_LE(RelativeError(biased.Floats(), want_pre), most) << "bias";
      EXPECT_LE(RelativeError(pre.Floats(), want_pre), most) << "pre";
      EXPECT_LE(RelativeError(gelu.Floats(), want_gelu), most) << "gelu";
      EXPECT_LE(RelativeError(plain_pre.Floats(), problem.product), most);
      EXPECT_LE(RelativeError(plain_gelu.Floats(), want_plain_gelu), most);
      EXPECT_LE(RelativeError(dgelu.Floats(), want_dgelu), most) << "dgelu";
    }
  }
}

TYPED_TEST(MatmulTest, RowsMayLieApart) {
  using T = TypeParam;
  const GemmShape size = {5, 7, 6};
  constexpr int64_t kStride = 16;
  const Problem problem =
      RandomProblem<T>(Transpose::kNo, Transpose::kNo, size);
  const auto spread = [](const std::vector<float>& dense, int64_t columns) {
    std::vector<float> apart;
    for (size_t i = 0; i < dense.size(); ++i) {
      apart.push_back(dense[i]);
      if ((static_cast<int64_t>(i) + 1) % columns == 0)
        apart.resize(apart.size() + kStride - columns, NAN);
    }
    return apart;
  };
  const auto a = DeviceArray<T>::Of(spread(problem.a, size.k));
  const auto b = DeviceArray<T>::Of(spread(problem.b, size.n));
  for (const int64_t k : {size.k, int64_t{0}}) {
    const std::vector<float> bias = Random<float>(size.n, 5);
    const auto c = DeviceArray<T>::Of(
        spread(std::vector<float>(size.m * size.n, 77), size.n));
    this->matmul().template Multiply<T>({.size = {size.m, size.n, k},
                                         .a_stride = kStride,
                                         .b_stride = kStride,
                                         .c_stride = kStride},
                                        a.get(), b.get(), {.c = c.get()});
    ASSERT_TRUE(this->Finish());
    const std::vector<float> got = c.Floats();
    std::vector<float> dense;
    for (int64_t i = 0; i < static_cast<int64_t>(got.size()); ++i) {
      if (i % kStride < size.n) {
        dense.push_back(got[i]);
      } else {
        EXPECT_TRUE(std::isnan(got[i])) << "written between rows";
      }
    }
    ExpectNear<T>(
        dense, k == 0 ? std::vector<float>(dense.size(), 0) : problem.product,
        "c");
  }
}

TYPED_TEST(MatmulTest, OperandsNeedNoAlignment) {
  using T = TypeParam;
  const GemmShape size = {16, 24, 32};
  const Problem problem =
      RandomProblem<T>(Transpose::kNo, Transpose::kNo, size);
  const auto a = DeviceArray<T>::Of(problem.a, 1);
  const auto b = DeviceArray<T>::Of(problem.b, 3);
  const auto bias = DeviceArray<T>::Of(Random<float>(size.n, 3), 1);
  const DeviceArray<T> c(size.m * size.n, 1), pre(size.m * size.n, 1);
  const MatmulShape shape = {.size = size};
  this->matmul().template Multiply<T>(shape, a.get(), b.get(), {.c = c.get()});
  ASSERT_TRUE(this->Finish());
  ExpectNear<T>(c.Floats(), problem.product, "c");
  this->matmul().template Multiply<T>(
      shape, a.get(), b.get(),
      {.c = c.get(), .bias = bias.get(), .pre = pre.get()});
  ASSERT_TRUE(this->Finish());
}

TYPED_TEST(MatmulTest, NothingMayBeMultiplied) {
  using T = TypeParam;
  const std::vector<float> bias = RoundedTo<T>(Random<float>(3, 1));
  const auto device_bias = DeviceArray<T>::Of(bias);
  const DeviceArray<T> c(6);
  CudaMatmul& matmul = this->matmul();
  matmul.template Multiply<T>({.size = {0, 3, 4}}, c.get(), c.get(),
                              {.c = c.get()});
  matmul.template Multiply<T>({.size = {2, 0, 4}}, c.get(), c.get(),
                              {.c = c.get()});
  ASSERT_TRUE(this->Finish());
  EXPECT_TRUE(std::isnan(c.Floats()[0]));
  matmul.template Multiply<T>({.size = {2, 3, 0}}, c.get(), c.get(),
                              {.c = c.get(), .bias = device_bias.get()});
  ASSERT_TRUE(this->Finish());
  std::vector<float> want(6, 0);
  AddBiasTo(3, bias, want);
  EXPECT_EQ(c.Floats(), want);
  const auto sum = DeviceArray<float>::Of(want);
  matmul.template MultiplyToFloat<T>({.size = {2, 3, 0}}, c.get(), c.get(),
                                     Write::kAdd, sum.get());
  ASSERT_TRUE(this->Finish());
  EXPECT_EQ(sum.Floats(), want);
}

TYPED_TEST(MatmulTest, WhatIsNotANumberStaysSo) {
  using T = TypeParam;
  const GemmShape size = {4, 8, 8};
  Problem problem = RandomProblem<T>(Transpose::kNo, Transpose::kNo, size);
  problem.a[9] = std::numeric_limits<float>::quiet_NaN();
  const auto a = DeviceArray<T>::Of(problem.a);
  const auto b = DeviceArray<T>::Of(problem.b);
  const DeviceArray<T> c(size.m * size.n);
  this->matmul().template Multiply<T>({.size = size}, a.get(), b.get(),
                                      {.c = c.get()});
  ASSERT_TRUE(this->Finish());
  const std::vector<float> got = c.Floats();
  for (int64_t i = 0; i < size.m * size.n; ++i)
    EXPECT_EQ(std::isnan(got[i]), i / size.n == 1) << i;
}

class FloatMatmulTest : public MatmulDeviceTest {
 protected:
  std::vector<float> Product(CudaMatmul& matmul, GemmShape size) {
    const Problem problem =
        RandomProblem<float>(Transpose::kNo, Transpose::kNo, size);
    const auto a = DeviceArray<float>::Of(problem.a);
    const auto b = DeviceArray<float>::Of(problem.b);
    const DeviceArray<float> c(size.m * size.n);
    matmul.Multiply<float>({.size = size}, a.get(), b.get(), {.c = c.get()});
    EXPECT_TRUE(Finish());
    return c.Floats();
  }
};

TEST_F(FloatMatmulTest, WhatWasMeasuredIsKeptForTheNextProcess) {
  const LogCapture log;
  const std::string directory =
      absl::StrCat(testing::TempDir(), "/matmul_plans");
  std::filesystem::remove_all(directory);
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      names.push_back(entry.path());
    return names;
  };
  const MatmulOptions options = {.cache_directory = directory};
  auto first = Create(options);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::vector<float> want = Product(**first, {8, 16, 24});
  ASSERT_EQ(files().size(), 1u);
  const auto written = std::filesystem::last_write_time(files()[0]);
  // The plans are known: there is nothing to measure and nothing to write.
  auto second = Create(options);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Product(**second, {8, 16, 24}), want);
  EXPECT_EQ(std::filesystem::last_write_time(files()[0]), written);
  EXPECT_TRUE(log.lines().empty());
}

TEST_F(FloatMatmulTest, AlgorithmThatIsNotOneIsNotUsed) {
  const std::string directory = absl::StrCat(testing::TempDir(), "/wrong");
  std::filesystem::remove_all(directory);
  const ProductKey key = {
      .m = 8, .n = 16, .k = 24, .a_stride = 24, .b_stride = 16, .c_stride = 16};
  const auto library = CublasLtLibrary::Load();
  ASSERT_TRUE(library.ok()) << library.status();
  MatmulPlanFile file(directory, device().name(), library->version());
  // More scratch than there is.
  const MatmulAlgorithm wrong = {.words = {}, .workspace_bytes = 1LL << 40};
  file.Add(key.Name(), wrong);
  auto matmul = Create({.cache_directory = directory});
  ASSERT_TRUE(matmul.ok()) << matmul.status();
  const Problem problem =
      RandomProblem<float>(Transpose::kNo, Transpose::kNo, {8, 16, 24});
  ExpectNear<float>(Product(**matmul, {8, 16, 24}), problem.product, "c");
  MatmulPlanFile after(directory, device().name(), library->version());
  ASSERT_TRUE(after.Find(key.Name()).has_value());
  EXPECT_FALSE(*after.Find(key.Name()) == wrong);
}

TEST_F(FloatMatmulTest, SumsComeWithTheProductFusedOrApart) {
  const GemmShape size = {9, 16, 40};
  const Problem problem =
      RandomProblem<float>(Transpose::kYes, Transpose::kNo, size);
  std::vector<float> want_a(size.m, 0), want_b(size.n, 0);
  for (int64_t k = 0; k < size.k; ++k) {
    for (int64_t i = 0; i < size.m; ++i) want_a[i] += problem.a[k * size.m + i];
    for (int64_t i = 0; i < size.n; ++i) want_b[i] += problem.b[k * size.n + i];
  }
  const auto a = DeviceArray<float>::Of(problem.a);
  const auto b = DeviceArray<float>::Of(problem.b);
  const MatmulShape shape = {Transpose::kYes, Transpose::kNo, size};
  for (const bool fuse : {true, false}) {
    // It is not measured, so that a faster way does not replace what cuBLASLt
    // can do.
    auto matmul = Create({.measure = false, .fuse = fuse});
    ASSERT_TRUE(matmul.ok()) << matmul.status();
    const DeviceArray<float> c(size.m * size.n), a_sums(size.m), b_sums(size.n);
    int calls_apart = 0;
    const auto apart = [&] { ++calls_apart; };
    (*matmul)->MultiplyWithSums<float>(shape, a.get(), b.get(), a_sums.get(),
                                       nullptr, c.get(), apart);
    (*matmul)->MultiplyWithSums<float>(shape, a.get(), b.get(), nullptr,
                                       b_sums.get(), c.get(), apart);
    ASSERT_TRUE(Finish());
    EXPECT_EQ(calls_apart, fuse ? 0 : 2);
    if (!fuse) continue;
    ExpectNear<float>(c.Floats(), problem.product, "c");
    ExpectNear<float>(a_sums.Floats(), want_a, "a_sums");
    ExpectNear<float>(b_sums.Floats(), want_b, "b_sums");
  }
}

TEST_F(FloatMatmulTest, WhatIsFasterApartStaysApart) {
  const std::string directory = absl::StrCat(testing::TempDir(), "/apart");
  const GemmShape size = {9, 16, 40};
  const Problem problem =
      RandomProblem<float>(Transpose::kYes, Transpose::kNo, size);
  const auto a = DeviceArray<float>::Of(problem.a);
  const auto b = DeviceArray<float>::Of(problem.b);
  const DeviceArray<float> c(size.m * size.n), sums(size.m);
  const MatmulShape shape = {Transpose::kYes, Transpose::kNo, size};
  const auto calls_apart = [&](CudaMatmul& matmul) {
    int calls = 0;
    matmul.MultiplyWithSums<float>(shape, a.get(), b.get(), sums.get(), nullptr,
                                   c.get(), [&calls] { ++calls; });
    EXPECT_TRUE(Finish());
    return calls;
  };
  // Nothing is faster than doing nothing, but on a busy machine the clock may
  // say otherwise at times.
  bool is_apart = false;
  for (int attempt = 0; attempt < 50 && !is_apart; ++attempt) {
    std::filesystem::remove_all(directory);
    auto matmul = Create({.cache_directory = directory});
    ASSERT_TRUE(matmul.ok()) << matmul.status();
    calls_apart(**matmul);  // measures
    is_apart = calls_apart(**matmul) == 1;
  }
  EXPECT_TRUE(is_apart);
  // Another process has already measured it.
  auto matmul = Create({.cache_directory = directory});
  ASSERT_TRUE(matmul.ok()) << matmul.status();
  EXPECT_EQ(calls_apart(**matmul), 1);
}

TEST_F(FloatMatmulTest, AddingMeasuresNothing) {
  const std::string directory = absl::StrCat(testing::TempDir(), "/adding");
  std::filesystem::remove_all(directory);
  auto matmul = Create({.cache_directory = directory});
  ASSERT_TRUE(matmul.ok()) << matmul.status();
  const DeviceArray<float> a(64);
  const DeviceArray<float> c(32);
  (*matmul)->MultiplyToFloat<float>({.size = {4, 4, 8}}, a.get(), a.get(),
                                    Write::kAdd, c.get());
  ASSERT_TRUE(Finish());
  EXPECT_FALSE(std::filesystem::exists(directory)) << "there is a plan";
  // A product of nearly that size does not take its algorithm unmeasured
  // either.
  (*matmul)->MultiplyToFloat<float>({.size = {8, 4, 8}}, a.get(), a.get(),
                                    Write::kSet, c.get());
  ASSERT_TRUE(Finish());
  EXPECT_TRUE(std::filesystem::exists(directory)) << "there is no plan";
}

TEST_F(FloatMatmulTest, WhatIsNearTakesTheAlgorithm) {
  const std::string directory = absl::StrCat(testing::TempDir(), "/near");
  std::filesystem::remove_all(directory);
  auto matmul = Create({.cache_directory = directory});
  ASSERT_TRUE(matmul.ok()) << matmul.status();
  const auto plans = [&] {
    std::ifstream file(std::filesystem::directory_iterator(directory)->path());
    std::stringstream text;
    text << file.rdbuf();
    const std::vector<std::string> parts = absl::StrSplit(text.str(), "plan ");
    return static_cast<int>(parts.size()) - 1;
  };
  const auto multiply = [&](GemmShape size) {
    const Problem problem =
        RandomProblem<float>(Transpose::kNo, Transpose::kNo, size);
    ExpectNear<float>(Product(**matmul, size), problem.product, "c");
  };
  multiply({8, 16, 24});
  EXPECT_EQ(plans(), 1);
  multiply({12, 16, 24});
  multiply({16, 16, 24});
  multiply({4, 16, 24});
  EXPECT_EQ(plans(), 1) << "near ones were measured";
  multiply({40, 16, 24});  // more than twice 16
  EXPECT_EQ(plans(), 2);
  multiply({8, 20, 24});  // other strides
  EXPECT_EQ(plans(), 3);
}

TEST_F(FloatMatmulTest, NeedNotMeasure) {
  auto matmul = Create({.measure = false});
  ASSERT_TRUE(matmul.ok()) << matmul.status();
  const Problem problem =
      RandomProblem<float>(Transpose::kNo, Transpose::kNo, {8, 16, 24});
  ExpectNear<float>(Product(**matmul, {8, 16, 24}), problem.product, "c");
}

TEST_F(FloatMatmulTest, Tf32IsLessExact) {
  auto matmul = Create({.use_tf32 = true});
  ASSERT_TRUE(matmul.ok()) << matmul.status();
  const Problem problem =
      RandomProblem<float>(Transpose::kNo, Transpose::kNo, {16, 16, 64});
  EXPECT_LE(RelativeError(Product(**matmul, {16, 16, 64}), problem.product),
            1e-3);
}

TEST_F(FloatMatmulTest, QueuesNothingBehindAnError) {
  stream().Note(absl::InternalError("lost"));
  const DeviceArray<float> c(4);
  matmul().Multiply<float>({.size = {2, 2, 2}}, c.get(), c.get(),
                           {.c = c.get()});
  EXPECT_EQ(stream().status().message(), "lost");
  EXPECT_TRUE(std::isnan(c.Floats()[0]));
}

TEST(ProductKeyTest, NameSaysAllThatMatters) {
  const ProductKey key = {.transpose_a = Transpose::kNo,
                          .transpose_b = Transpose::kYes,
                          .m = 1024,
                          .n = 768,
                          .k = 3072,
                          .a_stride = 3072,
                          .b_stride = 3080,
                          .c_stride = 768,
                          .input = CUDA_R_16BF,
                          .output = CUDA_R_32F,
                          .epilogue = Epilogue::kBias};
  EXPECT_EQ(key.Name(),
            "nt 1024x768x3072 strides 3072 3080 768 bf16>f32 bias align16");
  ProductKey tf32 = key;
  tf32.input = CUDA_R_32F;
  tf32.use_tf32 = true;
  EXPECT_EQ(tf32.Name(),
            "nt 1024x768x3072 strides 3072 3080 768 tf32>f32 bias align16");
}

}  // namespace
}  // namespace ringmaster::cuda
