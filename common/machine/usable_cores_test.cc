#include "common/machine/usable_cores.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(UsableCoresTest, AQuotaPaysForWholeCoresRoundedUp) {
  EXPECT_EQ(CoresOfQuota("200000 100000", 8), 2);
  EXPECT_EQ(CoresOfQuota("150000 100000", 8), 2);
  EXPECT_EQ(CoresOfQuota("10000 100000", 8), 1);
  EXPECT_EQ(CoresOfQuota("1600000 100000", 8), 8);
}

TEST(UsableCoresTest, WithoutAQuotaAllCoresCount) {
  EXPECT_EQ(CoresOfQuota("max 100000", 8), 8);
  EXPECT_EQ(CoresOfQuota("", 8), 8);
  EXPECT_EQ(CoresOfQuota("200000", 8), 8);
  EXPECT_EQ(CoresOfQuota("200000 0", 8), 8);
  EXPECT_EQ(CoresOfQuota("-1 100000", 8), 8);
}

TEST(UsableCoresTest, ThereIsAtLeastOne) { EXPECT_GE(UsableCores(), 1); }

}  // namespace
}  // namespace ringmaster
