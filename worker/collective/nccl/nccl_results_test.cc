// Tests what NcclCommunicator computes: N ranks as threads, each with a GPU of
// its own.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/plan/partition.h"
#include "common/status/status_macros.h"
#include "worker/collective/nccl/testing/nccl_world.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

class NcclResultsTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    auto world = NcclWorld::Create({.world_size = GetParam()});
    if (absl::IsFailedPrecondition(world.status()) ||
        absl::IsInvalidArgument(world.status())) {
      GTEST_SKIP() << "a GPU for each rank: " << world.status();
    }
    ASSERT_TRUE(world.ok()) << world.status();
    world_ = *std::move(world);
    for (const absl::Status& status : world_->Connect()) {
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  void OnAll(const std::function<absl::Status(NcclRank&)>& body) {
    for (const absl::Status& status : world_->RunAll(body)) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }

  std::unique_ptr<NcclWorld> world_;
};

// A rank's element: small, so that every sum is exact in every dtype.
template <typename T>
T Element(int rank, int64_t i) {
  return static_cast<T>((rank + 1) * (i % 7 + 1));
}

template <typename T>
std::vector<T> Elements(int rank, int64_t count) {
  std::vector<T> elements(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    elements[static_cast<size_t>(i)] = Element<T>(rank, i);
  }
  return elements;
}

template <typename T>
T Reduced(Reduction reduction, int world_size, int64_t i) {
  const T first = Element<T>(0, i);
  const T last = Element<T>(world_size - 1, i);
  const T sum = static_cast<T>(first * world_size * (world_size + 1) / 2);
  switch (reduction) {
    case Reduction::kMax:
      return last;
    case Reduction::kMin:
      return first;
    case Reduction::kAverage:
      return static_cast<T>(sum / world_size);
    case Reduction::kSum:
      break;
  }
  return sum;
}

template <typename T>
absl::Status CheckAllReduce(NcclRank& rank, DType dtype, Reduction reduction,
                            int64_t count) {
  NcclCommunicator& communicator = *rank.communicator;
  DeviceBuffer<T> buffer(rank, Elements<T>(communicator.rank(), count));
  CollectiveRequest request = AllReduceSum(buffer.view(dtype));
  request.reduction = reduction;
  RETURN_IF_ERROR(communicator.Run(request, InTime()));
  const std::vector<T> result = buffer.Get();
  for (int64_t i = 0; i < count; ++i) {
    const T expected = Reduced<T>(reduction, communicator.world_size(), i);
    EXPECT_EQ(result[static_cast<size_t>(i)], expected)
        << DTypeName(dtype) << " " << ReductionName(reduction) << ", element "
        << i << " of " << count;
    if (result[static_cast<size_t>(i)] != expected) break;
  }
  return absl::OkStatus();
}

TEST_P(NcclResultsTest, ReducesAllElementsOnAllRanks) {
  OnAll([](NcclRank& rank) -> absl::Status {
    for (const int64_t count : {0, 1, 2, 5, 1000, 65'537}) {
      RETURN_IF_ERROR(
          CheckAllReduce<float>(rank, DType::kFloat32, Reduction::kSum, count));
    }
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax,
                                      Reduction::kMin, Reduction::kAverage}) {
      RETURN_IF_ERROR(
          CheckAllReduce<float>(rank, DType::kFloat32, reduction, 77));
      RETURN_IF_ERROR(
          CheckAllReduce<double>(rank, DType::kFloat64, reduction, 77));
      if (reduction == Reduction::kAverage) continue;
      RETURN_IF_ERROR(
          CheckAllReduce<int64_t>(rank, DType::kInt64, reduction, 77));
      RETURN_IF_ERROR(
          CheckAllReduce<int32_t>(rank, DType::kInt32, reduction, 77));
      RETURN_IF_ERROR(
          CheckAllReduce<uint8_t>(rank, DType::kUint8, reduction, 77));
    }
    return absl::OkStatus();
  });
}

