#include "server/coordinator/rpc/flight_gathering.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;

class FlightGatheringTest : public ::testing::Test {
 protected:
  FlightGatheringTest()
      : gatherings_([this](SessionId session, v1::SessionResponse question) {
          sessions_.push_back(session);
          request_ = question.trace_request();
        }) {
    job_.id = "j-1";
    job_.generation = 4;
    for (int rank = 0; rank < 3; ++rank) {
      Worker worker;
      worker.name = absl::StrCat("w", rank);
      worker.session = static_cast<SessionId>(10 + rank);
      worker.incarnation = 1;
      worker.records_collectives = true;
      state_.workers[worker.name] = worker;
      Member member;
      member.identity.rank = rank;
      member.identity.worker = worker.name;
      member.identity.incarnation = 1;
      job_.members.push_back(member);
    }
  }

  void Ask(int incident) {
    GatherFlight asked = PresentFlight(job_);
    asked.incident = incident;
    AskForCollectives(
        state_, asked, now_,
        [this](auto record) {
          ASSERT_FALSE(record_.has_value()) << "replied twice";
          record_ = std::move(record);
        },
        gatherings_);
  }

  v1::SessionRequest Answer(int awaited_rank, int spans = 1) {
    v1::SessionRequest message;
    v1::TraceReply& reply = *message.mutable_trace_reply();
    reply.set_request_id(request_.request_id());
    reply.mutable_trace()->set_generation(4);
    reply.mutable_trace()->set_taken_nanos(1'000'000'000);
    for (int i = 1; i <= spans; ++i) {
      v1::TraceSpan& span = *reply.mutable_trace()->add_spans();
      span.set_name("all_reduce");
      span.set_track("communication");
      span.set_sequence(i);
      span.set_end_nanos(1);
      if (i < spans) continue;
      span.set_state(v1::SPAN_STATE_BROKEN_OFF);
      span.set_awaited_rank(awaited_rank);
      span.set_waited_nanos(500'000'000);
    }
    return message;
  }

  State state_;
  Job job_;
  MonotonicTime now_;
  std::vector<SessionId> sessions_;
  v1::TraceRequest request_;
  Gatherings gatherings_;
  std::optional<absl::StatusOr<v1::FlightRecord>> record_;
};

TEST_F(FlightGatheringTest, AsksWhoIsThereAndNamesWhoHeldTheOthersUp) {
  state_.workers.at("w1").incarnation = 2;  // another process by now
  Ask(3);
  EXPECT_THAT(sessions_, ElementsAre(10, 12));
  EXPECT_EQ(request_.generation(), 4);
  EXPECT_EQ(request_.max_bytes(), static_cast<int64_t>(kMaxFlightBytesOfOne));
  gatherings_.Add(12, Answer(1));
  gatherings_.Add(10, Answer(2));
  ASSERT_TRUE(record_.has_value() && record_->ok());
  const v1::FlightRecord& record = **record_;
  EXPECT_EQ(record.job_id(), "j-1");
  EXPECT_EQ(record.generation(), 4);
  EXPECT_EQ(record.incident(), 3);
  ASSERT_EQ(record.ranks_size(), 2);
  EXPECT_EQ(record.ranks(0).rank(), 0);
  EXPECT_EQ(record.ranks(1).worker(), "w2");
  EXPECT_EQ(record.ranks(1).spans(0).track(), "");
  ASSERT_EQ(record.missing_size(), 1);
  EXPECT_EQ(record.missing(0).rank(), 1);
  EXPECT_EQ(record.missing(0).reason(), "was lost");
  ASSERT_EQ(record.hold_ups_size(), 1);
  EXPECT_EQ(record.hold_ups(0).rank(), 1);
  EXPECT_EQ(record.hold_ups(0).waiting_count(), 2);
}

TEST_F(FlightGatheringTest, SaysWhyARankIsMissing) {
  state_.workers.at("w0").session = 0;
  state_.workers.at("w1").records_collectives = false;
  state_.workers.at("w1").version = "1.0";
  Ask(0);
  gatherings_.Expire(now_ + kGatherBudget);
  ASSERT_TRUE(record_.has_value() && record_->ok());
  ASSERT_EQ((*record_)->missing_size(), 3);
  EXPECT_EQ((*record_)->missing(0).reason(),
            "has no session with the coordinator at present");
  EXPECT_EQ((*record_)->missing(1).reason(),
            "is of an earlier release (1.0), which does not send its "
            "collectives");
  EXPECT_EQ((*record_)->missing(2).reason(), "did not answer within 2s");
}

TEST_F(FlightGatheringTest, AnswersThatCannotBeAreLeftOut) {
  Ask(0);
  gatherings_.Add(10, Answer(3));  // there is no such rank
  v1::SessionRequest stale = Answer(0);
  stale.mutable_trace_reply()->mutable_trace()->set_generation(3);
  gatherings_.Add(11, stale);
  gatherings_.Add(12, Answer(1));
  ASSERT_TRUE(record_.has_value() && record_->ok());
  ASSERT_EQ((*record_)->ranks_size(), 1);
  ASSERT_EQ((*record_)->missing_size(), 2);
  EXPECT_EQ((*record_)->missing(0).reason(), "named rank 3 of 3");
  EXPECT_EQ((*record_)->missing(1).reason(), "answered of generation 3");
}

// However much workers send, and however many they are.
TEST_F(FlightGatheringTest, ARecordIsBounded) {
  Ask(0);
  for (const SessionId session : {10, 11, 12})
    gatherings_.Add(session, Answer(0, 8000));
  ASSERT_TRUE(record_.has_value() && record_->ok());
  for (const v1::RankTrace& rank : (*record_)->ranks()) {
    size_t bytes = 0;
    for (const v1::TraceSpan& span : rank.spans()) bytes += span.ByteSizeLong();
    EXPECT_LE(bytes, kMaxFlightBytesOfOne);
    EXPECT_GT(bytes, kMaxFlightBytesOfOne - 100);
    EXPECT_EQ(rank.spans_size() + rank.left_out_count(), 8000);
    EXPECT_EQ(rank.spans().rbegin()->sequence(), 8000);
  }

  GatherFlight many = PresentFlight(job_);
  for (int rank = 3; rank < 4096; ++rank)
    many.members.push_back({rank, absl::StrCat("w", rank), 1});
  AskForCollectives(
      state_, many, now_, [](auto) {}, gatherings_);
  EXPECT_EQ(request_.max_bytes(), static_cast<int64_t>(kMaxFlightBytes / 4096));
}

TEST(FlightRecordsTest, KeepsTheLast) {
  FlightRecords records;
  for (int incident = 1; incident <= 9; ++incident) {
    v1::FlightRecord record;
    record.set_job_id("j-1");
    record.set_incident(incident);
    records.Keep(record);
  }
  EXPECT_EQ(records.Find("j-1", 1), nullptr);
  EXPECT_EQ(records.Find("j-2", 9), nullptr);
  ASSERT_NE(records.Find("j-1", 2), nullptr);
  EXPECT_EQ(records.Find("j-1", 9)->incident(), 9);
}

}  // namespace
}  // namespace ringmaster::coordinator
