#include <dlfcn.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ctl/doctor/nccl.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

// It has the real one's name, under which it is found from now on.
void LoadStub(const char* path) {
  ASSERT_NE(dlopen(path, RTLD_NOW), nullptr) << dlerror();
}

TEST(NcclFactsTest, NcclsLogIsThatOfACommunicatorOverAllGpus) {
  LoadStub("server/ctl/doctor/libstub_nccl.so");
  LoadStub("server/ctl/doctor/libstub_driver.so");
  const std::optional<NcclFacts> facts = GatherNcclFacts();
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->error, "");
  EXPECT_EQ(facts->gpus, 2);
  EXPECT_THAT(facts->log, HasSubstr("Using network Socket\n"));
  EXPECT_EQ(ParseNcclLog(facts->log).bootstrap, "eth9:10.9.8.7");
}

}  // namespace
}  // namespace ringmaster::ctl
