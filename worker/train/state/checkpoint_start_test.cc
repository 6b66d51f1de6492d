#include "worker/train/state/checkpoint_start.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "common/clock/clock.h"
#include "common/job/field_rules.h"
#include "worker/collective/testing/world_of_threads.h"
#include "worker/train/state/program_config.h"
#include "worker/train/testing/rank_threads.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

ProgramConfig Job(const fs::path& directory) {
  ProgramConfig config;
  config.model = {.kind = "mlp",
                  .settings = {{"window", {8}},
                               {"embedding_dim", {8}},
                               {"hidden_dim", {32}},
                               {"hidden_layers", {1}}}};
  config.data = {.kind = "synthetic", .seed = 3, .num_samples = 256};
  config.program.set_steps(5);
  config.program.set_global_batch(8);
  config.program.set_bucket_bytes(16 << 10);
  config.program.mutable_checkpoint()->set_directory(directory.string());
  FillDefaults(config.program);
  return config;
}

bool IsZero(absl::Span<const float> elems) {
  return std::all_of(elems.begin(), elems.end(),
                     [](float elem) { return elem == 0; });
}

// If servers hold the parameters, only the rank that has the checkpoint and the
// one that gives it to the servers need it.
TEST(CheckpointStartTest, ServersAreGivenItByRankZeroWhoeverHasIt) {
  const fs::path root = fs::path(testing::TempDir()) / "who_has_it";
  fs::remove_all(root);
  const auto trained = RunRanks(Job(root / "full"), /*world_size=*/1);
  ASSERT_TRUE(trained[0]->end.ok()) << trained[0]->end.status();
  for (const int source : {0, 1}) {
    std::vector<std::unique_ptr<TrainingState>> states;
    for (int rank = 0; rank < 3; ++rank) {
      ProgramConfig config = Job(root / (rank == source ? "full" : "empty"));
      config.parameter_server = UpdateRules();
      states.push_back(TrainingState::Create(config).value());
    }
    const auto world = WorldOfThreads::Create({.world_size = 3}).value();
    const auto statuses = world->RunAll([&](Communicator& communicator) {
      TrainingState& state = *states[static_cast<size_t>(communicator.rank())];
      const CancelToken cancel;
      DiskProgress progress;
      const absl::StatusOr<CheckpointStart> start =
          StartFromCheckpoint(state, communicator, absl::Seconds(30),
                              Clock::Real(), cancel, progress);
      if (start.ok()) {
        EXPECT_EQ(start->step, 5);
        EXPECT_EQ(start->source_rank, source);
      }
      return start.status();
    });
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(statuses[rank].ok()) << statuses[rank];
      EXPECT_EQ(states[rank]->applied_step(), 5);
    }
    for (const int rank : {0, source}) {
      const TrainingState& state = *states[static_cast<size_t>(rank)];
      EXPECT_EQ(state.ParametersHash(), trained[0]->state->ParametersHash());
      ASSERT_FALSE(state.second_moment().empty());
      EXPECT_FALSE(IsZero(state.second_moment()));
    }
    EXPECT_TRUE(states[2]->first_moment().empty()) << "not worth the memory";
  }
}

}  // namespace
}  // namespace ringmaster
