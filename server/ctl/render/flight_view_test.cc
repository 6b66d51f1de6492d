#include "server/ctl/render/flight_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMilli = 1'000'000;

v1::FlightRecord Record() {
  v1::FlightRecord record;
  record.set_job_id("j-1");
  record.set_generation(3);
  record.set_incident(2);
  record.add_hold_ups()->set_summary("rank 1 (worker w1) had not entered it");
  v1::RankTrace& rank = *record.add_ranks();
  rank.set_worker("w0");
  rank.set_taken_nanos(5000 * kMilli);
  v1::TraceSpan span;
  span.set_name("all_reduce");
  span.set_sequence(56);
  span.set_step(12);
  span.set_bucket(2);
  span.set_bytes(1024);
  span.set_start_nanos(2990 * kMilli);
  span.set_end_nanos(2999 * kMilli);
  *rank.add_spans() = span;
  span.set_sequence(57);
  span.set_bucket(-1);
  span.set_state(v1::SPAN_STATE_BROKEN_OFF);
  span.set_start_nanos(3000 * kMilli);
  span.set_end_nanos(4500 * kMilli);
  span.set_awaited_rank(1);
  span.set_waited_nanos(1400 * kMilli);
  *rank.add_spans() = span;
  v1::MissingRank& missing = *record.add_missing();
  missing.set_rank(1);
  missing.set_worker("w1");
  missing.set_reason("was lost");
  return record;
}

TEST(FlightViewTest, ShowsWhoHeldTheOthersUpAndTheLastCollectives) {
  const Style style{.width = 120};
  EXPECT_THAT(
      FlightLines(Record(), 1, style),
      ElementsAre(
          "j-1  flight record of incident 2, which ended generation 3",
          "held up:  rank 1 (worker w1) had not entered it",
          "RANK  WORKER  COLLECTIVE     STEP  BUCKET    BYTES  STATE       "
          "BEGAN  TOOK  WAITED FOR",
          "   0  w0      all_reduce 57    12       -  1.00KiB  broken off   "
          "2.0s  1.5s  rank 1, 1.4s"));
  EXPECT_EQ(FlightLines(Record(), 2, style).size(), 5u);
  EXPECT_THAT(MissingRankLines(Record()),
              ElementsAre("no record of rank 1 (worker w1): it was lost"));
}

TEST(FlightViewTest, ShowsWhatIsUnderWayAndWhatIsNot) {
  v1::FlightRecord record = Record();
  record.set_incident(0);
  record.clear_hold_ups();
  v1::TraceSpan& first = *record.mutable_ranks(0)->mutable_spans(0);
  first.set_state(v1::SPAN_STATE_UNDER_WAY);
  v1::TraceSpan& second = *record.mutable_ranks(0)->mutable_spans(1);
  second.set_state(v1::SPAN_STATE_QUEUED);
  second.set_is_on_device(true);
  second.clear_awaited_rank();
  EXPECT_THAT(
      FlightLines(record, 2, Style{.width = 120}),
      ElementsAre(
          "j-1  collectives of generation 3",
          "RANK  WORKER  COLLECTIVE              STEP  BUCKET    BYTES  STATE  "
          " "
          "     BEGAN  TOOK  WAITED FOR",
          "   0  w0      all_reduce 56             12       2  1.00KiB  under "
          "way     2.0s  2.0s  -",
          "   0  w0      all_reduce 57 (device)    12       -  1.00KiB  not "
          "entered      -     -  -"));
}

TEST(FlightViewTest, SaysThatThereIsNothing) {
  v1::FlightRecord record;
  record.set_job_id("j-1");
  EXPECT_THAT(FlightLines(record, 1, Style()),
              ElementsAre("j-1  collectives of generation 0",
                          "no rank has recorded a collective"));
}

}  // namespace
}  // namespace ringmaster::ctl
