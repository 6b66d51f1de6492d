#include "worker/train/step/class_counts.h"

#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

// Of class 0 two of three are right, of class 1 one of two, of class 3 none;
// class 2 is predicted once, classes from 4 on are not there.
ClassCounts Counts(int64_t classes) {
  ClassCounts counts(classes);
  counts.Add({0, 0, 0, 1, 1, 3},
             std::vector<ClassOutcome>{
                 {0, 0}, {0, 0}, {1, 4}, {1, 0}, {2, 5}, {0, 6}});
  return counts;
}

TEST(ClassCountsTest, MacroF1IsTheMeanOverTheClassesThatAreThere) {
  // 2 * right / (actual + predicted), as scikit-learn has it.
  EXPECT_DOUBLE_EQ(*Counts(10).MacroF1(),
                   (4.0 / 6 + 2.0 / 4 + 0.0 / 1 + 0.0 / 1) / 4);
  EXPECT_EQ(ClassCounts(10).MacroF1(), std::nullopt);
}

TEST(ClassCountsTest, FiveOfMoreThanFiveClassesCount) {
  EXPECT_DOUBLE_EQ(*Counts(7).Top5Accuracy(), 4.0 / 6);
  EXPECT_EQ(Counts(5).Top5Accuracy(), std::nullopt);
  EXPECT_EQ(ClassCounts(7).Top5Accuracy(), std::nullopt);
}

TEST(ClassCountsTest, PartsAddUp) {
  ClassCounts whole = Counts(6);
  whole.Add({5}, std::vector<ClassOutcome>{{5, 0}});
  ClassCounts sum = Counts(6);
  ClassCounts part(6);
  part.Add({5}, std::vector<ClassOutcome>{{5, 0}});
  for (size_t i = 0; i < sum.words().size(); ++i)
    sum.words()[i] += part.words()[i];
  EXPECT_EQ(sum.MacroF1(), whole.MacroF1());
  EXPECT_EQ(sum.Top5Accuracy(), whole.Top5Accuracy());
}

}  // namespace
}  // namespace ringmaster
