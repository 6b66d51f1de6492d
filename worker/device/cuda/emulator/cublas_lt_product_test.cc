// Compares the results of the emulated cuBLASLt with a plain reference.
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "worker/device/cuda/emulator/cublas_lt_problem.h"
#include "worker/device/cuda/emulator/emulator.h"

namespace ringmaster::cuda_emulator {
namespace {

double Gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Uses finite differences, so as not to copy the formula.
double GeluSlope(double x) { return (Gelu(x + 1e-5) - Gelu(x - 1e-5)) / 2e-5; }

double Tolerance(cudaDataType type) {
  return type == CUDA_R_16BF ? 0.02 : type == CUDA_R_16F ? 0.004 : 1e-5;
}

class ProductTest : public ::testing::TestWithParam<cublasLtEpilogue_t> {
 protected:
  void SetUp() override { Reset(Settings()); }
  void TearDown() override { Reset(Settings()); }
  static void Check(const Case& c);
};

// The expected D of one entry of the batch, and the expected vector of sums if
// the epilogue has one.
struct Expected {
  std::vector<double> d;
  std::vector<double> aux;
  std::vector<double> sums;
};

Expected Reference(const Case& c, const Problem& p, int batch,
                   const std::vector<float>& bias,
                   const std::vector<float>& aux) {
  Expected expected;
  std::vector<double> a_sums(Problem::kM), b_sums(Problem::kN),
      d_sums(Problem::kM);
  for (int64_t j = 0; j < Problem::kN; ++j) {
    for (int64_t i = 0; i < Problem::kM; ++i) {
      double x = 0;
      for (int64_t k = 0; k < Problem::kK; ++k) {
        x += double{p.a.at(batch, i, k, c.transpose_a)} *
             p.b.at(batch, k, j, c.transpose_b);
        if (j == 0) a_sums[i] += p.a.at(batch, i, k, c.transpose_a);
        if (i == 0) b_sums[j] += p.b.at(batch, k, j, c.transpose_b);
      }
      x *= Problem::kAlpha;
      if (c.beta != 0) x += c.beta * p.old.at(batch, i, j);
      if (c.epilogue & CUBLASLT_EPILOGUE_BIAS) x += bias[i];
      expected.aux.push_back(x);
      if (c.epilogue & CUBLASLT_EPILOGUE_RELU) x = std::fmax(x, 0.0);
      if (c.epilogue & CUBLASLT_EPILOGUE_GELU) x = Gelu(x);
      if ((c.epilogue & CUBLASLT_EPILOGUE_DGELU) == CUBLASLT_EPILOGUE_DGELU) {
        x *= GeluSlope(aux[j * Problem::kM + i]);
      }
      d_sums[i] += x;
      expected.d.push_back(x);
    }
  }
  if (c.epilogue == CUBLASLT_EPILOGUE_BGRADA) expected.sums = a_sums;
  if (c.epilogue == CUBLASLT_EPILOGUE_BGRADB) expected.sums = b_sums;
  if (c.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) expected.sums = d_sums;
  return expected;
}

void ProductTest::Check(const Case& c) {
  Problem p(c);
  std::vector<std::vector<float>> bias(c.batch), aux(c.batch);
  for (int batch = 0; batch < c.batch; ++batch) {
    for (int64_t i = 0; i < Problem::kM; ++i) {
      bias[batch].push_back(p.bias.at(batch, i, 0));
    }
    for (int64_t j = 0; j < Problem::kN; ++j) {
      for (int64_t i = 0; i < Problem::kM; ++i) {
        aux[batch].push_back(p.aux.at(batch, i, j));
      }
    }
  }
  for (const auto& result : p.Algorithms()) {
    ASSERT_EQ(p.Run(&result.algo), CUBLAS_STATUS_SUCCESS);
    for (int batch = 0; batch < c.batch; ++batch) {
      const Expected expected = Reference(c, p, batch, bias[batch], aux[batch]);
      for (int64_t j = 0; j < Problem::kN; ++j) {
        for (int64_t i = 0; i < Problem::kM; ++i) {
          const size_t at = j * Problem::kM + i;
          ASSERT_NEAR(p.d.at(batch, i, j), expected.d[at], 4 * Tolerance(c.out))
              << i << ", " << j << " of " << batch;
          if ((c.epilogue & CUBLASLT_EPILOGUE_GELU_AUX) ==
              CUBLASLT_EPILOGUE_GELU_AUX) {
            ASSERT_NEAR(p.aux.at(batch, i, j), expected.aux[at],
                        4 * Tolerance(c.out));
          }
        }
        EXPECT_TRUE(std::isnan(Get(p.d.data, c.out, j * p.d.ld + Problem::kM)))
            << "wrote into the padding";
      }
      for (size_t i = 0; i < expected.sums.size(); ++i) {
        ASSERT_NEAR(p.bias.at(batch, i, 0), expected.sums[i],
                    16 * Tolerance(c.out));
      }
    }
  }
}

TEST_P(ProductTest, IsAsDocumented) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const auto& [in, out] : {std::pair(CUDA_R_32F, CUDA_R_32F),
                                    std::pair(CUDA_R_16BF, CUDA_R_16BF),
                                    std::pair(CUDA_R_16BF, CUDA_R_32F),
                                    std::pair(CUDA_R_16F, CUDA_R_16F)}) {
        for (const int batch : {1, 3}) {
          SCOPED_TRACE(::testing::Message()
                       << "transposes " << transpose_a << transpose_b
                       << ", types " << in << " " << out << ", batch "
                       << batch);
          Check({.in = in,
                 .out = out,
                 .transpose_a = transpose_a,
                 .transpose_b = transpose_b,
                 .epilogue = GetParam(),
                 .beta = batch == 1 ? 0.0f : 2.0f,
                 .batch = batch});
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Epilogues, ProductTest,
    ::testing::Values(CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU,
                      CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS,
                      CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS,
                      CUBLASLT_EPILOGUE_GELU_AUX,
                      CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
                      CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
                      CUBLASLT_EPILOGUE_BGRADB));

TEST(CublasLtProductTest, NanShows) {
  Problem p(Case{});
  Put(p.a.data, CUDA_R_32F, p.a.Index(0, 2, 5), kNan);
  Put(p.b.data, CUDA_R_32F, p.b.Index(0, 5, 3), 0.0f);
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
  for (int64_t j = 0; j < Problem::kN; ++j) {
    EXPECT_TRUE(std::isnan(p.d.at(0, 2, j))) << j;
    EXPECT_FALSE(std::isnan(p.d.at(0, 3, j))) << j;
  }
}

TEST(CublasLtProductTest, TensorFloatHasTenBits) {
  Problem p(Case{});
  p.Set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE,
        int32_t{CUBLAS_COMPUTE_32F_FAST_TF32});
  for (int64_t k = 0; k < Problem::kK; ++k) {
    Put(p.a.data, CUDA_R_32F, p.a.Index(0, 0, k), k == 0 ? 1.00001f : 0.0f);
    Put(p.b.data, CUDA_R_32F, p.b.Index(0, k, 0), 2.0f);
  }
  ASSERT_EQ(p.Run(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(p.d.at(0, 0, 0), 1.0f);
}

}  // namespace
}  // namespace ringmaster::cuda_emulator
