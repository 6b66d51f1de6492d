#include "server/coordinator/rpc/gatherings.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What became of a question.
struct Outcome {
  std::vector<std::string> notes;  // "w0 answered", "w1 did not ..."
  std::optional<absl::Status> end;
};

// Asks for log lines, or for traces.
class FakeGathering final : public Gathering {
 public:
  explicit FakeGathering(Outcome& outcome, bool is_trace = false)
      : outcome_(outcome), is_trace_(is_trace) {}

  v1::SessionResponse QuestionTo(const std::string& /*worker*/,
                                 int64_t request_id) const override {
    v1::SessionResponse message;
    message.mutable_log_request()->set_request_id(request_id);
    return message;
  }
  int64_t IdIn(const v1::SessionRequest& message) const override {
    return is_trace_ ? message.trace_reply().request_id()
                     : message.log_reply().request_id();
  }
  void Add(const std::string& worker, v1::SessionRequest /*answer*/) override {
    outcome_.notes.push_back(absl::StrCat(worker, " answered"));
  }
  void Miss(const std::string& worker, const std::string& why) override {
    outcome_.notes.push_back(absl::StrCat(worker, " ", why));
  }
  void Finish(const absl::Status& status) override {
    ASSERT_FALSE(outcome_.end.has_value()) << "finished twice";
    outcome_.end = status;
  }

 private:
  Outcome& outcome_;
  const bool is_trace_;
};

class GatheringsTest : public ::testing::Test {
 protected:
  void Start(Outcome& outcome, bool is_trace = false) {
    gatherings_.Start(std::make_unique<FakeGathering>(outcome, is_trace),
                      {{10, "w0"}, {11, "w1"}}, now_);
  }

  static v1::SessionRequest LogAnswer(int64_t id) {
    v1::SessionRequest message;
    message.mutable_log_reply()->set_request_id(id);
    return message;
  }

  MonotonicTime now_;
  std::vector<SessionId> asked_;
  int64_t last_id_ = 0;
  Gatherings gatherings_{
      [this](SessionId session, v1::SessionResponse message) {
        asked_.push_back(session);
        last_id_ = message.log_request().request_id();
      }};
};

TEST_F(GatheringsTest, AsksAllAndFinishesWithTheLastAnswer) {
  Outcome outcome;
  Start(outcome);
  EXPECT_THAT(asked_, ElementsAre(10, 11));
  gatherings_.Add(11, LogAnswer(last_id_));
  gatherings_.Add(11, LogAnswer(last_id_));  // has answered already
  EXPECT_FALSE(outcome.end.has_value());
  gatherings_.Add(10, LogAnswer(last_id_));
  EXPECT_THAT(outcome.notes, ElementsAre("w1 answered", "w0 answered"));
  EXPECT_EQ(outcome.end, absl::OkStatus());
}

TEST_F(GatheringsTest, AnswersOfAnotherKindAreNotTaken) {
  Outcome outcome;
  Start(outcome, /*is_trace=*/true);
  gatherings_.Add(10, LogAnswer(last_id_));
  EXPECT_THAT(outcome.notes, IsEmpty());
}

TEST_F(GatheringsTest, SeveralAtOnceGetTheirOwnAnswers) {
  Outcome first;
  Start(first);
  const int64_t first_id = last_id_;
  Outcome second;
  Start(second);
  ASSERT_NE(first_id, last_id_);
  gatherings_.Add(10, LogAnswer(last_id_));
  EXPECT_THAT(first.notes, IsEmpty());
  EXPECT_THAT(second.notes, ElementsAre("w0 answered"));
}

TEST_F(GatheringsTest, SaysWhyAnAnswerIsMissing) {
  Outcome outcome;
  Start(outcome);
  gatherings_.Forget(10);
  EXPECT_EQ(gatherings_.NextDeadline(), now_ + kGatherBudget);
  gatherings_.Expire(now_ + kGatherBudget);
  EXPECT_THAT(outcome.notes, ElementsAre("w0 left before it answered",
                                         "w1 did not answer within 2s"));
  EXPECT_EQ(outcome.end, absl::OkStatus());
  EXPECT_EQ(gatherings_.NextDeadline(), MonotonicTime::InfiniteFuture());
}

TEST_F(GatheringsTest, NobodyToAskFinishesAtOnce) {
  Outcome outcome;
  gatherings_.Start(std::make_unique<FakeGathering>(outcome), {}, now_);
  EXPECT_EQ(outcome.end, absl::OkStatus());
}

TEST_F(GatheringsTest, TooManyAtOnceAreRefused) {
  std::vector<Outcome> outcomes(Limits().gatherings);
  for (Outcome& outcome : outcomes) Start(outcome);
  Outcome refused;
  Start(refused);
  ASSERT_TRUE(refused.end.has_value());
  EXPECT_EQ(*refused.end,
            absl::ResourceExhaustedError(
                "the coordinator has 32 questions to workers under way, as "
                "many as --max_gatherings allows; try again later"));
  gatherings_.Expire(now_ + kGatherBudget);
  Outcome later;
  Start(later);
  EXPECT_FALSE(later.end.has_value());
}

TEST_F(GatheringsTest, AbortEndsAll) {
  Outcome outcome;
  Start(outcome);
  gatherings_.Abort(absl::UnavailableError("shutting down"));
  ASSERT_TRUE(outcome.end.has_value());
  EXPECT_EQ(outcome.end->code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ringmaster::coordinator
