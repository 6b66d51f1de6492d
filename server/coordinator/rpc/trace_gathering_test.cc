#include "server/coordinator/rpc/trace_gathering.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TraceGatheringTest : public ::testing::Test {
 protected:
  TraceGatheringTest()
      : gatherings_([this](SessionId session, v1::SessionResponse question) {
          asked_.push_back(session);
          request_ = question.trace_request();
        }) {
    for (int rank = 0; rank < 2; ++rank) {
      Worker worker;
      worker.name = "w" + std::to_string(rank);
      worker.session = 10 + rank;
      worker.incarnation = 1;
      state_.workers[worker.name] = worker;
      Member member;
      member.identity.rank = rank;
      member.identity.worker = worker.name;
      member.identity.incarnation = 1;
      job_.members.push_back(member);
    }
  }

  void Start() {
    GatherTrace(
        state_, job_, 3, 7, now_,
        [this](auto response) {
          ASSERT_FALSE(response_.has_value()) << "replied twice";
          response_ = std::move(response);
        },
        gatherings_);
  }

  v1::SessionRequest ReplyOf(int rank, size_t name_bytes = 7) {
    v1::SessionRequest message;
    v1::TraceReply& reply = *message.mutable_trace_reply();
    reply.set_request_id(request_.request_id());
    reply.mutable_trace()->set_rank(rank);
    reply.mutable_trace()->add_spans()->set_name(std::string(name_bytes, 'f'));
    return message;
  }

  State state_;
  Job job_;
  MonotonicTime now_;
  std::vector<SessionId> asked_;
  v1::TraceRequest request_;
  Gatherings gatherings_;
  std::optional<absl::StatusOr<v1::GetTraceResponse>> response_;
};

TEST_F(TraceGatheringTest, AsksAllMembersAndRepliesByRank) {
  Start();
  EXPECT_THAT(asked_, ElementsAre(10, 11));
  EXPECT_EQ(request_.first_step(), 3);
  EXPECT_EQ(request_.last_step(), 7);
  gatherings_.Add(11, ReplyOf(1));
  EXPECT_FALSE(response_.has_value());
  gatherings_.Add(10, ReplyOf(0));
  ASSERT_TRUE(response_.has_value() && response_->ok());
  ASSERT_EQ((*response_)->ranks_size(), 2);
  EXPECT_EQ((*response_)->ranks(0).rank(), 0);
  EXPECT_EQ((*response_)->ranks(1).rank(), 1);
  EXPECT_THAT((*response_)->missing_workers(), IsEmpty());
  EXPECT_EQ(gatherings_.NextDeadline(), MonotonicTime::InfiniteFuture());
}

TEST_F(TraceGatheringTest, ShowsTheRankOfAWorkerThatWasReleasedMeanwhile) {
  Start();
  gatherings_.Add(10, ReplyOf(-1));
  gatherings_.Add(11, ReplyOf(-1));
  ASSERT_TRUE(response_.has_value() && response_->ok());
  EXPECT_EQ((*response_)->ranks(0).rank(), 0);
  EXPECT_EQ((*response_)->ranks(1).rank(), 1);
  EXPECT_EQ((*response_)->ranks(1).worker(), "w1");
}

TEST_F(TraceGatheringTest, DoesNotAskWhoHasBegunAnotherJobSince) {
  Job later = job_;
  later.generation = job_.generation + 1;
  later.members.resize(1);
  state_.jobs[2] = later;
  Start();
  EXPECT_THAT(asked_, ElementsAre(11));
  gatherings_.Add(11, ReplyOf(1));
  ASSERT_TRUE(response_.has_value() && response_->ok());
  EXPECT_THAT((*response_)->missing_workers(), ElementsAre("w0"));
}

TEST_F(TraceGatheringTest, NamesWhoDoesNotAnswerInTime) {
  Start();
  gatherings_.Add(10, ReplyOf(0));
  EXPECT_EQ(gatherings_.NextDeadline(), now_ + kGatherBudget);
  gatherings_.Expire(now_ + kGatherBudget - absl::Nanoseconds(1));
  EXPECT_FALSE(response_.has_value());
  gatherings_.Expire(now_ + kGatherBudget);
  ASSERT_TRUE(response_.has_value() && response_->ok());
  EXPECT_EQ((*response_)->ranks_size(), 1);
  EXPECT_THAT((*response_)->missing_workers(), ElementsAre("w1"));
  gatherings_.Add(11, ReplyOf(1));  // too late: dropped
}

TEST_F(TraceGatheringTest, NamesWhoseSessionBreaksMeanwhile) {
  Start();
  gatherings_.Forget(11);
  gatherings_.Add(10, ReplyOf(0));
  ASSERT_TRUE(response_.has_value() && response_->ok());
  EXPECT_THAT((*response_)->missing_workers(), ElementsAre("w1"));
}

TEST_F(TraceGatheringTest, NamesMembersWithoutSessionAtOnce) {
  state_.workers.erase("w0");
  state_.workers.at("w1").incarnation = 2;  // another process by now
  Start();
  ASSERT_TRUE(response_.has_value() && response_->ok());
  EXPECT_THAT((*response_)->missing_workers(), ElementsAre("w0", "w1"));
}

TEST_F(TraceGatheringTest, IgnoresRepliesToOtherRequests) {
  Start();
  v1::SessionRequest reply = ReplyOf(0);
  reply.mutable_trace_reply()->set_request_id(999);
  gatherings_.Add(10, reply);
  gatherings_.Add(12, ReplyOf(2));  // was not asked
  gatherings_.Add(11, ReplyOf(1));
  EXPECT_FALSE(response_.has_value());
}

TEST_F(TraceGatheringTest, KeepsTheNewestStepsOfAnswersThatAreTooLong) {
  const auto reply_of = [this](int rank) {
    v1::SessionRequest message = ReplyOf(rank, 1 << 20);
    v1::RankTrace& trace = *message.mutable_trace_reply()->mutable_trace();
    trace.mutable_spans(0)->set_step(4);
    v1::TraceSpan& newer = *trace.add_spans();
    newer.set_name(std::string(1 << 20, 'f'));
    newer.set_step(5);
    return message;
  };
  Start();
  gatherings_.Add(10, reply_of(0));
  gatherings_.Add(11, reply_of(1));
  ASSERT_TRUE(response_.has_value());
  ASSERT_TRUE(response_->ok()) << response_->status();
  EXPECT_EQ((*response_)->first_fitting_step(), 5);
  for (const v1::RankTrace& rank : (*response_)->ranks()) {
    ASSERT_EQ(rank.spans_size(), 1);
    EXPECT_EQ(rank.spans(0).step(), 5);
  }
}

TEST_F(TraceGatheringTest, AbortAnswersAll) {
  Start();
  gatherings_.Abort(absl::UnavailableError("shutting down"));
  ASSERT_TRUE(response_.has_value());
  EXPECT_EQ(response_->status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ringmaster::coordinator
