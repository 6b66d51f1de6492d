#include "worker/collective/host_communicator.h"

#include <memory>
#include <thread>
#include <vector>

#include "common/clock/testing/fake_clock.h"
#include "common/trace/trace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator.h"
#include "worker/collective/testing/world_of_threads.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

MonotonicTime Soon() { return Clock::Real().Now() + absl::Seconds(30); }

std::unique_ptr<WorldOfThreads> WorldOf(int world_size) {
  WorldOfThreads::Options options;
  options.world_size = world_size;
  return *WorldOfThreads::Create(options);
}

// Returns once the communicator's own thread waits for `rank`.
void AwaitWaitFor(int rank, const Communicator& communicator) {
  const MonotonicTime limit = Soon();
  while (communicator.progress().waiting_for_rank != rank) {
    ASSERT_LT(Clock::Real().Now(), limit);
    std::this_thread::yield();
  }
}

TEST(HostCommunicatorTest, AWorldOfOneKeepsTheOrderAndTheBuffer) {
  const auto world = WorldOf(1);
  Communicator& alone = world->communicator(0);
  std::vector<float> values = {1, 2, 3};
  const auto first =
      alone.Start(AllReduceSum(BufferView::Of(std::span<float>(values))));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->sequence, 1);
  EXPECT_TRUE(alone.Run(Barrier(), Soon()).ok());
  EXPECT_TRUE(alone.Wait(*first, MonotonicTime()).ok());
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(alone.progress().completed, 2);
  alone.Abort("over");
  EXPECT_TRUE(absl::IsAborted(alone.Start(Barrier()).status()));
  EXPECT_TRUE(alone.Wait(*first, Soon()).ok());
}

// A job that shrinks to one rank goes on with the numbers of the larger ones.
TEST(HostCommunicatorTest, AWorldOfOneRoundsAsTheWireOfOthersDoes) {
  const auto world = WorldOf(1);
  std::vector<float> values = {1 + 1.0f / 1024, 2};
  CollectiveRequest request =
      AllReduceSum(BufferView::Of(std::span<float>(values)));
  request.wire = DType::kBFloat16;
  EXPECT_TRUE(world->communicator(0).Run(request, Soon()).ok());
  EXPECT_EQ(values, (std::vector<float>{1, 2}));
}

TEST(HostCommunicatorTest, RefusesWhatItCannotDo) {
  const auto world = WorldOf(2);
  Communicator& communicator = world->communicator(0);
  std::vector<float> values(4);
  const BufferView good = BufferView::Of(std::span<float>(values));
  CollectiveRequest other_dtype = AllReduceSum(good);
  other_dtype.buffer.dtype = DType::kUint8;
  CollectiveRequest device = AllReduceSum(good);
  device.buffer.memory = MemoryKind::kCuda;
  CollectiveRequest negative = AllReduceSum(good);
  negative.buffer.count = -1;
  CollectiveRequest null = AllReduceSum(good);
  null.buffer.ptr = nullptr;
  CollectiveRequest barrier = Barrier();
  barrier.buffer = good;
  CollectiveRequest unknown = Barrier();
  unknown.op = static_cast<CollectiveOp>(77);
  for (const CollectiveRequest& request :
       {other_dtype, device, negative, null, barrier, unknown,
        Broadcast(good, 2), Broadcast(good, -1)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(communicator.Start(request).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(communicator.Run(request, Soon())));
  }
  EXPECT_EQ(communicator.progress().started, 0);
  EXPECT_TRUE(absl::IsInvalidArgument(communicator.Wait(Ticket{1}, Soon())));
  EXPECT_TRUE(absl::IsInvalidArgument(communicator.Wait(Ticket{0}, Soon())));
}

TEST(HostCommunicatorTest, TellsWhichAlgorithmARequestRunsAs) {
  WorldOfThreads::Options options;
  options.world_size = 3;
  options.algorithm = Algorithm::kHalvingDoubling;
  const auto world = *WorldOfThreads::Create(options);
  const Communicator& communicator = world->communicator(0);
  std::vector<float> values(4);
  CollectiveRequest request =
      AllReduceSum(BufferView::Of(std::span<float>(values)));
  EXPECT_EQ(communicator.AlgorithmFor(request), Algorithm::kHalvingDoubling);
  request.algorithm = Algorithm::kRing;
  EXPECT_EQ(communicator.AlgorithmFor(request), Algorithm::kRing);
  const auto by_size = WorldOf(3);
  request.algorithm = Algorithm::kAuto;
  EXPECT_NE(by_size->communicator(0).AlgorithmFor(request), Algorithm::kAuto);
}

TEST(HostCommunicatorTest, SaysSoWhenItsQueueIsFull) {
  const auto world = WorldOf(2);
  Communicator& communicator = world->communicator(0);
  absl::Status status;
  for (int i = 0; i < HostCommunicator::kMaxQueued + 2 && status.ok(); ++i) {
    status = communicator.Start(Barrier()).status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status));
}

