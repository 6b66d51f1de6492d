#include "server/coordinator/core/account/hold_ups.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMilli = 1'000'000;
constexpr int64_t kTaken = 20'000 * kMilli;

v1::TraceSpan SpanOf(int64_t sequence, v1::SpanState state) {
  v1::TraceSpan span;
  span.set_name("all_reduce");
  span.set_step(12);
  span.set_bucket(3);
  span.set_bytes(1 << 20);
  span.set_sequence(sequence);
  span.set_state(state);
  span.set_ready_nanos(kTaken - 10'300 * kMilli);
  span.set_start_nanos(kTaken - 10'250 * kMilli);
  if (state != v1::SPAN_STATE_UNDER_WAY) span.set_end_nanos(kTaken - kMilli);
  return span;
}

v1::TraceSpan BrokenOff(int64_t sequence, int awaited, int64_t milliseconds) {
  v1::TraceSpan span = SpanOf(sequence, v1::SPAN_STATE_BROKEN_OFF);
  span.set_awaited_rank(awaited);
  span.set_waited_nanos(milliseconds * kMilli);
  return span;
}

v1::TraceSpan UnderWay(int64_t sequence, int awaited) {
  v1::TraceSpan span = SpanOf(sequence, v1::SPAN_STATE_UNDER_WAY);
  if (awaited >= 0) span.set_awaited_rank(awaited);
  return span;
}

class HoldUpsTest : public ::testing::Test {
 protected:
  HoldUpsTest() { record_.set_incident(1); }

  void Answer(int rank, const std::vector<v1::TraceSpan>& spans) {
    v1::RankTrace& trace = *record_.add_ranks();
    trace.set_rank(rank);
    trace.set_worker(absl::StrCat("w", rank));
    trace.set_taken_nanos(kTaken);
    for (const v1::TraceSpan& span : spans) *trace.add_spans() = span;
  }

  void Miss(int rank, bool is_lost = true) {
    v1::MissingRank& missing = *record_.add_missing();
    missing.set_rank(rank);
    missing.set_worker(absl::StrCat("w", rank));
    if (is_lost) lost_.insert(rank);
  }

  std::vector<std::string> Summaries() const {
    std::vector<std::string> texts;
    for (const v1::HoldUp& hold_up : FindHoldUps(record_, lost_))
      texts.push_back(hold_up.summary());
    return texts;
  }

  v1::FlightRecord record_;
  std::set<int> lost_;
};

// In a ring only the next rank waits for the lost one.
TEST_F(HoldUpsTest, WaitsLeadToTheLostRank) {
  Answer(0, {BrokenOff(57, 3, 10'200)});
  Answer(1, {SpanOf(56, v1::SPAN_STATE_UNSPECIFIED), BrokenOff(57, 0, 10'100)});
  Answer(3, {BrokenOff(57, 2, 10'150)});
  Miss(2);
  EXPECT_THAT(
      Summaries(),
      ElementsAre("rank 2 (worker w2) had not entered all_reduce 57 of step 12 "
                  "(bucket 3, 1.00MiB): ranks 0, 1, 3 had waited for it for "
                  "10.2 s"));
  const v1::HoldUp hold_up = FindHoldUps(record_, lost_)[0];
  EXPECT_EQ(hold_up.rank(), 2);
  EXPECT_EQ(hold_up.worker(), "w2");
  EXPECT_EQ(hold_up.entry(), v1::COLLECTIVE_ENTRY_NOT_ENTERED);
  EXPECT_EQ(hold_up.sequence(), 57);
  EXPECT_EQ(hold_up.waiting_count(), 3);
  EXPECT_EQ(FromProto(hold_up.waited()), absl::Milliseconds(10'200));
}

TEST_F(HoldUpsTest, ALostRankThatHadSentSomethingHadEntered) {
  v1::TraceSpan span = BrokenOff(57, 1, 0);
  span.set_has_awaited_entered(true);
  Answer(0, {span});
  Miss(1);
  EXPECT_THAT(
      Summaries(),
      ElementsAre("rank 1 (worker w1) had entered all_reduce 57 of step "
                  "12 (bucket 3, 1.00MiB) and gone no further: rank 0 "
                  "had waited for it"));
}

TEST_F(HoldUpsTest, ARankThatAnswersTellsItselfThatItIsBehind) {
  record_.set_incident(0);
  Answer(0, {UnderWay(57, 1)});
  Answer(1, {SpanOf(56, v1::SPAN_STATE_UNSPECIFIED)});
  EXPECT_THAT(Summaries(),
              ElementsAre("rank 1 (worker w1) has not entered all_reduce 57 of "
                          "step 12 (bucket 3, 1.00MiB): rank 0 has waited for "
                          "it for 10.2 s"));
}

TEST_F(HoldUpsTest, ARankThatWaitsForNobodyHasGoneNoFurther) {
  Answer(0, {UnderWay(57, 1)});
  Answer(1, {UnderWay(57, -1)});
  ASSERT_EQ(Summaries().size(), 1u);
  EXPECT_EQ(FindHoldUps(record_, lost_)[0].entry(),
            v1::COLLECTIVE_ENTRY_ENTERED);
  EXPECT_EQ(FindHoldUps(record_, lost_)[0].rank(), 1);
}

TEST_F(HoldUpsTest, OfARankThatDoesNotAnswerNobodyKnowsWhetherItHasEntered) {
  record_.set_incident(0);
  Answer(0, {UnderWay(57, 1)});
  Miss(1, /*is_lost=*/false);
  EXPECT_THAT(
      Summaries(),
      ElementsAre(
          "rank 1 (worker w1) is waited for in all_reduce 57 of step 12 "
          "(bucket 3, 1.00MiB), whether it has entered it or not: rank "
          "0 has waited for it for 10.2 s"));
}

// Ranks wait for each other at every step.
TEST_F(HoldUpsTest, ShortWaitsForRanksThatLiveAreNoHoldUps) {
  Answer(0, {BrokenOff(57, 1, 99)});
  Answer(1, {SpanOf(56, v1::SPAN_STATE_UNSPECIFIED)});
  Answer(2, {BrokenOff(57, 3, 1)});
  Miss(3);
  const auto hold_ups = FindHoldUps(record_, lost_);
  ASSERT_EQ(hold_ups.size(), 1u);
  EXPECT_EQ(hold_ups[0].rank(), 3);
}

TEST_F(HoldUpsTest, WhoWaitsInACircleOrForNobodyKnownNamesNobody) {
  Answer(0, {BrokenOff(57, 1, 500)});
  Answer(1, {BrokenOff(57, 0, 500)});
  Answer(2, {BrokenOff(57, 2, 500)});
  Answer(3, {BrokenOff(57, 9, 500)});
  EXPECT_TRUE(Summaries().empty());
}

// NCCL tells nobody's name.
TEST_F(HoldUpsTest, OnDevicesTheRanksThatAreBehindHoldTheOthersUp) {
  v1::TraceSpan waiting = SpanOf(9, v1::SPAN_STATE_BROKEN_OFF);
  waiting.set_is_on_device(true);
  v1::TraceSpan queued = SpanOf(9, v1::SPAN_STATE_QUEUED);
  queued.set_is_on_device(true);
  Answer(0, {waiting});
  Answer(1, {queued});
  Miss(2);
  auto hold_ups = FindHoldUps(record_, lost_);
  ASSERT_EQ(hold_ups.size(), 1u);
  EXPECT_EQ(hold_ups[0].rank(), 1);
  EXPECT_EQ(hold_ups[0].entry(), v1::COLLECTIVE_ENTRY_NOT_ENTERED);

  // If none is behind, it was the lost one; what it had entered nobody knows.
  *record_.mutable_ranks(1)->mutable_spans(0) = waiting;
  hold_ups = FindHoldUps(record_, lost_);
  ASSERT_EQ(hold_ups.size(), 1u);
  EXPECT_EQ(hold_ups[0].rank(), 2);
  EXPECT_EQ(hold_ups[0].entry(), v1::COLLECTIVE_ENTRY_UNSPECIFIED);
  EXPECT_EQ(hold_ups[0].waiting_count(), 2);
}

TEST_F(HoldUpsTest, NamesAreBounded) {
  for (int rank = 0; rank < 40; ++rank)
    Answer(rank, {BrokenOff(57, 40 + rank % 10, 200)});
  for (int rank = 40; rank < 50; ++rank) Miss(rank);
  EXPECT_EQ(FindHoldUps(record_, lost_).size(), kMaxHoldUps);

  record_.Clear();
  lost_.clear();
  for (int rank = 0; rank < 40; ++rank) Answer(rank, {BrokenOff(57, 40, 200)});
  Miss(40);
  const auto hold_ups = FindHoldUps(record_, lost_);
  ASSERT_EQ(hold_ups.size(), 1u);
  EXPECT_EQ(hold_ups[0].waiting_ranks_size(), kMaxWaitingRanks);
  EXPECT_EQ(hold_ups[0].waiting_count(), 40);
  EXPECT_THAT(hold_ups[0].summary(),
              ::testing::HasSubstr("ranks 0, 1, 2, 3 and 36 more have waited"));
}

}  // namespace
}  // namespace ringmaster::coordinator
