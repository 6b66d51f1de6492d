#include "worker/train/state/checkpoint_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/clock/clock.h"
#include "common/fail_point/fail_point.h"
#include "common/job/field_rules.h"
#include "common/status/exit_code.h"
#include "worker/collective/testing/world_of_threads.h"
#include "worker/train/state/program_config.h"
#include "worker/train/testing/rank_threads.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;

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

// Returns the start that each rank finds; rank r sees `directories[r]`.
std::vector<absl::StatusOr<CheckpointStart>> StartsOf(
    const std::vector<fs::path>& directories) {
  std::vector<std::unique_ptr<TrainingState>> states;
  for (const fs::path& directory : directories)
    states.push_back(TrainingState::Create(Job(directory)).value());
  const int size = static_cast<int>(directories.size());
  const auto world = WorldOfThreads::Create({.world_size = size}).value();
  std::vector<absl::StatusOr<CheckpointStart>> starts(
      directories.size(), absl::UnknownError("did not come so far"));
  (void)world->RunAll([&](Communicator& communicator) {
    const auto rank = static_cast<size_t>(communicator.rank());
    const CancelToken cancel;
    DiskProgress progress;
    starts[rank] =
        StartFromCheckpoint(*states[rank], communicator, absl::Seconds(30),
                            Clock::Real(), cancel, progress);
    return starts[rank].status();
  });
  return starts;
}

class UnreadableCheckpointTest : public testing::Test {
 protected:
  UnreadableCheckpointTest() {
    fs::remove_all(root_);
    for (const char* name : {"here", "there"}) {
      ProgramConfig config = Job(root_ / name);
      config.program.mutable_checkpoint()->set_every_steps(2);
      EXPECT_TRUE(RunRanks(config, /*world_size=*/1)[0]->end.ok());
    }
  }
  ~UnreadableCheckpointTest() override { FailPoint::DisarmAll(); }

  // A directory in the place of a file cannot be read, not even by root.
  void MakeUnreadable(const char* directory, const char* file) const {
    const fs::path path = root_ / directory / "step-000000005" / file;
    fs::remove(path);
    fs::create_directory(path);
  }

  const fs::path root_ = fs::path(testing::TempDir()) / "unreadable";
};

void ExpectRefusals(const std::vector<absl::StatusOr<CheckpointStart>>& starts,
                    const std::string& place) {
  for (const absl::StatusOr<CheckpointStart>& start : starts) {
    EXPECT_EQ(start.status().code(), absl::StatusCode::kPermissionDenied)
        << start.status();
    EXPECT_EQ(ExitCodeOf(start.status()), ExitCode::kUnreadable);
    EXPECT_EQ(start.status().message(), starts[0].status().message());
    EXPECT_THAT(std::string(start.status().message()),
                AllOf(HasSubstr("the newest checkpoint cannot be read"),
                      HasSubstr(place)));
  }
}

TEST_F(UnreadableCheckpointTest, NoRankStartsFromAnOlderOne) {
  MakeUnreadable("here", "checkpoint.json");
  ExpectRefusals(StartsOf({root_ / "here", root_ / "here"}),
                 "step-000000005/checkpoint.json");
  ExpectRefusals(StartsOf({root_ / "none", root_ / "here"}),
                 "step-000000005/checkpoint.json");
}

TEST_F(UnreadableCheckpointTest, NorWhereItsDataFailToBeRead) {
  FailPoint::Arm("train.checkpoint_read", FailPoint::Action::kError);
  ExpectRefusals(StartsOf({root_ / "here", root_ / "here"}), "step-000000005");
}

TEST_F(UnreadableCheckpointTest, NorWhereTheDirectoryCannotBeRead) {
  std::ofstream(root_ / "file") << "x";
  ExpectRefusals(StartsOf({root_ / "here", root_ / "file"}),
                 (root_ / "file").string());
}

TEST_F(UnreadableCheckpointTest, AnotherHostsCopyOfItWillDo) {
  MakeUnreadable("here", "checkpoint.json");
  for (const auto& start : StartsOf({root_ / "here", root_ / "there"})) {
    ASSERT_TRUE(start.ok()) << start.status();
    EXPECT_EQ(start->step, 5);
    EXPECT_EQ(start->source_rank, 1);
  }
}

TEST_F(UnreadableCheckpointTest, OneThatIsOlderThanTheNewestDoesNotMatter) {
  MakeUnreadable("here", "checkpoint.json");
  fs::rename(root_ / "here" / "step-000000005",
             root_ / "here" / "step-000000001");
  for (const auto& start : StartsOf({root_ / "here", root_ / "there"})) {
    ASSERT_TRUE(start.ok()) << start.status();
    EXPECT_EQ(start->step, 5);
  }
}

TEST_F(UnreadableCheckpointTest, ADamagedOneIsStillPassedOver) {
  std::ofstream(root_ / "here" / "step-000000005" / "checkpoint.json") << "{";
  for (const auto& start : StartsOf({root_ / "here", root_ / "here"})) {
    ASSERT_TRUE(start.ok()) << start.status();
    EXPECT_LT(start->step, 5);
    EXPECT_GT(start->step, 0);
  }
}

}  // namespace
}  // namespace ringmaster