TEST(HostCommunicatorTest, WaitsDeadlineNamesThePeer) {
  FakeClock clock;
  WorldOfThreads::Options options;
  options.world_size = 3;
  options.clock = &clock;
  const auto world = *WorldOfThreads::Create(options);
  Communicator& communicator = world->communicator(1);
  const Ticket ticket = *communicator.Start(Barrier());
  AwaitWaitFor(0, communicator);
  absl::Status status;
  const MonotonicTime deadline = clock.Now() + absl::Seconds(5);
  std::thread waiter([&] { status = communicator.Wait(ticket, deadline); });
  clock.AwaitWaiters(1);
  clock.Advance(absl::Seconds(6));
  waiter.join();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("rank 1 waited for rank 0"));
  EXPECT_EQ(communicator.progress().blamed_rank, 0);
  EXPECT_EQ(communicator.Start(Barrier()).status(), status);
}

// Rank 1 has given its part and waits, too; its next frame comes first among
// the channels, but is not what all wait for.
TEST(HostCommunicatorTest, TheAbsentRankIsBlamedAndNotOneThatWaitsForItToo) {
  FakeClock clock;
  WorldOfThreads::Options options;
  options.world_size = 3;
  options.algorithm = Algorithm::kDirect;
  options.clock = &clock;
  const auto world = *WorldOfThreads::Create(options);
  std::vector<std::vector<float>> values(2, std::vector<float>(3000));
  std::vector<Ticket> tickets;
  for (const int rank : {0, 1}) {
    tickets.push_back(*world->communicator(rank).Start(AllReduceSum(
        BufferView::Of(std::span<float>(values[static_cast<size_t>(rank)])))));
  }
  Communicator& communicator = world->communicator(0);
  AwaitWaitFor(2, communicator);
  absl::Status status;
  const MonotonicTime deadline = clock.Now() + absl::Seconds(5);
  std::thread waiter([&] { status = communicator.Wait(tickets[0], deadline); });
  clock.AwaitWaiters(1);
  clock.Advance(absl::Seconds(6));
  waiter.join();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("rank 0 waited for rank 2"));
  EXPECT_EQ(communicator.progress().blamed_rank, 2);
}

TEST(HostCommunicatorTest, AnAlgorithmThatCannotRunHereIsChosenAnew) {
  WorldOfThreads::Options options;
  options.world_size = 17;
  options.algorithm = Algorithm::kExchange;
  const auto world = *WorldOfThreads::Create(options);
  const auto statuses = world->RunAll([&](Communicator& communicator) {
    std::vector<float> values(10);
    return communicator.Run(
        AllReduceSum(BufferView::Of(std::span<float>(values))), Soon());
  });
  for (const absl::Status& status : statuses)
    EXPECT_TRUE(status.ok()) << status;
}

TEST(HostCommunicatorTest, RunsDeadlineNamesThePeer) {
  FakeClock clock;
  WorldOfThreads::Options options;
  options.world_size = 2;
  options.clock = &clock;
  const auto world = *WorldOfThreads::Create(options);
  std::vector<float> values(10);
  absl::Status status;
  const MonotonicTime deadline = clock.Now() + absl::Seconds(5);
  std::thread runner([&] {
    status = world->communicator(1).Run(
        AllReduceSum(BufferView::Of(std::span<float>(values))), deadline);
  });
  AwaitWaitFor(0, world->communicator(1));
  clock.Advance(absl::Seconds(6));
  runner.join();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("rank 1 waited for rank 0 (all_reduce, sequence 1"));
  EXPECT_EQ(world->communicator(1).progress().blamed_rank, 0);
}

TEST(HostCommunicatorTest, AbortWakesAWaitAndStaysTheStatus) {
  const auto world = WorldOf(2);
  Communicator& communicator = world->communicator(0);
  std::vector<float> values(1 << 20);
  const Ticket ticket = *communicator.Start(
      AllReduceSum(BufferView::Of(std::span<float>(values))));
  absl::Status status;
  std::thread waiter([&] { status = communicator.Wait(ticket, Soon()); });
  AwaitWaitFor(1, communicator);
  communicator.Abort("halt of generation 1");
  waiter.join();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("halt of generation 1"));
  EXPECT_EQ(communicator.Start(Barrier()).status(), status);
  EXPECT_EQ(communicator.Run(Barrier(), Soon()), status);
  EXPECT_EQ(communicator.Wait(ticket, Soon()), status);
}

