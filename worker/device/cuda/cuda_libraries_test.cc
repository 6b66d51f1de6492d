#include "worker/device/cuda/cuda_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ringmaster {
namespace {

using ::testing::Contains;

// In a build with the emulator there is nothing to look for.
bool IsEmulated() { return NcclNames() == std::vector<std::string>{""}; }

TEST(CudaLibrariesTest, LooksOnTheLibraryPathThenInTheToolkit) {
  if (IsEmulated()) GTEST_SKIP() << "the libraries are emulated";
  const std::vector<std::string> names = NcclNames();
  ASSERT_GE(names.size(), 2u);
  EXPECT_EQ(names[0], "libnccl.so.2");
  EXPECT_EQ(names[1], "/usr/local/cuda/lib64/libnccl.so.2");
  EXPECT_EQ(CudnnNames()[0], "libcudnn.so.9");
  EXPECT_EQ(CublasLtNames()[0], "libcublasLt.so.13");
  EXPECT_THAT(CublasLtNames(), Contains("libcublasLt.so.12"));
}

TEST(CudaLibrariesTest, FindsThoseOfPythonPackages) {
  if (IsEmulated()) GTEST_SKIP() << "the libraries are emulated";
  const std::string prefix = ::testing::TempDir() + "/environment";
  const std::string directory =
      prefix + "/lib/python3.11/site-packages/nvidia/nccl/lib";
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/libnccl.so.2") << "";
  setenv("VIRTUAL_ENV", prefix.c_str(), 1);
  EXPECT_THAT(NcclNames(), Contains(directory + "/libnccl.so.2"));
  unsetenv("VIRTUAL_ENV");
}

}  // namespace
}  // namespace ringmaster
