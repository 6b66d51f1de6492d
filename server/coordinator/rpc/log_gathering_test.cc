#include "server/coordinator/rpc/log_gathering.h"

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

class LogGatheringTest : public ::testing::Test {
 protected:
  LogGatheringTest() {
    job_.id = "words-1";
    for (int rank = 0; rank < 2; ++rank) {
      Worker& worker = AddWorker(absl::StrCat("w", rank), 10 + rank);
      Member member;
      member.identity.rank = rank;
      member.identity.worker = worker.name;
      member.identity.incarnation = worker.incarnation;
      job_.members.push_back(member);
    }
  }

  Worker& AddWorker(const std::string& name, SessionId session) {
    HelloReceived hello;
    hello.name = name;
    hello.host = "alpha";
    hello.sends_logs = true;
    hello.log_file = absl::StrCat("/var/log/", name);
    places_.Note(hello);
    Worker& worker = state_.workers[name];
    worker.name = name;
    worker.session = session;
    worker.incarnation = static_cast<uint64_t>(100 + session);
    worker.version = "1.2.3";
    worker.sends_logs = true;
    return worker;
  }

  void Ask(const v1::GetLogsRequest& request) {
    state_.jobs[1] = job_;
    GatherLogs(
        state_, events_, places_, request, now_,
        [this](auto response) {
          ASSERT_FALSE(response_.has_value()) << "replied twice";
          response_ = std::move(response);
        },
        gatherings_);
  }
  void AskJob() {
    v1::GetLogsRequest request;
    request.set_job("words-1");
    Ask(request);
  }
  void AskWorker(const std::string& worker) {
    v1::GetLogsRequest request;
    request.set_worker(worker);
    Ask(request);
  }

  // `lines` lines of `bytes` each.
  v1::SessionRequest AnswerTo(SessionId session, int lines, size_t bytes = 1) {
    v1::SessionRequest message;
    v1::LogReply& reply = *message.mutable_log_reply();
    reply.set_request_id(asked_.at(session).request_id());
    for (int i = 1; i <= lines; ++i) {
      v1::LogLine& line = *reply.mutable_page()->add_lines();
      line.set_sequence(i);
      line.set_event(std::string(bytes, 'e'));
    }
    return message;
  }

  // The only one that is missing.
  const v1::MissingLog& Missing() {
    EXPECT_TRUE(response_.has_value() && response_->ok());
    EXPECT_EQ((*response_)->missing_size(), 1);
    return (*response_)->missing(0);
  }

  State state_;
  Job job_;
  EventLog events_;
  LogPlaces places_;
  MonotonicTime now_;
  std::map<SessionId, v1::LogRequest> asked_;
  Gatherings gatherings_{
      [this](SessionId session, v1::SessionResponse message) {
        asked_[session] = message.log_request();
      }};
  std::optional<absl::StatusOr<v1::GetLogsResponse>> response_;
};

TEST_F(LogGatheringTest, AsksEveryMemberOfAJobAndAnswersByRank) {
  v1::GetLogsRequest request;
  request.set_job("words-1");
  request.mutable_filter()->set_tail(7);
  v1::LogCursor& cursor = *request.add_cursors();
  cursor.set_incarnation(111);
  cursor.set_sequence(40);
  Ask(request);
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_EQ(asked_[10].filter().tail(), 7);
  EXPECT_EQ(asked_[10].after_sequence(), 0);
  EXPECT_EQ(asked_[11].after_sequence(), 40);
  EXPECT_EQ(asked_[10].max_bytes(), static_cast<int64_t>(kMaxLogBytesOfOne));
  gatherings_.Add(11, AnswerTo(11, 1));
  gatherings_.Add(10, AnswerTo(10, 2));
  ASSERT_TRUE(response_.has_value() && response_->ok());
  ASSERT_EQ((*response_)->logs_size(), 2);
  EXPECT_EQ((*response_)->logs(0).name(), "w0");
  EXPECT_EQ((*response_)->logs(0).page().lines_size(), 2);
  EXPECT_EQ((*response_)->logs(1).rank(), 1);
  EXPECT_EQ((*response_)->logs(1).incarnation(), 111u);
}

TEST_F(LogGatheringTest, ManyMembersShareTheRoomOfAnAnswer) {
  for (int rank = 2; rank < 12; ++rank) {
    const Worker& worker = AddWorker(absl::StrCat("w", rank), 10 + rank);
    Member member;
    member.identity.rank = rank;
    member.identity.worker = worker.name;
    member.identity.incarnation = worker.incarnation;
    job_.members.push_back(member);
  }
  AskJob();
  EXPECT_EQ(asked_[10].max_bytes(), static_cast<int64_t>(kMaxLogBytes / 12));
}

