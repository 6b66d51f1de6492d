#include "worker/device/cuda/kernel_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ringmaster {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Symbols as nvcc 13.0 makes them.
TEST(KernelNameTest, SaysInWhichFileAnUnnamedNamespaceIs) {
  EXPECT_EQ(KernelName("_ZN10ringmaster4cuda44_GLOBAL__N__b65b2ab4_11_id_order_"
                       "cu_3be3190811CountKernelENS1_4PassE"),
            "id_order: ringmaster::cuda::(anonymous namespace)::CountKernel("
            "ringmaster::cuda::(anonymous namespace)::Pass)");
}

TEST(KernelNameTest, SaysOfWhichFileTheArgumentIsToo) {
  const std::string name = KernelName(
      "_ZN10ringmaster4cudaL9MapKernelILi1ENS0_52_GLOBAL__N__b2dfeeca_14_"
      "activations_cu_6188684d_23864GeluEfJfEEEvlT0_PT1_DpPKT2_");
  EXPECT_THAT(name,
              StartsWith("activations: void ringmaster::cuda::MapKernel<1, "));
  EXPECT_THAT(name, HasSubstr("::Gelu"));
}

TEST(KernelNameTest, LeavesNamesThatAreNotMangled) {
  EXPECT_EQ(KernelName("nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_NNT"),
            "nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_NNT");
  EXPECT_EQ(KernelName("_ZN"), "_ZN");
  EXPECT_EQ(KernelName(""), "");
}

}  // namespace
}  // namespace ringmaster
