#include "server/ctl/render/loss_curve.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(LossCurveTest, KeepsEveryLossWhileThereIsRoom) {
  LossCurve curve(4);
  EXPECT_THAT(curve.Points(), IsEmpty());
  curve.Add(3);
  curve.Add(2);
  EXPECT_THAT(curve.Points(), ElementsAre(3, 2));
}

TEST(LossCurveTest, AveragesNeighboursWhenFull) {
  LossCurve curve(4);
  for (const double loss : {8, 6, 4, 2}) curve.Add(loss);
  EXPECT_THAT(curve.Points(), ElementsAre(7, 3));
  curve.Add(5);
  EXPECT_THAT(curve.Points(), ElementsAre(7, 3, 5));
  curve.Add(1);
  EXPECT_THAT(curve.Points(), ElementsAre(7, 3, 3));
}

TEST(LossCurveTest, StaysBoundedAndShowsTheWholeRun) {
  LossCurve curve(8);
  for (int i = 0; i < 100'000; ++i) curve.Add(i < 50'000 ? 2 : 1);
  EXPECT_THAT(curve.Points(), SizeIs(::testing::Le(8)));
  EXPECT_EQ(curve.Points().front(), 2);
  EXPECT_EQ(curve.Points().back(), 1);
}

TEST(LossCurveTest, LeavesOutWhatIsNotFinite) {
  LossCurve curve(4);
  curve.Add(std::nan(""));
  curve.Add(INFINITY);
  EXPECT_THAT(curve.Points(), IsEmpty());
}

}  // namespace
}  // namespace ringmaster::ctl
