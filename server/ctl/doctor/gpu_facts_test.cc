#include <dlfcn.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ctl/doctor/gpu.h"

namespace ringmaster::ctl {
namespace {

TEST(GpuFactsTest, ListsWhatTheDriverTells) {
  // It has the driver's name, under which it is found from now on.
  ASSERT_NE(dlopen("server/ctl/doctor/libstub_driver.so", RTLD_NOW), nullptr)
      << dlerror();
  const GpuFacts facts = GatherGpuFacts(false);
  EXPECT_EQ(facts.driver.version, 13010);
  EXPECT_EQ(facts.gpus_error, "");
  ASSERT_EQ(facts.gpus.size(), 2);
  EXPECT_EQ(facts.gpus[1].name, "Stub 71");
  EXPECT_EQ(facts.gpus[1].uuid, "GPU-47474747-4747-4747-4747-474747474747");
  EXPECT_EQ(facts.gpus[1].bus, "0000:71:00.0");
  EXPECT_EQ(facts.gpus[1].memory_bytes, int64_t{71} << 30);
  EXPECT_EQ(facts.gpus[1].capability, 90);
  EXPECT_EQ(facts.peer_pairs, 1);
}

}  // namespace
}  // namespace ringmaster::ctl