// 1, and the world size, as they are in 16 bits.
TEST_P(NcclResultsTest, Reduces16BitFloats) {
  const auto half = [](int value) {
    return static_cast<uint16_t>(value == 1   ? 0x3C00
                                 : value == 2 ? 0x4000
                                 : value == 3 ? 0x4200
                                              : 0x4400);
  };
  const auto bfloat = [](int value) {
    return static_cast<uint16_t>(value == 1   ? 0x3F80
                                 : value == 2 ? 0x4000
                                 : value == 3 ? 0x4040
                                              : 0x4080);
  };
  OnAll([&](NcclRank& rank) -> absl::Status {
    const int n = rank.communicator->world_size();
    DeviceBuffer<uint16_t> a(rank, std::vector<uint16_t>(9, half(1)));
    DeviceBuffer<uint16_t> b(rank, std::vector<uint16_t>(9, bfloat(1)));
    RETURN_IF_ERROR(rank.communicator->Run(
        AllReduceSum(a.view(DType::kFloat16)), InTime()));
    RETURN_IF_ERROR(rank.communicator->Run(
        AllReduceSum(b.view(DType::kBFloat16)), InTime()));
    EXPECT_EQ(a.Get(), std::vector<uint16_t>(9, half(n)));
    EXPECT_EQ(b.Get(), std::vector<uint16_t>(9, bfloat(n)));
    return absl::OkStatus();
  });
}

TEST_P(NcclResultsTest, BroadcastsFromEveryRoot) {
  OnAll([](NcclRank& rank) -> absl::Status {
    NcclCommunicator& communicator = *rank.communicator;
    for (int root = 0; root < communicator.world_size(); ++root) {
      DeviceBuffer<float> buffer(rank,
                                 Elements<float>(communicator.rank(), 1001));
      RETURN_IF_ERROR(communicator.Run(
          Broadcast(buffer.view(DType::kFloat32), root), InTime()));
      EXPECT_EQ(buffer.Get(), Elements<float>(root, 1001)) << "root " << root;
    }
    return absl::OkStatus();
  });
}

