#include "worker/agent/rpc/trace_reply.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

constexpr MonotonicTime kNow = MonotonicTime::FromNanos(5'000'000);

TraceSpan CollectiveOf(int64_t step, int64_t sequence) {
  return {.name = "all_reduce",
          .track = "communication",
          .step = step,
          .bytes = 1024,
          .ready = kNow,
          .start = kNow,
          .end = kNow,
          .sequence = sequence,
          .generation = 3};
}

v1::RankTrace RecordOf(const Trace& trace, const TrainProgress& progress,
                       int64_t max_bytes) {
  agent::SendTrace send;
  send.request.request_id = 7;
  send.request.generation = 3;
  send.request.max_bytes = max_bytes;
  const v1::SessionRequest message =
      ToMessage(send, WorkerIdentity(), trace, progress, kNow);
  EXPECT_EQ(message.trace_reply().request_id(), 7);
  return message.trace_reply().trace();
}

TEST(TraceReplyTest, ARecordIsBoundedInBytesAndSteps) {
  Trace trace(8192);
  for (int64_t sequence = 1; sequence <= 6400; ++sequence)
    trace.Record(CollectiveOf((sequence + 9) / 10, sequence));
  const v1::RankTrace large = RecordOf(trace, TrainProgress(), INT64_MAX);
  EXPECT_LE(large.ByteSizeLong(), kMaxFlightBytes + 4096);
  EXPECT_EQ(large.spans().rbegin()->sequence(), 6400);
  EXPECT_EQ(large.spans(0).step(), 640 - kRecordedSteps + 1);
  EXPECT_EQ(large.spans_size(), 10 * kRecordedSteps);
  EXPECT_EQ(large.left_out_count(), 0);
  EXPECT_EQ(large.taken_nanos(), kNow.nanos());

  const v1::RankTrace small = RecordOf(trace, TrainProgress(), 1000);
  EXPECT_LE(small.spans_size(), 1000 / 20);
  EXPECT_GT(small.spans_size(), 1000 / 80);
  EXPECT_EQ(small.spans().rbegin()->sequence(), 6400);
  EXPECT_EQ(small.spans_size() + small.left_out_count(), 10 * kRecordedSteps);
  EXPECT_EQ(RecordOf(trace, TrainProgress(), -5).spans_size(), 0);
}

TEST(TraceReplyTest, ARecordTellsWhomARankWaitsForNow) {
  Trace trace;
  TraceSpan span = CollectiveOf(4, 9);
  span.state = SpanState::kUnderWay;
  (void)trace.Open(span);
  TrainProgress progress;
  progress.generation = 3;
  progress.waiting_for_rank = 2;
  const v1::RankTrace now = RecordOf(trace, progress, 4096);
  ASSERT_EQ(now.spans_size(), 1);
  EXPECT_EQ(now.spans(0).state(), v1::SPAN_STATE_UNDER_WAY);
  EXPECT_EQ(now.spans(0).awaited_rank(), 2);

  // It waits in another generation by now.
  progress.generation = 4;
  EXPECT_FALSE(RecordOf(trace, progress, 4096).spans(0).has_awaited_rank());
}

}  // namespace
}  // namespace ringmaster
