#include "worker/data/sample_index.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

std::vector<int64_t> Records(const SampleIndex& index) {
  std::vector<int64_t> records;
  for (int64_t id = 0; id < index.size(); ++id)
    records.push_back(index.RecordOf(id));
  return records;
}

TEST(SampleIndexTest, WithoutGapsEveryRecordIsASample) {
  EXPECT_EQ(Records(SampleIndex(3)), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(SampleIndex(0).size(), 0);
}

TEST(SampleIndexTest, GapsAreLeftOut) {
  SampleIndex index(8);
  index.Skip(0, 1);
  index.Skip(3, 5);
  index.Skip(7, 8);
  EXPECT_EQ(Records(index), (std::vector<int64_t>{1, 2, 5, 6}));
  EXPECT_EQ(index.skipped(), 4);
}

TEST(SampleIndexTest, GapsThatTouchOrOverlapCountOnce) {
  SampleIndex index(10);
  index.Skip(2, 4);
  index.Skip(2, 3);
  index.Skip(3, 6);
  index.Skip(6, 6);
  index.Skip(6, 7);
  EXPECT_EQ(Records(index), (std::vector<int64_t>{0, 1, 7, 8, 9}));
  EXPECT_EQ(index.skipped(), 5);
}

TEST(SampleIndexTest, EverythingMayBeLeftOut) {
  SampleIndex index(5);
  index.Skip(0, 5);
  EXPECT_EQ(index.size(), 0);
  EXPECT_EQ(index.skipped(), 5);
}

TEST(SampleIndexTest, AgreesWithAListOfTheValidOnes) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const int64_t count = 200;
    SampleIndex index(count);
    std::vector<bool> is_valid(count, true);
    for (int64_t i = 0; i < count; ++i) {
      if (random() % 4 != 0) continue;
      const int64_t end =
          std::min<int64_t>(count, i + static_cast<int64_t>(random() % 5));
      index.Skip(i, end);
      for (int64_t j = i; j < end; ++j) is_valid[j] = false;
    }
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < count; ++i) {
      if (is_valid[i]) expected.push_back(i);
    }
    ASSERT_EQ(Records(index), expected) << round;
  }
}

}  // namespace
}  // namespace ringmaster
