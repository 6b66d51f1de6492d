#include "worker/train/cuda/peak_flops.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

TEST(CudaPeakFlopsTest, IsWhatTheDataSheetsSay) {
  // A100 SXM: 108 multiprocessors at 1.41 GHz: 312 and 19.5 TFLOP/s.
  EXPECT_NEAR(CudaPeakFlops(80, 108, 1.41e9, Precision::kBFloat16), 312e12,
              1e12);
  EXPECT_NEAR(CudaPeakFlops(80, 108, 1.41e9, Precision::kFloat32), 19.5e12,
              0.1e12);
  // H100 SXM: 132 at 1.83 GHz (with tensor cores busy): 989 TFLOP/s.
  EXPECT_NEAR(CudaPeakFlops(90, 132, 1.83e9, Precision::kBFloat16), 989e12,
              2e12);
}

TEST(CudaPeakFlopsTest, IsZeroForAGpuThatIsNotKnown) {
  EXPECT_EQ(CudaPeakFlops(75, 40, 1.5e9, Precision::kFloat32), 0);
}

}  // namespace
}  // namespace ringmaster
