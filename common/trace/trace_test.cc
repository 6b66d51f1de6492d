#include "common/trace/trace.h"

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ringmaster {
namespace {

TraceSpan SpanOfStep(int64_t step) {
  return {.name = "forward", .track = "compute", .step = step};
}

std::vector<int64_t> Steps(const std::vector<TraceSpan>& spans) {
  std::vector<int64_t> steps;
  for (const TraceSpan& span : spans) steps.push_back(span.step);
  return steps;
}

TEST(TraceTest, TellsTheStepsThatItStillHolds) {
  Trace trace(3);
  EXPECT_FALSE(trace.HeldSteps().has_value());
  for (int64_t step = 1; step <= 8; ++step) {
    trace.Record(SpanOfStep(step));
    EXPECT_EQ(trace.HeldSteps()->first, std::max<int64_t>(1, step - 2));
    EXPECT_EQ(trace.HeldSteps()->last, step);
  }
  trace.Clear();
  EXPECT_FALSE(trace.HeldSteps().has_value());
}

TEST(TraceTest, IsEmptyAtFirst) { EXPECT_TRUE(Trace(4).Spans().empty()); }

TEST(TraceTest, KeepsAllSpansUpToItsCapacity) {
  Trace trace(3);
  for (int64_t step = 1; step <= 3; ++step) trace.Record(SpanOfStep(step));
  EXPECT_EQ(Steps(trace.Spans()), (std::vector<int64_t>{1, 2, 3}));
}

TEST(TraceTest, ForgetsOnClear) {
  Trace trace(2);
  for (int64_t step = 1; step <= 3; ++step) trace.Record(SpanOfStep(step));
  trace.Clear();
  EXPECT_TRUE(trace.Spans().empty());
  trace.Record(SpanOfStep(4));
  EXPECT_EQ(trace.Spans().size(), 1u);
}

TEST(TraceTest, TheOldestSpansGiveWay) {
  Trace trace(3);
  for (int64_t step = 1; step <= 8; ++step) trace.Record(SpanOfStep(step));
  EXPECT_EQ(Steps(trace.Spans()), (std::vector<int64_t>{6, 7, 8}));
}

TEST(TraceTest, SelectsByStep) {
  Trace trace(8);
  for (int64_t step = 1; step <= 8; ++step) trace.Record(SpanOfStep(step));
  EXPECT_EQ(Steps(trace.Spans(3, 5)), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(Steps(trace.Spans(7)), (std::vector<int64_t>{7, 8}));
  EXPECT_TRUE(trace.Spans(9, 10).empty());
}

TraceSpan CollectiveOf(int64_t generation, int64_t step, int64_t sequence) {
  TraceSpan span = SpanOfStep(step);
  span.name = "all_reduce";
  span.generation = generation;
  span.sequence = sequence;
  return span;
}

std::vector<int64_t> Sequences(const std::vector<TraceSpan>& spans) {
  std::vector<int64_t> sequences;
  for (const TraceSpan& span : spans) sequences.push_back(span.sequence);
  return sequences;
}

TEST(TraceTest, SpansThatHaveNotEndedAreOnlyAmongTheCollectives) {
  Trace trace(8);
  TraceSpan span = CollectiveOf(3, 7, 21);
  span.state = SpanState::kUnderWay;
  const int64_t place = trace.Open(span);
  EXPECT_TRUE(trace.Spans().empty());
  ASSERT_EQ(trace.Collectives(3, 64).size(), 1u);
  EXPECT_EQ(trace.Collectives(3, 64)[0].state, SpanState::kUnderWay);

  span.state = SpanState::kBrokenOff;
  span.awaited_rank = 2;
  trace.Replace(place, span);
  ASSERT_EQ(trace.Spans().size(), 1u);
  EXPECT_EQ(trace.Spans()[0].awaited_rank, 2);
  EXPECT_EQ(trace.Collectives(3, 64)[0].state, SpanState::kBrokenOff);
}

TEST(TraceTest, ASpanThatGaveWayIsNotReplaced) {
  Trace trace(2);
  const int64_t place = trace.Open(CollectiveOf(1, 1, 1));
  trace.Record(SpanOfStep(2));
  trace.Record(SpanOfStep(3));
  trace.Replace(place, CollectiveOf(1, 1, 1));
  EXPECT_EQ(Steps(trace.Spans()), (std::vector<int64_t>{2, 3}));

  const int64_t cleared = trace.Open(CollectiveOf(1, 4, 2));
  trace.Clear();
  trace.Replace(cleared, CollectiveOf(1, 4, 2));
  EXPECT_TRUE(trace.Spans().empty());
}

TEST(TraceTest, HasTheCollectivesOfTheLastStepsOfAGeneration) {
  Trace trace(16);
  trace.Record(CollectiveOf(1, 9, 1));
  for (int64_t step = 5; step <= 8; ++step) {
    trace.Record(SpanOfStep(step));
    trace.Record(CollectiveOf(2, step, step));
  }
  EXPECT_EQ(Sequences(trace.Collectives(2, 64)),
            (std::vector<int64_t>{5, 6, 7, 8}));
  EXPECT_EQ(Sequences(trace.Collectives(2, 2)), (std::vector<int64_t>{7, 8}));
  EXPECT_EQ(Sequences(trace.Collectives(1, 64)), (std::vector<int64_t>{1}));
  EXPECT_TRUE(trace.Collectives(3, 64).empty());
}

TEST(TraceDeathTest, RefusesACapacityOfZero) {
  EXPECT_DEATH(Trace(0), "capacity");
}

TraceSpan ReductionOfBucket(int64_t bucket, MonotonicTime ready) {
  return {.name = "all_reduce",
          .track = "communication",
          .step = 5,
          .bucket = bucket,
          .bytes = 1024,
          .ready = ready,
          .start = ready + absl::Microseconds(3),
          .end = ready + absl::Microseconds(10)};
}

TEST(ChromeTraceTest, IsJsonWithAProcessARankAndAThreadATrack) {
  const MonotonicTime t0 = MonotonicTime::FromNanos(5'000'000'500);
  const TraceSpan backward = {.name = "backward",
                              .track = "compute",
                              .step = 5,
                              .ready = t0,
                              .start = t0,
                              .end = t0 + absl::Nanoseconds(2'500)};
  const std::string text = ToChromeTrace(
      {{.rank = 0,
        .worker = "node-\"a\"",
        .spans = {backward, ReductionOfBucket(2, t0)}},
       {.rank = 1,
        .worker = "",
        .spans = {ReductionOfBucket(2, t0 + absl::Seconds(100))}}});

  const nlohmann::json document = nlohmann::json::parse(text);
  std::map<std::string, nlohmann::json> by_key;
  for (const nlohmann::json& event : document["traceEvents"]) {
    by_key[event["pid"].dump() + event["ph"].get<std::string>() +
           event["name"].get<std::string>() + event["tid"].dump()] = event;
  }
  EXPECT_EQ(by_key["0Mprocess_name0"]["args"]["name"], "rank 0 (node-\"a\")");
  EXPECT_EQ(by_key["1Mprocess_name0"]["args"]["name"], "rank 1");
  EXPECT_EQ(by_key["0Mthread_name0"]["args"]["name"], "compute");
  EXPECT_EQ(by_key["0Mthread_name1"]["args"]["name"], "communication");

  const nlohmann::json& compute = by_key["0Xbackward0"];
  EXPECT_EQ(compute["ts"], 0.0);
  EXPECT_EQ(compute["dur"], 2.5);
  EXPECT_EQ(compute["args"], (nlohmann::json{{"step", 5}}));

  const nlohmann::json& reduction = by_key["0Xall_reduce1"];
  EXPECT_EQ(reduction["ts"], 3.0);
  EXPECT_EQ(reduction["dur"], 7.0);
  EXPECT_EQ(
      reduction["args"],
      (nlohmann::json{
          {"step", 5}, {"bucket", 2}, {"bytes", 1024}, {"wait_us", 3.0}}));

  // Rank 1's clock has another origin; its first span starts at 0 too.
  EXPECT_EQ(by_key["1Xall_reduce0"]["ts"], 0.0);
}

TEST(ChromeTraceTest, OfNoRanksIsAnEmptyDocument) {
  const nlohmann::json document = nlohmann::json::parse(ToChromeTrace({}));
  EXPECT_TRUE(document["traceEvents"].empty());
}

TEST(ChromeTraceTest, ReplacesAWorkersBadUtf8) {
  const std::string text =
      ToChromeTrace({{.rank = 0, .worker = "\xff", .spans = {}}});
  EXPECT_FALSE(nlohmann::json::parse(text)["traceEvents"].empty());
}

}  // namespace
}  // namespace ringmaster
