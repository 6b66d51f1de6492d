// Tests how NcclCommunicator fails: N ranks as threads, each with a GPU of its
// own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/status/status_macros.h"
#include "worker/collective/nccl/testing/nccl_world.h"
#ifdef RINGMASTER_NCCL_EMULATED
#include "worker/device/cuda/emulator/nccl_emulator.h"
#endif

namespace ringmaster {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class NcclFaultsTest : public ::testing::Test {
 protected:
  // Makes the ranks; a test skips where there are too few GPUs.
  void Make(const NcclWorld::Options& options) {
    auto world = NcclWorld::Create(options);
    if (absl::IsFailedPrecondition(world.status()) ||
        absl::IsInvalidArgument(world.status())) {
      GTEST_SKIP() << "a GPU for each rank: " << world.status();
    }
    ASSERT_TRUE(world.ok()) << world.status();
    world_ = *std::move(world);
  }
  void MakeAndConnect(const NcclWorld::Options& options) {
    Make(options);
    if (IsSkipped()) return;
    for (const absl::Status& status : world_->Connect()) {
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  std::unique_ptr<NcclWorld> world_;
};

#define MAKE_OR_SKIP(...)               \
  Make(NcclWorld::Options __VA_ARGS__); \
  if (IsSkipped() || HasFatalFailure()) return
#define CONNECT_OR_SKIP(...)                      \
  MakeAndConnect(NcclWorld::Options __VA_ARGS__); \
  if (IsSkipped() || HasFatalFailure()) return

TEST_F(NcclFaultsTest, NamesTwoRanksOnOneGpu) {
  MAKE_OR_SKIP({.world_size = 2, .device_of_rank = {0, 0}});
  for (const absl::Status& status : world_->Connect()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), HasSubstr("rank 0 ("));
    EXPECT_THAT(Message(status), HasSubstr("and rank 1 ("));
    EXPECT_THAT(Message(status), HasSubstr("both use GPU-"));
    EXPECT_THAT(Message(status), HasSubstr("RINGMASTER_SHARE_GPU"));
  }
}

TEST_F(NcclFaultsTest, GivesUpWhenARankDoesNotCome) {
  MAKE_OR_SKIP(
      {.world_size = 2, .present = {0}, .timeout = absl::Milliseconds(200)});
  const MonotonicTime begin = Clock::Real().Now();
  const absl::Status status = world_->Connect()[0];
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(Message(status), HasSubstr("rank 1")) << status;
  EXPECT_LT(Clock::Real().Now() - begin, absl::Seconds(5));
}

TEST_F(NcclFaultsTest, IsCancelledWhileARankDoesNotCome) {
  MAKE_OR_SKIP({.world_size = 2, .present = {0}});
  const MonotonicTime begin = Clock::Real().Now();
  std::thread canceller([this] {
    absl::SleepFor(absl::Milliseconds(50));
    world_->rank(0).cancel.Cancel("the generation is over");
  });
  const absl::Status status = world_->Connect()[0];
  canceller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(Message(status), HasSubstr("the generation is over"));
  EXPECT_LT(Clock::Real().Now() - begin, absl::Seconds(2));
}

TEST_F(NcclFaultsTest, AbortFromAnotherThreadUnblocksWait) {
  CONNECT_OR_SKIP({.world_size = 2});
  NcclRank& rank = world_->rank(0);
  DeviceBuffer<float> buffer(rank, std::vector<float>(100, 1));
  // Connect the two; then rank 1 does not come.
  for (const absl::Status& status : world_->RunAll([](NcclRank& each) {
         DeviceBuffer<float> one(each, {1});
         return each.communicator->Run(AllReduceSum(one.view(DType::kFloat32)),
                                       InTime());
       })) {
    ASSERT_TRUE(status.ok()) << status;
  }
  ASSERT_TRUE(rank.device->MakeCurrent().ok());
  const auto ticket =
      rank.communicator->Start(AllReduceSum(buffer.view(DType::kFloat32)));
  ASSERT_TRUE(ticket.ok()) << ticket.status();
  std::thread aborter([&rank] {
    absl::SleepFor(absl::Milliseconds(50));
    rank.communicator->Abort("the coordinator says so");
  });
  const MonotonicTime begin = Clock::Real().Now();
  const absl::Status status = rank.communicator->Wait(*ticket, InTime());
  EXPECT_LT(Clock::Real().Now() - begin, absl::Seconds(1));
  aborter.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Message(status),
            "rank 0 was aborted at generation 3: the coordinator says so");
  // It failed for good, for both kinds; completed collectives stay completed.
  EXPECT_EQ(rank.communicator->Run(Barrier(), InTime()), status);
  EXPECT_EQ(rank.communicator->Start(AllReduceSum(buffer.view(DType::kFloat32)))
                .status(),
            status);
  EXPECT_TRUE(rank.communicator->Wait({1}, InTime()).ok());
  rank.communicator.reset();
  EXPECT_TRUE(rank.hung.ok()) << rank.hung;
}