TEST_F(LogGatheringTest, KeepsTheNewestLinesOfAnAnswerThatIsTooLong) {
  AskWorker("w0");
  gatherings_.Add(10, AnswerTo(10, 3, kMaxLogBytesOfOne / 2 - 100));
  ASSERT_TRUE(response_.has_value() && response_->ok());
  const v1::LogPage& page = (*response_)->logs(0).page();
  ASSERT_EQ(page.lines_size(), 2);
  EXPECT_EQ(page.lines(0).sequence(), 2);
  EXPECT_EQ(page.left_out_count(), 1);
}

TEST_F(LogGatheringTest, AWorkerOutsideOfAnyJobIsAskedByItsName) {
  AddWorker("idle", 30);
  AskWorker("idle");
  ASSERT_TRUE(asked_.contains(30));
  gatherings_.Add(30, AnswerTo(30, 1));
  ASSERT_TRUE(response_.has_value() && response_->ok());
  EXPECT_EQ((*response_)->logs(0).rank(), -1);
}

TEST_F(LogGatheringTest, AnEarlierReleaseIsNotAsked) {
  state_.workers["w0"].sends_logs = false;
  AskWorker("w0");
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(Missing().worker(), "w0");
  EXPECT_EQ(Missing().reason(),
            "is of an earlier release (1.2.3), which does not send its log");
}

TEST_F(LogGatheringTest, OfAWorkerThatIsGoneItSaysWhyAndWhereItsLogLies) {
  v1::Event event;
  event.set_worker("w0");
  event.set_message("worker w0 was lost: its stream broke");
  events_.Append(event);
  state_.workers.erase("w0");
  AskWorker("w0");
  EXPECT_EQ(Missing().reason(),
            "is gone: worker w0 was lost: its stream broke");
  EXPECT_EQ(Missing().host(), "alpha");
  EXPECT_EQ(Missing().log_file(), "/var/log/w0");
}

TEST_F(LogGatheringTest, AMemberThatWasStartedAgainIsNotTakenForItself) {
  state_.workers["w0"].incarnation = 999;
  AskJob();
  gatherings_.Add(11, AnswerTo(11, 1));
  EXPECT_EQ(Missing().worker(), "w0");
  EXPECT_THAT(Missing().reason(), HasSubstr("was started again since"));
}

TEST_F(LogGatheringTest, AWorkerWithoutASessionIsNamed) {
  state_.workers["w0"].session = 0;
  AskWorker("w0");
  EXPECT_THAT(Missing().reason(), HasSubstr("no session"));
}

TEST_F(LogGatheringTest, WhoDoesNotAnswerIsNamed) {
  AskJob();
  gatherings_.Add(10, AnswerTo(10, 1));
  gatherings_.Expire(now_ + kGatherBudget);
  EXPECT_EQ(Missing().worker(), "w1");
  EXPECT_EQ(Missing().reason(), "did not answer within 2s");
}

TEST_F(LogGatheringTest, NobodyOfTheNameIsAnError) {
  AskWorker("nobody");
  ASSERT_TRUE(response_.has_value());
  EXPECT_EQ(response_->status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(response_->status().message()), HasSubstr("nobody"));
}

TEST_F(LogGatheringTest, AnUnknownJobIsAnError) {
  v1::GetLogsRequest request;
  request.set_job("other");
  Ask(request);
  ASSERT_TRUE(response_.has_value());
  EXPECT_EQ(ReasonOf(response_->status()), reason::kJobNotFound);
}

TEST_F(LogGatheringTest, ChecksTheRequest) {
  v1::GetLogsRequest request;
  EXPECT_EQ(ReasonOf(CheckLogs(request)), reason::kInvalidRequest);
  request.set_worker("w0");
  EXPECT_TRUE(CheckLogs(request).ok());
  request.mutable_filter()->set_tail(-1);
  EXPECT_EQ(ReasonOf(CheckLogs(request)), reason::kInvalidRequest);
}

TEST(LogPlacesTest, OfAnEarlierReleaseNoPlaceIsKnown) {
  LogPlaces places;
  HelloReceived hello;
  hello.name = "w0";
  hello.host = "alpha";
  places.Note(hello);
  ASSERT_NE(places.Find("w0"), nullptr);
  EXPECT_EQ(places.Find("w0")->host, "");
}

TEST(LogPlacesTest, RemembersABoundedNumberOfNames) {
  LogPlaces places;
  HelloReceived hello;
  for (int i = 0; i < 5000; ++i) {
    hello.name = absl::StrCat("w", i);
    places.Note(hello);
  }
  EXPECT_EQ(places.Find("w0"), nullptr);
  EXPECT_NE(places.Find("w4999"), nullptr);
}

}  // namespace
}  // namespace ringmaster::coordinator
