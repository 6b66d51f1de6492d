#include "worker/train/state/state_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/transport/blamed_peer.h"
#include "worker/collective/testing/world_of_threads.h"
#include "worker/train/state/program_config.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

ProgramConfig SmallJob() {
  ProgramConfig config;
  config.model = {.kind = "mlp",
                  .settings = {{"window", {8}},
                               {"embedding_dim", {8}},
                               {"hidden_dim", {32}},
                               {"hidden_layers", {2}}}};
  config.data = {.kind = "synthetic", .seed = 3, .num_samples = 256};
  config.program.set_steps(20);
  config.program.set_global_batch(8);
  config.program.set_bucket_bytes(16 << 10);
  return config;
}

constexpr int64_t kStep = 7;

// A state of kStep whose elements depend on `value`.
std::unique_ptr<TrainingState> Holder(float value) {
  auto state = TrainingState::Create(SmallJob()).value();
  const ArenaSpans<float> arenas = state->MutableArenas();
  float next = value;
  for (const absl::Span<float> arena :
       {arenas.parameters, arenas.first_moment, arenas.second_moment}) {
    for (float& elem : arena) elem = next += 1;
  }
  state->BecomeNewcomer();
  state->TakeOver(kStep, /*skipped_in_a_row=*/2, LossScale());
  return state;
}

std::unique_ptr<TrainingState> Newcomer() {
  TrainingState::Options options;
  options.is_newcomer = true;
  return TrainingState::Create(SmallJob(), options).value();
}

uint64_t HashOf(const TrainingState& state) {
  return state.Hash(CancelToken()).value();
}

// By rank; those that hold no step are newcomers.
std::vector<absl::Status> CopyAmong(
    const std::vector<std::unique_ptr<TrainingState>>& states, int source,
    int64_t resume_step = kStep, const CancelToken& cancel = CancelToken()) {
  WorldOfThreads::Options options;
  options.world_size = static_cast<int>(states.size());
  const auto world = WorldOfThreads::Create(options).value();
  return world->RunAll([&](Communicator& communicator) {
    TrainingState& state = *states[static_cast<size_t>(communicator.rank())];
    absl::Status status =
        CopyState(state, communicator,
                  {.source_rank = source,
                   .ranks = Topology::OneHost(static_cast<int>(states.size())),
                   .is_newcomer = state.applied_step() == 0,
                   .resume_step = resume_step,
                   .wait_timeout = absl::Seconds(30)},
                  Clock::Real(), cancel);
    if (!status.ok()) communicator.Abort(std::string(status.message()));
    return status;
  });
}

TEST(StateCopyTest, EndsWithEqualStatesOnAllRanks) {
  for (const int source : {0, 2}) {
    std::vector<std::unique_ptr<TrainingState>> states;
    states.push_back(source == 0 ? Holder(1) : Newcomer());
    states.push_back(Newcomer());
    states.push_back(Holder(1));
    const uint64_t hash = HashOf(*states[2]);
    EXPECT_NE(HashOf(*states[1]), hash);
    for (const absl::Status& status : CopyAmong(states, source))
      EXPECT_TRUE(status.ok()) << status;
    for (const auto& state : states) {
      EXPECT_EQ(HashOf(*state), hash);
      EXPECT_EQ(state->applied_step(), kStep);
      EXPECT_EQ(state->complete_step(), kStep);
      EXPECT_EQ(state->skipped_in_a_row(), 2);
    }
  }
}

TEST(StateCopyTest, AMinorityFailsAndTheOthersKeepWhatTheyHold) {
  for (const int source : {0, 2}) {
    std::vector<std::unique_ptr<TrainingState>> states;
    states.push_back(Holder(1));
    states.push_back(Newcomer());
    states.push_back(Holder(5));
    states.push_back(Holder(1));
    const auto ends = CopyAmong(states, source);
    EXPECT_TRUE(absl::IsFailedPrecondition(ends[2])) << ends[2];
    EXPECT_THAT(std::string(ends[2].message()), HasSubstr("rank 2 holds"));
    EXPECT_EQ(states[2]->complete_step(), 0) << "it is of no use to anybody";
    for (const size_t rank : {0, 1, 3}) {
      EXPECT_TRUE(absl::IsUnavailable(ends[rank])) << ends[rank];
      EXPECT_TRUE(IsBlameKnown(ends[rank]));
      EXPECT_EQ(BlamedPeer(ends[rank]), -1);
      EXPECT_EQ(states[rank]->applied_step(), rank == 1 ? 0 : kStep);
      EXPECT_EQ(states[rank]->complete_step(), rank == 1 ? 0 : kStep);
    }
  }
}

TEST(StateCopyTest, WithoutAMajorityEverybodyGivesItsStateUp) {
  for (const int holders : {2, 4}) {
    std::vector<std::unique_ptr<TrainingState>> states;
    for (int rank = 0; rank < holders; ++rank)
      states.push_back(Holder(rank % 2 == 0 ? 1 : 5));
    states.push_back(Newcomer());
    const auto ends = CopyAmong(states, 0);
    for (size_t rank = 0; rank < states.size(); ++rank) {
      EXPECT_TRUE(absl::IsUnavailable(ends[rank])) << ends[rank];
      EXPECT_THAT(std::string(ends[rank].message()), HasSubstr("no majority"));
      EXPECT_EQ(states[rank]->applied_step(), 0);
      EXPECT_EQ(states[rank]->complete_step(), 0);
      EXPECT_TRUE(states[rank]->ResumeAt(0).ok());
    }
    EXPECT_EQ(BlamedPeer(ends[0]), 1);
    EXPECT_EQ(BlamedPeer(ends[1]), 0);
    EXPECT_EQ(BlamedPeer(ends.back()), -1)
        << "a newcomer disagrees with nobody";
  }
}

TEST(StateCopyTest, ASourceAtAnotherStepIsRefusedByAll) {
  std::vector<std::unique_ptr<TrainingState>> states;
  states.push_back(Holder(1));
  states.push_back(Newcomer());
  for (const absl::Status& status : CopyAmong(states, 0, kStep + 1)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("is at step 7"));
  }
}

TEST(StateCopyTest, ARankAtAnotherStepIsRefusedByAll) {
  std::vector<std::unique_ptr<TrainingState>> states;
  states.push_back(Holder(1));
  states.push_back(Holder(1));
  ASSERT_TRUE(states[1]->MarkComplete(kStep + 1, 1).ok());
  ASSERT_TRUE(states[1]->ApplyComplete().ok());
  states.push_back(Newcomer());
  for (const absl::Status& status : CopyAmong(states, 0)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 1 is at step 8"));
  }
}

TEST(StateCopyTest, ACancelledCopyLeavesTheNewcomerWithoutAStep) {
  std::vector<std::unique_ptr<TrainingState>> states;
  states.push_back(Holder(1));
  states.push_back(Newcomer());
  CancelToken cancel;
  cancel.Cancel("halted");
  for (const absl::Status& status : CopyAmong(states, 0, kStep, cancel))
    EXPECT_FALSE(status.ok());
  EXPECT_EQ(states[1]->complete_step(), 0);
  EXPECT_TRUE(states[1]->ResumeAt(0).ok());
  EXPECT_EQ(HashOf(*states[1]),
            HashOf(*TrainingState::Create(SmallJob()).value()));
}

}  // namespace
}  // namespace ringmaster
