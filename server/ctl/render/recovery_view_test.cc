#include "server/ctl/render/recovery_view.h"

#include <string>
#include <string_view>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

template <typename Message>
Message Parse(std::string_view text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(std::string(text),
                                                            &message));
  return message;
}

constexpr std::string_view kIncident = R"pb(
  number: 2
  verdict { worker: "w1" summary: "worker w1 was lost" }
  cost {
    detect { nanos: 300000000 }
    halt { nanos: 11000000 }
    assign { nanos: 0 }
    connect { nanos: 30000000 }
    first_step { nanos: 50000000 }
    total { nanos: 391000000 }
  }
  world_size_before: 3
  world_size_after: 2
  resume_step: 13
  is_over: true
)pb";

TEST(RecoveryLineTest, TellsTheCostByPhase) {
  EXPECT_EQ(RecoveryLine(Parse<v1::Incident>(kIncident)),
            "recovery: 391ms (detect 300ms, halt 11.0ms, assign 0s, connect "
            "30.0ms, first step 50.0ms), 3 -> 2 ranks, after step 13; "
            "interruption 2");
}

TEST(RecoveryLineTest, TellsThatItLastsAndWhatIsLost) {
  const auto incident = Parse<v1::Incident>(R"pb(
    number: 1
    cost {
      detect { seconds: 2 }
      total { seconds: 2 }
    }
    world_size_before: 3
    lost_steps: 7
    is_wanted: true
  )pb");
  EXPECT_EQ(
      RecoveryLine(incident),
      "recovery: 2.0s so far (detect 2.0s), 7 steps lost; interruption 1, "
      "wanted");
}

TEST(HoldUpLinesTest, NameWhoOthersWaitedFor) {
  auto incident = Parse<v1::Incident>(kIncident);
  EXPECT_TRUE(HoldUpLines(incident).empty());
  incident.add_hold_ups()->set_summary("rank 1 had not entered it\r");
  EXPECT_THAT(HoldUpLines(incident),
              ::testing::ElementsAre("held up:  rank 1 had not entered it?"));
  v1::ExplainJobResponse explanation;
  *explanation.mutable_last_incident() = incident;
  EXPECT_THAT(absl::StrJoin(ExplainLines(explanation, Style()), "\n"),
              HasSubstr("incident: worker w1 was lost\n"
                        "held up:  rank 1 had not entered it?\n"
                        "recovery: 391ms"));
}

TEST(GoodputLineTest, LeavesOutWhatTookNoTime) {
  const auto goodput = Parse<v1::Goodput>(R"pb(
    starting { seconds: 2 }
    training { seconds: 97 }
    recovering { seconds: 3 }
    ratio: 0.97
    incidents: 1
  )pb");
  EXPECT_EQ(GoodputLine(goodput),
            "goodput:  97% of the time since the first step (starting 2.0s, "
            "training 1m37s, recovering 3.0s); 1 interruption");
  EXPECT_EQ(GoodputLine({}),
            "goodput:  0% of the time since the first step; 0 interruptions");
}

TEST(ExplainLinesTest, ShowsWhyWhoAndWhatUnblocks) {
  auto explanation = Parse<v1::ExplainJobResponse>(R"pb(
    job_id: "gpt-1"
    state: JOB_STATE_GATHERING
    summary: "waits for workers: 1 of at least 2"
    reasons: "step 40 of 100 is held by 1 member"
    what_unblocks: "1 more worker in the pool"
    blocking_workers {
      worker: "w1"
      rank: 1
      host: "h1"
      last_heard_age { seconds: 2 nanos: 100000000 }
      phase: PHASE_STEP
      step: 40
      reason: "its stream broke"
    }
    blocking_workers { worker: "w9" rank: -1 host: "h2" reason: "is draining" }
    goodput {
      training { seconds: 5 }
      ratio: 0.5
      incidents: 2
    }
  )pb");
  *explanation.mutable_last_incident() = Parse<v1::Incident>(kIncident);
  EXPECT_EQ(
      "\n" + absl::StrJoin(ExplainLines(explanation, {.width = 60}), "\n"),
      R"(
gpt-1  GATHERING
why:      waits for workers: 1 of at least 2
          step 40 of 100 is held by 1 member
unblocks: 1 more worker in the pool

RANK  WORKER  HOST  LAST HEARD  STEP  PHASE  REASON
   1  w1      h1          2.1s    40  STEP   its stream b...
   -  w9      h2             -     -  -      is draining

incident: worker w1 was lost
recovery: 391ms (detect 300ms, halt 11.0ms, assign 0s,
          connect 30.0ms, first step 50.0ms), 3 -> 2 ranks,
          after step 13; interruption 2
goodput:  50% of the time since the first step (training
          5.0s); 2 interruptions)");
}

TEST(ExplainLinesTest, ShowsNoControlCharactersOfOthers) {
  v1::ExplainJobResponse explanation;
  explanation.set_job_id("a\x1b[2J");
  explanation.set_summary("b\x1b[2J");
  explanation.add_reasons("c\x1b[2J");
  explanation.set_what_unblocks("d\x1b[2J");
  v1::BlockingWorker& worker = *explanation.add_blocking_workers();
  worker.set_worker("e\x1b[2J");
  worker.set_host("f\x1b[2J");
  worker.set_reason("g\x1b[2J");
  explanation.mutable_last_incident()->mutable_verdict()->set_summary(
      "h\x1b[2J");
  EXPECT_THAT(absl::StrJoin(ExplainLines(explanation, {.width = 200}), "\n"),
              Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace ringmaster::ctl