TEST_F(NcclFaultsTest, ADeadlineNamesTheCollective) {
  CONNECT_OR_SKIP({.world_size = 2});
  NcclRank& rank = world_->rank(1);
  ASSERT_TRUE(rank.device->MakeCurrent().ok());
  DeviceBuffer<float> buffer(rank, std::vector<float>(100, 1));
  CollectiveRequest request = AllReduceSum(buffer.view(DType::kFloat32));
  request.trace_label = 4;
  request.trace_step = 17;
  const absl::Status status = rank.communicator->Run(
      request, Clock::Real().Now() + absl::Milliseconds(100));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status),
              HasSubstr("rank 1 of generation 3 has waited too long for NCCL's "
                        "collective 1, all_reduce of 100 float32 (bucket 4 of "
                        "step 17); 0 are complete"));
  EXPECT_EQ(rank.communicator->Run(Barrier(), InTime()), status);
  rank.communicator.reset();
}

TEST_F(NcclFaultsTest, ARankThatGoesFreesTheOthers) {
  CONNECT_OR_SKIP({.world_size = 3});
  const auto statuses = world_->RunAll([](NcclRank& rank) -> absl::Status {
    const int own = rank.communicator->rank();
    DeviceBuffer<float> buffer(rank, std::vector<float>(1000, 1));
    const CollectiveRequest request =
        AllReduceSum(buffer.view(DType::kFloat32));
    RETURN_IF_ERROR(rank.communicator->Run(request, InTime()));
    const MonotonicTime begin = Clock::Real().Now();
    absl::Status status;
    if (own != 2) status = rank.communicator->Run(request, InTime());
    EXPECT_LT(Clock::Real().Now() - begin, absl::Seconds(1));
    rank.communicator.reset();
    EXPECT_TRUE(rank.hung.ok()) << rank.hung;
    return status;
  });
  for (const int rank : {0, 1}) {
    EXPECT_THAT(
        statuses[static_cast<size_t>(rank)].code(),
        AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kAborted))
        << statuses[static_cast<size_t>(rank)];
  }
}

TEST_F(NcclFaultsTest, AFailureOfTheHostMeshFailsTheDevice) {
  CONNECT_OR_SKIP({.world_size = 2});
  NcclRank& rank = world_->rank(0);
  ASSERT_TRUE(rank.device->MakeCurrent().ok());
  DeviceBuffer<float> buffer(rank, {1});
  const auto ticket =
      rank.communicator->Start(AllReduceSum(buffer.view(DType::kFloat32)));
  ASSERT_TRUE(ticket.ok()) << ticket.status();
  const absl::Status status = rank.communicator->Run(
      Barrier(), Clock::Real().Now() + absl::Milliseconds(50));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status), HasSubstr("rank 1"));
  EXPECT_EQ(rank.communicator->Wait(*ticket, InTime()), status);
  rank.communicator.reset();
}

