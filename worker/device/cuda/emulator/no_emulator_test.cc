// Stands for the emulator's tests in a build without it.
#include <gtest/gtest.h>

TEST(CudaEmulatorTest, NeedsTheEmulatedConfiguration) {
  GTEST_SKIP() << "this build has no CUDA emulator: use --config=cuda_emulated "
                  "where the CUDA toolkit is installed (/usr/local/cuda)";
}