TEST(HostCommunicatorTest, AbortOfOneRankUnblocksTheOthers) {
  const auto world = WorldOf(4);
  const auto statuses = world->RunAll([&](Communicator& communicator) {
    if (communicator.rank() == 2) {
      communicator.Abort("test");
      return absl::OkStatus();
    }
    return communicator.Run(Barrier(), Soon());
  });
  for (const int rank : {0, 1, 3})
    EXPECT_TRUE(absl::IsUnavailable(statuses[rank])) << rank;
}

TEST(HostCommunicatorTest, WhatWasCompleteBeforeAnAbortStaysComplete) {
  const auto world = WorldOf(2);
  std::vector<Ticket> tickets(2);
  world->RunAll([&](Communicator& communicator) {
    tickets[communicator.rank()] = *communicator.Start(Barrier());
    return communicator.Wait(tickets[communicator.rank()], Soon());
  });
  world->communicator(0).Abort("test");
  EXPECT_TRUE(world->communicator(0).Wait(tickets[0], Soon()).ok());
}

TEST(HostCommunicatorTest, DestructionWithWorkUnderWayEndsIt) {
  const auto world = WorldOf(2);
  std::vector<float> values(1 << 20);
  ASSERT_TRUE(world->communicator(0)
                  .Start(AllReduceSum(BufferView::Of(std::span<float>(values))))
                  .ok());
  world->Kill(0);
  const absl::Status status = world->communicator(1).Run(Barrier(), Soon());
  EXPECT_FALSE(status.ok());
}

TEST(HostCommunicatorTest, TracesEachCollective) {
  Trace trace0;
  Trace trace1;
  WorldOfThreads::Options options;
  options.traces = {&trace0, &trace1};
  const auto world = *WorldOfThreads::Create(options);
  world->RunAll([&](Communicator& communicator) {
    std::vector<float> values(100);
    CollectiveRequest request =
        AllReduceSum(BufferView::Of(std::span<float>(values)));
    request.trace_label = 3;
    request.trace_step = 17;
    const Ticket ticket = *communicator.Start(request);
    return communicator.Wait(ticket, Soon());
  });
  const std::vector<TraceSpan> spans = trace1.Spans();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_STREQ(spans[0].name, "all_reduce");
  EXPECT_STREQ(spans[0].track, "communication");
  EXPECT_EQ(spans[0].bucket, 3);
  EXPECT_EQ(spans[0].step, 17);
  EXPECT_EQ(spans[0].bytes, 400);
  EXPECT_LE(spans[0].ready, spans[0].start);
  EXPECT_LE(spans[0].start, spans[0].end);
  EXPECT_EQ(spans[0].state, SpanState::kEnded);
  EXPECT_EQ(spans[0].sequence, 1);
  EXPECT_EQ(spans[0].generation, 1);
  EXPECT_FALSE(spans[0].is_on_device);
}

// Returns the one collective that `trace` holds.
TraceSpan OnlyCollective(const Trace& trace) {
  const std::vector<TraceSpan> spans = trace.Collectives(1, 64);
  EXPECT_EQ(spans.size(), 1u);
  return spans.empty() ? TraceSpan() : spans[0];
}

TEST(HostCommunicatorTest, TheTraceHasACollectiveThatSomeoneDoesNotEnter) {
  Trace trace;
  WorldOfThreads::Options options;
  options.traces = {&trace, nullptr};
  const auto world = *WorldOfThreads::Create(options);
  Communicator& waiting = world->communicator(0);
  ASSERT_TRUE(waiting.Start(Barrier()).ok());
  AwaitWaitFor(1, waiting);
  EXPECT_EQ(OnlyCollective(trace).state, SpanState::kUnderWay);

  waiting.Abort("halted");
  EXPECT_FALSE(waiting.Wait(Ticket{1}, Soon()).ok());
  const TraceSpan span = OnlyCollective(trace);
  EXPECT_EQ(span.state, SpanState::kBrokenOff);
  EXPECT_STREQ(span.name, "barrier");
  EXPECT_EQ(span.awaited_rank, 1);
  EXPECT_FALSE(span.has_awaited_entered);
  EXPECT_GT(span.waited, absl::ZeroDuration());
  EXPECT_LE(span.start + span.waited, span.end);
}

}  // namespace
}  // namespace ringmaster
