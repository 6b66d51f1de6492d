#include "worker/train/output/step_history.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;

StepRecord RecordOf(int64_t step) {
  StepRecord record;
  record.step = step;
  return record;
}

std::vector<int64_t> StepsOf(const StepHistory& history) {
  std::vector<int64_t> steps;
  for (const StepRecord& record : history.Last(history.size()))
    steps.push_back(record.step);
  return steps;
}

TEST(StepHistoryTest, KeepsAsManyStepsAsAFileMayLack) {
  StepHistory history;
  const auto most = static_cast<int64_t>(StepHistory::kMostSteps);
  for (int64_t step = 1; step <= most + 10; ++step) history.Add(RecordOf(step));
  EXPECT_EQ(history.size(), StepHistory::kMostSteps);
  EXPECT_EQ(history.last_step(), most + 10);
  EXPECT_EQ(history.Last(history.size()).front().step, 11);
}

TEST(StepHistoryTest, TellsOneStoryOfConsecutiveSteps) {
  StepHistory history;
  EXPECT_EQ(history.last_step(), 0);
  EXPECT_FALSE(history.is_whole());
  for (const int64_t step : {1, 2, 3}) history.Add(RecordOf(step));
  history.Add(RecordOf(2));  // after a rollback
  EXPECT_THAT(StepsOf(history), ElementsAre(1, 2));
  history.ForgetAfter(1);
  EXPECT_THAT(StepsOf(history), ElementsAre(1));
  history.Add(RecordOf(7));  // it was away
  EXPECT_THAT(StepsOf(history), ElementsAre(7));
  StepRecord partial = RecordOf(8);
  EXPECT_TRUE(history.is_whole());
  partial.is_partial = true;
  history.Add(partial);
  EXPECT_FALSE(history.is_whole());
}

TEST(StepHistoryTest, RecordsTravelBitForBit) {
  StepRecord sent;
  double next = 0.1;
  for (double* const number :
       {&sent.loss, &sent.gradient_norm, &sent.learning_rate,
        &sent.tokens_per_second, &sent.samples_per_second,
        &sent.seconds.data_wait, &sent.seconds.forward, &sent.seconds.backward,
        &sent.seconds.communication_wait, &sent.seconds.commit,
        &sent.seconds.optimizer, &sent.seconds.checkpoint_snapshot,
        &sent.seconds.total}) {
    *number = next += 1.1;
  }
  sent.step = 1;
  sent.wire_payload_bytes = 2;
  sent.wire_theory_bytes = 3;
  sent.world_size = 4;
  sent.generation = 5;
  sent.is_partial = true;
  sent.model_flops_utilization = 0.6;
  StepRecord other;
  other.loss = std::numeric_limits<double>::quiet_NaN();
  const StepRecord records[] = {sent, other};
  std::vector<int64_t> words(2 * StepHistory::kRecordWords);
  ToWords(records, words);
  const std::vector<StepRecord> received = FromWords(words);
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0], sent);
  EXPECT_TRUE(std::isnan(received[1].loss));
  EXPECT_FALSE(received[1].model_flops_utilization.has_value());
}

}  // namespace
}  // namespace ringmaster