TEST_F(NcclFaultsTest, RegistersAnArena) {
  std::vector<Allocation> arenas(2);
  MAKE_OR_SKIP({.world_size = 2, .arena = [&arenas](NcclRank& rank) {
                  Allocation& arena =
                      arenas[static_cast<size_t>(rank.device->ordinal())];
                  arena = *rank.device->allocator().Allocate(4096);
                  return BufferView{arena.data(), 1024, DType::kFloat32,
                                    MemoryKind::kCuda};
                }});
  for (const absl::Status& status : world_->Connect()) {
    EXPECT_TRUE(status.ok()) << status;
  }
  for (const absl::Status& status : world_->RunAll([&](NcclRank& rank) {
         const size_t own = static_cast<size_t>(rank.device->ordinal());
         return rank.communicator->Run(
             AllReduceSum({arenas[own].data(), 1024, DType::kFloat32,
                           MemoryKind::kCuda}),
             InTime());
       })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  // An arena outlives its users, and its device outlives the arena.
  for (const int rank : {0, 1}) world_->rank(rank).communicator.reset();
  arenas.clear();
}

// If a kernel of one of two groups of a process hangs, freeing the other group
// waits for it.
TEST_F(NcclFaultsTest, AllGroupsAreAbortedBeforeOneIsFreed) {
  CONNECT_OR_SKIP({.world_size = 2});
  const auto statuses = world_->RunAll([](NcclRank& rank) -> absl::Status {
    NcclCommunicator& communicator = *rank.communicator;
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> group,
                     communicator.Split(0, 0, InTime()));
    DeviceBuffer<float> buffer(rank, {1});
    const CollectiveRequest request =
        AllReduceSum(buffer.view(DType::kFloat32));
    RETURN_IF_ERROR(group->Run(request, InTime()));
    RETURN_IF_ERROR(communicator.Run(request, InTime()));
    if (communicator.rank() == 1) {
      absl::SleepFor(absl::Milliseconds(100));
      return absl::OkStatus();
    }
    // The group's kernel is on the device, and freeing the other waits for it.
    ASSIGN_OR_RETURN(const Ticket one, group->Start(request));
    ASSIGN_OR_RETURN(const Ticket two, communicator.Start(request));
    absl::SleepFor(absl::Milliseconds(20));
    group->Abort("enough");
    EXPECT_THAT(Message(group->Wait(one, InTime())), HasSubstr("enough"));
    const absl::Status status = communicator.Wait(two, InTime());
    group.reset();
    rank.communicator.reset();
    return status;
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(statuses[1].ok()) << statuses[1];
  EXPECT_TRUE(world_->rank(0).hung.ok()) << world_->rank(0).hung;
}

#ifdef RINGMASTER_NCCL_EMULATED
TEST_F(NcclFaultsTest, HostMemoryThatIsCalledDeviceMemoryIsRefused) {
  CONNECT_OR_SKIP({.world_size = 2});
  const auto statuses = world_->RunAll([](NcclRank& rank) {
    std::vector<float> host(10, 1);
    BufferView view = BufferView::Of(host);
    view.memory = MemoryKind::kCuda;
    return rank.communicator->Run(AllReduceSum(view), InTime());
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status.code(), AnyOf(absl::StatusCode::kFailedPrecondition,
                                     absl::StatusCode::kAborted))
        << status;
  }
  EXPECT_THAT(Message(statuses[0]),
              HasSubstr("all_reduce: invalid argument: a buffer is not in "
                        "device memory"));
}

TEST_F(NcclFaultsTest, AnArenaThatIsNoneIsRefused) {
  std::vector<float> host(16, 1);
  MAKE_OR_SKIP({.world_size = 2,
                .arena = [&host](NcclRank&) { return BufferView::Of(host); }});
  for (const absl::Status& status : world_->Connect()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(status),
                HasSubstr("ncclCommRegister: invalid argument: what is not in "
                          "device memory"));
  }
}

TEST_F(NcclFaultsTest, WhatNcclHasYetToFreeHoldsNobodyUp) {
  CONNECT_OR_SKIP({.world_size = 2,
                   .abort_timeout = absl::Milliseconds(500),
                   .retire = true});
  cuda_emulator::SetNcclAbortHangs(true);
  NcclRank& rank = world_->rank(0);
  ASSERT_TRUE(rank.device->MakeCurrent().ok());
  const MonotonicTime begin = Clock::Real().Now();
  rank.communicator->Abort("enough");
  rank.communicator.reset();
  EXPECT_LT(Clock::Real().Now() - begin, absl::Milliseconds(400));
  EXPECT_TRUE(rank.hung.ok()) << rank.hung;
  EXPECT_TRUE(rank.retired.Collect().ok());
  absl::Status late;
  while (late.ok()) {
    ASSERT_LT(Clock::Real().Now() - begin, absl::Seconds(10));
    absl::SleepFor(absl::Milliseconds(10));
    late = rank.retired.Collect();
  }
  EXPECT_GE(Clock::Real().Now() - begin, absl::Milliseconds(500));
  EXPECT_EQ(late.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(late),
              HasSubstr("rank 0 of generation 3: NCCL has not freed its "
                        "communicators in 500ms"));
  EXPECT_TRUE(rank.retired.Collect().ok()) << "it is told once";
  cuda_emulator::SetNcclAbortHangs(false);
}

TEST_F(NcclFaultsTest, ReportsAnAbortThatHangs) {
  CONNECT_OR_SKIP({.world_size = 2, .abort_timeout = absl::Milliseconds(200)});
  cuda_emulator::SetNcclAbortHangs(true);
  NcclRank& rank = world_->rank(0);
  ASSERT_TRUE(rank.device->MakeCurrent().ok());
  EXPECT_FALSE(rank.communicator->abort_hung());
  const MonotonicTime begin = Clock::Real().Now();
  rank.communicator->Abort("enough");
  EXPECT_LT(Clock::Real().Now() - begin, absl::Milliseconds(100));
  while (!rank.communicator->abort_hung()) {
    ASSERT_LT(Clock::Real().Now() - begin, absl::Seconds(10));
    absl::SleepFor(absl::Milliseconds(10));
  }
  rank.communicator.reset();
  EXPECT_LT(Clock::Real().Now() - begin, absl::Seconds(5));
  EXPECT_EQ(rank.hung.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      Message(rank.hung),
      HasSubstr("rank 0 of generation 3: NCCL has not come back from an "
                "abort in 200ms (rank 0 was aborted at generation 3: "
                "enough): this process cannot use its GPU any more and "
                "has to end"));
  cuda_emulator::SetNcclAbortHangs(false);
}
#endif

}  // namespace
}  // namespace ringmaster
