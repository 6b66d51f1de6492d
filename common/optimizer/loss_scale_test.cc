#include "common/optimizer/loss_scale.h"

#include <gtest/gtest.h>

namespace ringmaster {
namespace {

void NoteGood(LossScale& scale, int64_t times) {
  for (int64_t i = 0; i < times; ++i) scale.Note(/*is_finite=*/true);
}

TEST(LossScaleTest, IsOneWithoutFloat16) {
  LossScale scale;
  scale.Note(/*is_finite=*/false);
  NoteGood(scale, LossScale::kPatience);
  EXPECT_EQ(scale, LossScale());
  EXPECT_EQ(scale.value(), 1);
}

TEST(LossScaleTest, HalvesWithEachUpdateThatIsLeftOut) {
  LossScale scale = LossScale::Dynamic();
  EXPECT_EQ(scale.value(), 65536);
  scale.Note(false);
  scale.Note(false);
  EXPECT_EQ(scale.value(), 16384);
  EXPECT_TRUE(scale.can_fall());
  for (int i = 0; i < 100; ++i) scale.Note(false);
  EXPECT_EQ(scale.value(), LossScale::kLeast);
  EXPECT_FALSE(scale.can_fall());
  EXPECT_FALSE(LossScale().can_fall());
}

TEST(LossScaleTest, DoublesAfterGoodUpdatesInARow) {
  LossScale scale = LossScale::Dynamic();
  NoteGood(scale, LossScale::kPatience - 1);
  EXPECT_EQ(scale.value(), 65536);
  scale.Note(false);  // counts anew
  NoteGood(scale, LossScale::kPatience - 1);
  EXPECT_EQ(scale.value(), 32768);
  NoteGood(scale, 1);
  EXPECT_EQ(scale.value(), 65536);
  EXPECT_EQ(scale.good_updates(), 0);
  NoteGood(scale, 100 * LossScale::kPatience);
  EXPECT_EQ(scale.value(), LossScale::kMost);
}

TEST(LossScaleTest, IsTakenOverFromAnotherRank) {
  LossScale source = LossScale::Dynamic();
  source.Note(false);
  NoteGood(source, 1500);
  LossScale copy(source.value(), source.good_updates());
  EXPECT_EQ(copy, source);
  NoteGood(copy, 500);
  EXPECT_EQ(copy.value(), 65536);
}

}  // namespace
}  // namespace ringmaster
