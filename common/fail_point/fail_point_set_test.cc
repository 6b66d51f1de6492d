#include "common/fail_point/fail_point_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster {
namespace {

FailPointSet& Points() {
  static FailPointSet& points =
      *new FailPointSet({{1, "set.one"}, {4, "set.four"}});
  return points;
}

TEST(FailPointSetTest, KeyPassesItsOwnPointOnly) {
  FailPoint::Arm("set.four", FailPoint::Action::kError);
  EXPECT_TRUE(Points().Pass(1).ok());
  EXPECT_EQ(Points().Pass(4), absl::UnavailableError("fail point set.four"));
  FailPoint::DisarmAll();
  EXPECT_TRUE(Points().Pass(4).ok());
}

TEST(FailPointSetTest, KeyWithoutAPointPasses) {
  FailPoint::Arm("set.one", FailPoint::Action::kError);
  for (int key : {0, 2, 5, 1000, -1}) EXPECT_TRUE(Points().Pass(key).ok());
  FailPoint::DisarmAll();
}

TEST(FailPointSetTest, AllNamesAreKnownBeforeTheFirstPass) {
  Points();
  EXPECT_THAT(FailPoint::Names(),
              ::testing::IsSupersetOf({"set.four", "set.one"}));
}

}  // namespace
}  // namespace ringmaster
