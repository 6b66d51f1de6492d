// Stands for cuda_test.cc in a build without CUDA, so that its absence is seen.
#include <gtest/gtest.h>

TEST(CudaTest, NeedsABuildWithCuda) {
  GTEST_SKIP() << "this build has no CUDA: use --config=cuda where the toolkit "
                  "is installed (/usr/local/cuda)";
}