// Chunks of one size, of several sizes, and empty ones.
TEST_P(NcclResultsTest, GathersAndScattersTheChunksOfEveryRank) {
  OnAll([](NcclRank& rank) -> absl::Status {
    NcclCommunicator& communicator = *rank.communicator;
    const int n = communicator.world_size();
    for (const int64_t count :
         {int64_t{1}, int64_t{n}, int64_t{12}, int64_t{1003}}) {
      const ElemRange own = ChunkOf(communicator.rank(), n, count);
      std::vector<int64_t> part(static_cast<size_t>(count), -1);
      for (int64_t i = own.begin; i < own.end(); ++i) {
        part[static_cast<size_t>(i)] = i;
      }
      DeviceBuffer<int64_t> gathered(rank, part);
      RETURN_IF_ERROR(
          communicator.Run(AllGather(gathered.view(DType::kInt64)), InTime()));
      const std::vector<int64_t> all = gathered.Get();
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(all[static_cast<size_t>(i)], i) << "of " << count;
      }

      DeviceBuffer<float> scattered(
          rank, Elements<float>(communicator.rank(), count));
      RETURN_IF_ERROR(communicator.Run(
          ReduceScatterSum(scattered.view(DType::kFloat32)), InTime()));
      const std::vector<float> sums = scattered.Get();
      for (int64_t i = own.begin; i < own.end(); ++i) {
        EXPECT_EQ(sums[static_cast<size_t>(i)],
                  Reduced<float>(Reduction::kSum, n, i))
            << "element " << i << " of " << count;
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(NcclResultsTest, NumbersBothKindsTogether) {
  OnAll([](NcclRank& rank) -> absl::Status {
    NcclCommunicator& communicator = *rank.communicator;
    const int64_t before = communicator.progress().started;
    DeviceBuffer<float> device(rank, {1, 2, 3});
    std::vector<int64_t> host = {1};
    ASSIGN_OR_RETURN(
        const Ticket first,
        communicator.Start(AllReduceSum(device.view(DType::kFloat32))));
    ASSIGN_OR_RETURN(const Ticket second,
                     communicator.Start(AllReduceSum(BufferView::Of(host))));
    RETURN_IF_ERROR(communicator.Run(Barrier(), InTime()));
    ASSIGN_OR_RETURN(
        const Ticket fourth,
        communicator.Start(AllReduceSum(device.view(DType::kFloat32))));
    EXPECT_EQ(first.sequence, 1);
    EXPECT_EQ(second.sequence, 2);
    EXPECT_EQ(fourth.sequence, 4);
    for (const Ticket ticket : {fourth, second, first, Ticket{3}}) {
      RETURN_IF_ERROR(communicator.Wait(ticket, InTime()));
    }
    EXPECT_EQ(host[0], communicator.world_size());
    const auto n = static_cast<float>(communicator.world_size());
    EXPECT_EQ(device.Get()[1], 2 * n * n);
    EXPECT_EQ(communicator.progress().started, before + 4);
    EXPECT_EQ(communicator.progress().completed,
              communicator.progress().started);
    EXPECT_EQ(communicator.Wait({5}, InTime()).code(),
              absl::StatusCode::kInvalidArgument);
    return absl::OkStatus();
  });
}

TEST_P(NcclResultsTest, RemembersTheOldestTickets) {
  OnAll([](NcclRank& rank) -> absl::Status {
    NcclCommunicator& communicator = *rank.communicator;
    DeviceBuffer<float> buffer(rank, {1});
    ASSIGN_OR_RETURN(
        const Ticket first,
        communicator.Start(AllReduceSum(buffer.view(DType::kFloat32))));
    for (int i = 0; i < 1100; ++i) {
      RETURN_IF_ERROR(communicator.Run(Barrier(), InTime()));
    }
    return communicator.Wait(first, InTime());
  });
}

// Makes work that is queued in `stream` from here on wait for `may_go`.
void Hold(CudaStream& stream, std::atomic<bool>& may_go) {
  stream.Check(cudaLaunchHostFunc(
                   stream.get(),
                   [](void* gate) {
                     while (!*static_cast<std::atomic<bool>*>(gate)) {
                       std::this_thread::yield();
                     }
                   },
                   &may_go),
               "a gate");
}

// The collective is started before the compute stream has written its input,
// and another stream uses its result without the host.
TEST_P(NcclResultsTest, WaitsForStreamsAndStreamsForIt) {
  OnAll([](NcclRank& rank) -> absl::Status {
    NcclCommunicator& communicator = *rank.communicator;
    const auto n = static_cast<float>(communicator.world_size());
    const std::vector<float> ones(1000, 1);
    DeviceBuffer<float> buffer(rank, std::vector<float>(1000, 100));
    DeviceBuffer<float> source(rank, ones);
    DeviceBuffer<float> copy(rank, std::vector<float>(1000, 0));
    ASSIGN_OR_RETURN(const auto later, CudaStream::Create("later"));
    std::atomic<bool> may_go = false;
    Hold(*rank.compute, may_go);
    rank.compute->CopyOnDevice(buffer.data(), source.data(), buffer.bytes());
    ASSIGN_OR_RETURN(
        const Ticket ticket,
        communicator.Start(AllReduceSum(buffer.view(DType::kFloat32))));
    RETURN_IF_ERROR(communicator.Run(Barrier(), InTime()));
    may_go = true;
    RETURN_IF_ERROR(communicator.WaitOnStream(ticket, *later, InTime()));
    later->CopyOnDevice(copy.data(), buffer.data(), buffer.bytes());
    RETURN_IF_ERROR(later->Synchronize());
    EXPECT_EQ(copy.Get(), std::vector<float>(1000, n));
    return communicator.Wait(ticket, InTime());
  });
}

// A part of a launched graph behaves the same.
TEST_P(NcclResultsTest, StartsAfterWhatTheComputeStreamSaysIsReady) {
  OnAll([](NcclRank& rank) -> absl::Status {
    NcclCommunicator& communicator = *rank.communicator;
    const auto n = static_cast<float>(communicator.world_size());
    DeviceBuffer<float> buffer(rank, {1, 2});
    ASSIGN_OR_RETURN(const auto ready, CudaEvent::Create());
    rank.compute->Record(*ready);
    // The collective does not wait for work queued behind the event.
    std::atomic<bool> may_end = false;
    Hold(*rank.compute, may_end);
    rank.compute->SetReady(ready.get());
    const absl::StatusOr<Ticket> ticket =
        communicator.Start(AllReduceSum(buffer.view(DType::kFloat32)));
    rank.compute->SetReady(nullptr);
    const absl::Status waited =
        ticket.ok() ? communicator.Wait(*ticket, InTime()) : ticket.status();
    may_end = true;
    RETURN_IF_ERROR(waited);
    EXPECT_EQ(buffer.Get(), std::vector<float>({n, 2 * n}));
    return absl::OkStatus();
  });
}

TEST_P(NcclResultsTest, CountsBytesAndTimeAndTraces) {
  OnAll([](NcclRank& rank) -> absl::Status {
    NcclCommunicator& communicator = *rank.communicator;
    const int64_t n = communicator.world_size();
    DeviceBuffer<float> buffer(rank, std::vector<float>(1200, 1));
    const WireCounters before = communicator.counters();
    CollectiveRequest request = AllReduceSum(buffer.view(DType::kFloat32));
    request.trace_label = 6;
    request.trace_step = 12;
    EXPECT_EQ(communicator.AlgorithmFor(request), Algorithm::kAuto);
    RETURN_IF_ERROR(communicator.Run(request, InTime()));
    const WireCounters after = communicator.counters();
    EXPECT_EQ(after.payload_sent_bytes - before.payload_sent_bytes,
              2 * 4800 * (n - 1) / n);
    EXPECT_EQ(after.payload_received_bytes - before.payload_received_bytes,
              2 * 4800 * (n - 1) / n);
    EXPECT_GE(communicator.AllReduceTime(), absl::ZeroDuration());
    EXPECT_LT(communicator.AllReduceTime(), absl::Seconds(20));

    const std::vector<TraceSpan> spans = rank.trace->Spans(12, 12);
    EXPECT_EQ(spans.size(), 1);
    if (spans.size() != 1) return absl::OkStatus();
    EXPECT_STREQ(spans[0].name, "all_reduce");
    EXPECT_STREQ(spans[0].track, "communication");
    EXPECT_EQ(spans[0].bucket, 6);
    EXPECT_EQ(spans[0].bytes, 4800);
    EXPECT_LE(spans[0].ready, spans[0].start);
    EXPECT_LE(spans[0].start, spans[0].end);
    return absl::OkStatus();
  });
}

TEST_P(NcclResultsTest, SplitsIntoGroups) {
  OnAll([](NcclRank& rank) -> absl::Status {
    NcclCommunicator& communicator = *rank.communicator;
    const int own = communicator.rank();
    if (communicator.world_size() == 1) {
      EXPECT_EQ(communicator.Split(0, 0, InTime()).status().code(),
                absl::StatusCode::kFailedPrecondition);
      return absl::OkStatus();
    }
    // Rank 0 in no group, the others in one, in reverse.
    const int color = own == 0 ? NcclComms::kNoColor : 1;
    ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> group,
                     communicator.Split(color, -own, InTime()));
    if (own == 0) {
      EXPECT_EQ(group, nullptr);
      return absl::OkStatus();
    }
    const int n = communicator.world_size();
    EXPECT_EQ(group->world_size(), n - 1);
    EXPECT_EQ(group->rank(), n - 1 - own);
    DeviceBuffer<float> buffer(rank, {1, static_cast<float>(own)});
    RETURN_IF_ERROR(
        group->Run(AllReduceSum(buffer.view(DType::kFloat32)), InTime()));
    EXPECT_EQ(buffer.Get()[0], static_cast<float>(n - 1));
    EXPECT_EQ(buffer.Get()[1], static_cast<float>(n * (n - 1) / 2));
    std::vector<float> host = {1};
    EXPECT_EQ(group->Start(AllReduceSum(BufferView::Of(host))).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(group->Wait({99}, InTime()).code(),
              absl::StatusCode::kInvalidArgument);
    return absl::OkStatus();
  });
}

TEST_P(NcclResultsTest, RefusesARequestAndGoesOn) {
  OnAll([](NcclRank& rank) -> absl::Status {
    NcclCommunicator& communicator = *rank.communicator;
    DeviceBuffer<float> buffer(rank, {1});
    CollectiveRequest request = AllReduceSum(buffer.view(DType::kFloat32));
    request.wire = DType::kBFloat16;
    EXPECT_THAT(std::string(communicator.Start(request).status().message()),
                HasSubstr("not as bfloat16"));
    return communicator.Run(AllReduceSum(buffer.view(DType::kFloat32)),
                            InTime());
  });
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, NcclResultsTest,
                         ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace ringmaster
