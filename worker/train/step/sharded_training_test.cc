// Whole trainers whose moments are sharded, as threads of one process: nothing
// but memory differs from whole moments, whatever fails and whoever comes and
// goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <compare>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/fail_point/fail_point.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/train/testing/rank_threads.h"
#include "worker/train/testing/trainer_workers.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSteps = 8;
constexpr auto kNothing = [] {};

std::vector<int> FirstWorkers(int count) {
  std::vector<int> workers(static_cast<size_t>(count));
  std::iota(workers.begin(), workers.end(), 0);
  return workers;
}

// Clips, so that the norm has a part in the result.
v1::TrainProgram WholeProgram(int64_t steps = kSteps) {
  v1::TrainProgram program = SmallProgram(steps);
  program.mutable_optimizer()->mutable_adamw()->set_clip_norm(0.05);
  return program;
}

v1::TrainProgram ShardedProgram(int mirror, int64_t steps = kSteps) {
  v1::TrainProgram program = WholeProgram(steps);
  program.mutable_optimizer_sharding()->set_mirror(mirror);
  return program;
}

// A generation that ends after `steps` steps, or at the end of the job.
struct Stage {
  int ranks = 0;
  int64_t end_step = kSteps;

  friend auto operator<=>(const Stage&, const Stage&) = default;
};

// Returns the hash of a run whose moments are whole, in these generations.
uint64_t HashOfWhole(const std::vector<Stage>& stages) {
  static std::map<std::vector<Stage>, uint64_t> known;
  if (const auto found = known.find(stages); found != known.end())
    return found->second;
  const v1::TrainProgram program = WholeProgram();
  int most = 0;
  for (const Stage& stage : stages) most = std::max(most, stage.ranks);
  TrainerWorkers workers(most);
  std::vector<RunOutcome> outcomes;
  int64_t step = 0;
  int64_t generation = 0;
  int present = stages[0].ranks;
  for (const Stage& stage : stages) {
    StateTransfer transfer;
    for (int rank = present; step > 0 && rank < stage.ranks; ++rank) {
      workers.Replace(rank);
      transfer.source_rank = 0;
      transfer.newcomers.push_back(rank);
    }
    present = stage.ranks;
    // Nobody can complete a step that somebody does not begin.
    if (stage.end_step < kSteps) {
      FailPoint::Arm("train.step", FailPoint::Action::kError,
                     (stage.end_step - step) * stage.ranks + 1);
    }
    outcomes = workers.RunGeneration(++generation, FirstWorkers(stage.ranks),
                                     program, step, kNothing, transfer);
    FailPoint::DisarmAll();
    step = stage.end_step;
  }
  EXPECT_EQ(outcomes[0].kind, RunOutcome::Kind::kFinished)
      << outcomes[0].status;
  return known[stages] = outcomes[0].parameters_hash;
}

void ExpectAllFinished(const std::vector<RunOutcome>& outcomes, uint64_t hash) {
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kFinished) << outcome.status;
    EXPECT_EQ(outcome.applied_step, kSteps);
    EXPECT_EQ(outcome.parameters_hash, hash);
  }
}

int64_t ResumeStepOf(const std::vector<RunOutcome>& outcomes,
                     const std::vector<int>& survivors) {
  int64_t step = INT64_MAX;
  for (const int rank : survivors) {
    step = std::min(step, outcomes[static_cast<size_t>(rank)].complete_step);
  }
  return step;
}

// Trains until a fault ends the generation; the next, without a step, writes the
// checkpoint. Returns its step. A checkpoint that was due at a step may be in work
// when the fault comes, and is not waited for.
int64_t WriteCheckpoint(TrainerWorkers& workers, int ranks,
                        const v1::TrainProgram& program) {
  const std::vector<int> members = FirstWorkers(ranks);
  FailPoint::Arm("train.step", FailPoint::Action::kError, 7 * ranks + 1);
  const int64_t step = ResumeStepOf(
      workers.RunGeneration(1, members, program, 0, kNothing), members);
  FailPoint::DisarmAll();
  for (const RunOutcome& outcome : workers.RunGeneration(
           2, members, program, step, kNothing, {.makes_no_step = true})) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kStopped) << outcome.status;
  }
  return step;
}

class ShardedTrainingTest : public ::testing::Test {
 protected:
  ~ShardedTrainingTest() override { FailPoint::DisarmAll(); }
};

TEST_F(ShardedTrainingTest, EndsWithTheBitsOfWholeMoments) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    const uint64_t hash = HashOfWhole({{ranks}});
    for (const int mirror : {1, 2}) {
      TrainerWorkers workers(ranks);
      ExpectAllFinished(
          workers.RunGeneration(1, FirstWorkers(ranks), ShardedProgram(mirror),
                                0, kNothing),
          hash);
    }
  }
}

TEST_F(ShardedTrainingTest, OneMomentIsSharded) {
  uint64_t hashes[2];
  for (const bool is_sharded : {false, true}) {
    v1::TrainProgram program = SmallProgram(kSteps);
    v1::SgdSpec* const sgd = program.mutable_optimizer()->mutable_sgd();
    sgd->set_learning_rate(0.05);
    sgd->set_momentum(0.9);
    if (is_sharded) program.mutable_optimizer_sharding()->set_mirror(1);
    TrainerWorkers workers(3);
    hashes[is_sharded] =
        workers.RunGeneration(1, {0, 1, 2}, program, 0, kNothing)[0]
            .parameters_hash;
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

// Pages of the first moment that are real.
int64_t RealPages(const TrainingState& state) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const absl::Span<const float> moment = state.first_moment();
  const uintptr_t begin = reinterpret_cast<uintptr_t>(moment.data());
  EXPECT_EQ(begin % page, 0u);
  const size_t pages = (moment.size() * sizeof(float) + page - 1) / page;
  std::vector<unsigned char> is_real(pages);
  EXPECT_EQ(
      mincore(reinterpret_cast<void*>(begin), pages * page, is_real.data()), 0);
  return std::count_if(is_real.begin(), is_real.end(),
                       [](unsigned char bits) { return (bits & 1) != 0; });
}

TEST_F(ShardedTrainingTest, ARankHasTheMemoryOfItsParts) {
  ProgramConfig config;
  config.model = {.kind = "mlp",
                  .settings = {{"window", {16}},
                               {"embedding_dim", {32}},
                               {"hidden_dim", {512}},
                               {"hidden_layers", {3}}}};
  config.data = {.kind = "synthetic", .seed = 3, .num_samples = 256};
  config.program.set_steps(2);
  config.program.set_global_batch(8);
  config.program.set_bucket_bytes(1 << 20);
  config.program.mutable_optimizer_sharding()->set_mirror(1);
  const auto results = RunRanks(config, 4);
  for (const auto& result : results) {
    ASSERT_TRUE(result->end.ok()) << result->end.status();
    const double all = static_cast<double>(
        result->state->first_moment().size() * sizeof(float) /
        static_cast<size_t>(sysconf(_SC_PAGESIZE)));
    EXPECT_LT(static_cast<double>(RealPages(*result->state)), 0.52 * all);
    EXPECT_GT(static_cast<double>(RealPages(*result->state)), 0.48 * all);
  }
}

// A communicator takes 4096 collectives at once.
TEST_F(ShardedTrainingTest, ThereMayBeMoreBucketsThanACommunicatorTakes) {
  ProgramConfig config;
  config.model = {.kind = "mlp",
                  .settings = {{"window", {16}},
                               {"embedding_dim", {32}},
                               {"hidden_dim", {768}},
                               {"hidden_layers", {2}}}};
  config.data = {.kind = "synthetic", .seed = 3, .num_samples = 256};
  config.program.set_steps(2);
  config.program.set_global_batch(8);
  config.program.set_bucket_bytes(1024);
  uint64_t hashes[2];
  for (const bool is_sharded : {false, true}) {
    if (is_sharded) config.program.mutable_optimizer_sharding()->set_mirror(1);
    const auto results = RunRanks(config, 2);
    for (const auto& result : results) {
      ASSERT_TRUE(result->end.ok()) << result->end.status();
      ASSERT_GT(result->state->plan().buckets().size(), 4096u);
    }
    hashes[is_sharded] = results[0]->state->ParametersHash();
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

// Points of a step, and how many of four ranks have passed them in the third
// step when one of them fails.
struct Fault {
  const char* fail_point;
  int passes;
};

class ShardedFaultTest : public ::testing::TestWithParam<Fault> {
 protected:
  ~ShardedFaultTest() override { FailPoint::DisarmAll(); }

  // Trains with four workers until the fault; `lost` are gone then. Returns the
  // step at which the others resume.
  static int64_t TrainUntilTheFault(TrainerWorkers& workers,
                                    const v1::TrainProgram& program,
                                    const std::vector<int>& survivors) {
    FailPoint::Arm(GetParam().fail_point, FailPoint::Action::kError,
                   2 * 4 + GetParam().passes);
    const auto outcomes =
        workers.RunGeneration(1, {0, 1, 2, 3}, program, 0, kNothing);
    FailPoint::DisarmAll();
    const int64_t step = ResumeStepOf(outcomes, survivors);
    EXPECT_TRUE(step == 2 || step == 3) << step;
    return step;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Faults, ShardedFaultTest,
    ::testing::Values(
        Fault{"train.step", 1}, Fault{"train.reduced", 1},
        Fault{"train.reduced", 3}, Fault{"train.commit_send", 2},
        Fault{"train.commit_send", 4}, Fault{"train.commit_received", 1},
        Fault{"train.commit_received", 3}, Fault{"train.before_apply", 2},
        Fault{"train.before_apply", 4}, Fault{"train.parts_updated", 1},
        Fault{"train.parts_updated", 2}, Fault{"train.parts_updated", 4},
        Fault{"train.parameters_gathered", 1},
        Fault{"train.parameters_gathered", 4}, Fault{"train.after_apply", 1},
        Fault{"train.after_apply", 3}),
    [](const auto& info) {
      std::string name = info.param.fail_point;
      std::replace(name.begin(), name.end(), '.', '_');
      return absl::StrCat(name, "_", info.param.passes);
    });

TEST_P(ShardedFaultTest, WithoutAnyRankTheOthersGoOn) {
  for (const int lost : {0, 1, 3}) {
    TrainerWorkers workers(4);
    std::vector<int> survivors = {0, 1, 2, 3};
    survivors.erase(survivors.begin() + lost);
    const v1::TrainProgram program = ShardedProgram(1);
    const int64_t step = TrainUntilTheFault(workers, program, survivors);
    ExpectAllFinished(
        workers.RunGeneration(2, survivors, program, step, kNothing),
        HashOfWhole({{4, step}, {3}}));
  }
}

TEST_P(ShardedFaultTest, AReplacedRankGetsItsParts) {
  TrainerWorkers workers(4);
  const v1::TrainProgram program = ShardedProgram(1);
  const int64_t step = TrainUntilTheFault(workers, program, {0, 1, 3});
  workers.Replace(2);
  ExpectAllFinished(
      workers.RunGeneration(2, {0, 1, 2, 3}, program, step, kNothing,
                            {.source_rank = 0, .newcomers = {2}}),
      HashOfWhole({{4}}));
}

TEST_P(ShardedFaultTest, TwoMirrorsSurviveAPair) {
  TrainerWorkers workers(4);
  const v1::TrainProgram program = ShardedProgram(2);
  const int64_t step = TrainUntilTheFault(workers, program, {0, 3});
  ExpectAllFinished(workers.RunGeneration(2, {0, 3}, program, step, kNothing),
                    HashOfWhole({{4, step}, {2}}));
}

TEST_P(ShardedFaultTest, WithoutAPartAllGiveTheStateUp) {
  TrainerWorkers workers(4);
  const v1::TrainProgram program = ShardedProgram(1);
  const int64_t step = TrainUntilTheFault(workers, program, {0, 3});
  const auto outcomes =
      workers.RunGeneration(2, {0, 3}, program, step, kNothing);
  for (const RunOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kDrained) << outcome.status;
    EXPECT_EQ(outcome.complete_step, 0);
  }
  EXPECT_EQ(workers.Notices().back().kind(), v1::NOTICE_KIND_STATE_GIVEN_UP);
  EXPECT_THAT(workers.Notices().back().message(),
              HasSubstr("no rank has the moments of some part"));
  ExpectAllFinished(workers.RunGeneration(3, {0, 3}, program, 0, kNothing),
                    HashOfWhole({{2}}));
}

// The generation after a fault is interrupted, too, while parts are moved.
class ShardedSettlingTest : public ShardedFaultTest {};

INSTANTIATE_TEST_SUITE_P(Faults, ShardedSettlingTest,
                         ::testing::Values(Fault{"train.commit_received", 2},
                                           Fault{"train.parts_updated", 3}));

TEST_P(ShardedSettlingTest, IsMadeAgainAfterAnInterruption) {
  for (const char* const fail_point :
       {"train.transfer_begin", "train.settle_updated", "train.transfer_piece",
        "train.settled"}) {
    for (const int pass : {1, 2, 3}) {
      TrainerWorkers workers(4);
      const v1::TrainProgram program = ShardedProgram(1);
      const int64_t step = TrainUntilTheFault(workers, program, {0, 1, 3});
      FailPoint::Arm(fail_point, FailPoint::Action::kError, pass);
      // Nobody gets beyond the next step's commit.
      FailPoint::Arm("train.reduced", FailPoint::Action::kError);
      workers.RunGeneration(2, {0, 1, 3}, program, step, kNothing);
      FailPoint::DisarmAll();
      ExpectAllFinished(
          workers.RunGeneration(3, {0, 1, 3}, program, step, kNothing),
          HashOfWhole({{4, step}, {3}}));
    }
  }
}

// Ranks are lost and replaced, generation after generation, each interrupted
// somewhere.
TEST_F(ShardedTrainingTest, NoHistoryChangesABit) {
  constexpr const char* kFailPoints[] = {
      "train.step",          "train.reduced",
      "train.commit_send",   "train.before_apply",
      "train.parts_updated", "train.parameters_gathered",
      "train.after_apply",   "train.transfer_piece",
      "train.settled",       "train.transfer_begin"};
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&random](size_t limit) {
      return static_cast<int>(random() % limit);
    };
    const v1::TrainProgram program = ShardedProgram(1);
    TrainerWorkers workers(5);
    std::vector<int> members = FirstWorkers(2 + below(4));
    std::vector<Stage> stages;
    StateTransfer transfer;
    int64_t step = 0;
    int lost_since_settled = 0;
    for (int64_t generation = 1; generation <= 6; ++generation) {
      const bool is_last = generation == 6;
      if (!is_last) {
        FailPoint::Arm(kFailPoints[below(std::size(kFailPoints))],
                       FailPoint::Action::kError, 1 + below(12));
      }
      const auto outcomes = workers.RunGeneration(generation, members, program,
                                                  step, kNothing, transfer);
      FailPoint::DisarmAll();
      const int ranks = static_cast<int>(members.size());
      if (outcomes[0].kind == RunOutcome::Kind::kFinished) {
        stages.push_back({ranks});
        ExpectAllFinished(outcomes, HashOfWhole(stages));
        break;
      }
      ASSERT_FALSE(is_last) << outcomes[0].status;
      // One of them is lost, if others have the state then.
      std::vector<int> holders;
      for (int rank = 0; rank < ranks; ++rank) {
        const bool is_new =
            step > 0 &&
            std::count(transfer.newcomers.begin(), transfer.newcomers.end(),
                       rank) > 0 &&
            outcomes[static_cast<size_t>(rank)].complete_step == 0;
        if (!is_new) holders.push_back(rank);
      }
      const bool is_one_lost =
          holders.size() > 1 && ranks > 1 && holders.size() == members.size();
      if (is_one_lost) holders.erase(holders.begin() + below(holders.size()));
      const int64_t resume_step = ResumeStepOf(outcomes, holders);
      if (resume_step > step) {
        stages.push_back({ranks, resume_step});
        lost_since_settled = 0;  // there was a step: all had their parts
      } else if (resume_step < step) {
        EXPECT_EQ(resume_step, 0);
        EXPECT_GT(lost_since_settled, 1) << outcomes[0].status;
        stages.clear();
        lost_since_settled = 0;
      }
      step = resume_step;
      lost_since_settled += is_one_lost ? 1 : 0;
      std::vector<int> next;
      for (const int rank : holders)
        next.push_back(members[static_cast<size_t>(rank)]);
      // Others come, or nobody does.
      transfer = {};
      std::vector<int> others;
      for (int worker = 0; worker < 5; ++worker) {
        if (std::count(next.begin(), next.end(), worker) == 0)
          others.push_back(worker);
      }
      for (int i = below(others.size() + 1); i > 0; --i) {
        workers.Replace(others.back());
        if (step > 0) {
          transfer.source_rank = 0;
          transfer.newcomers.push_back(static_cast<int>(next.size()));
        }
        next.push_back(others.back());
        others.pop_back();
      }
      members = next;
    }
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST_F(ShardedTrainingTest, LeaversHandOverWhatTheyAloneHave) {
  for (const std::vector<int>& stay :
       {std::vector<int>{0, 3}, std::vector<int>{2}, std::vector<int>{1, 3}}) {
    TrainerWorkers workers(4);
    const v1::TrainProgram program = ShardedProgram(1, kEndless);
    const auto outcomes =
        workers.RunGeneration(1, {0, 1, 2, 3}, program, 0, [&] {
          workers.AwaitStep(0, 3);
          for (const int worker : {0, 1, 2, 3}) {
            if (std::count(stay.begin(), stay.end(), worker) == 0)
              workers.trainer(worker).RequestLeave();
          }
        });
    const int64_t step = outcomes[0].applied_step;
    for (const RunOutcome& outcome : outcomes) {
      EXPECT_EQ(outcome.kind, RunOutcome::Kind::kDrained) << outcome.status;
      EXPECT_EQ(outcome.applied_step, step);
    }
    const auto next = workers.RunGeneration(2, stay, program, step, [&] {
      workers.AwaitStep(stay[0], step + 2);
      workers.trainer(stay[0]).RequestDrain();
    });
    for (const RunOutcome& outcome : next) {
      EXPECT_EQ(outcome.kind, RunOutcome::Kind::kDrained) << outcome.status;
      EXPECT_GE(outcome.applied_step, step + 2);
      EXPECT_EQ(outcome.parameters_hash, next[0].parameters_hash);
    }
  }
}

// Three ranks of four are let go, and hear of it when the other has ended its last step.
// Returns whether that one goes on.
bool GoesOnAfterLateWord() {
  TrainerWorkers workers(4);
  const v1::TrainProgram program = ShardedProgram(1, kEndless);
  const auto outcomes = workers.RunGeneration(1, {0, 1, 2, 3}, program, 0, [&] {
    workers.AwaitStep(0, 3);
    workers.trainer(0).RequestPause(/*is_let_go=*/false, 3);
    int64_t step = -1;
    while (std::exchange(step, workers.trainer(0).progress().applied_step) !=
           step) {
      absl::SleepFor(absl::Milliseconds(100));
    }
    for (const int worker : {1, 2, 3})
      workers.trainer(worker).RequestPause(/*is_let_go=*/true, 3);
  });
  const int64_t step = outcomes[0].applied_step;
  const auto next = workers.RunGeneration(2, {0}, program, step, [&] {
    // It makes no step if it gives the state up.
    for (int wait = 0;
         wait < 1000 && workers.trainer(0).progress().applied_step <= step;
         ++wait) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    workers.trainer(0).RequestDrain();
  });
  return next[0].applied_step > step;
}

// Ranks do not wait for ever, so on a busy machine the word may come too late.
TEST_F(ShardedTrainingTest, WhoIsLetGoIsWaitedForUntilItHasHeard) {
  bool goes_on = false;
  for (int attempt = 0; attempt < 5 && !goes_on; ++attempt)
    goes_on = GoesOnAfterLateWord();
  EXPECT_TRUE(goes_on);
}

// The last ranks with the state leave once newcomers have it.
TEST_F(ShardedTrainingTest, AGenerationWithoutAStepHandsEverythingOver) {
  TrainerWorkers workers(4);
  const v1::TrainProgram program = ShardedProgram(1);
  FailPoint::Arm("train.step", FailPoint::Action::kError, 5 * 2 + 1);
  const auto outcomes = workers.RunGeneration(1, {0, 1}, program, 0, kNothing);
  FailPoint::DisarmAll();
  const int64_t step = ResumeStepOf(outcomes, {0, 1});
  EXPECT_EQ(step, 5);
  for (const RunOutcome& outcome : workers.RunGeneration(
           2, {0, 1, 2, 3}, program, step, kNothing,
           {.source_rank = 0, .newcomers = {2, 3}, .makes_no_step = true})) {
    EXPECT_EQ(outcome.kind, RunOutcome::Kind::kStopped) << outcome.status;
  }
  ExpectAllFinished(workers.RunGeneration(3, {2, 3}, program, step, kNothing),
                    HashOfWhole({{2}}));
}

TEST_F(ShardedTrainingTest, CheckpointsAreTheSame) {
  const std::filesystem::path directory =
      std::filesystem::path(::testing::TempDir()) / "sharded_checkpoints";
  const uint64_t hash = HashOfWhole({{3}});
  for (const bool is_first_sharded : {true, false}) {
    std::filesystem::remove_all(directory);
    v1::TrainProgram sharded = ShardedProgram(1);
    v1::TrainProgram whole = WholeProgram();
    for (v1::TrainProgram* const program : {&sharded, &whole}) {
      v1::CheckpointSpec* const checkpoint = program->mutable_checkpoint();
      checkpoint->set_directory(directory.string());
      checkpoint->set_every_steps(5);
      checkpoint->set_resume(true);
    }
    TrainerWorkers first(3);
    const int64_t step =
        WriteCheckpoint(first, 3, is_first_sharded ? sharded : whole);
    TrainerWorkers workers(3);
    const auto outcomes = workers.RunGeneration(
        1, {0, 1, 2}, is_first_sharded ? whole : sharded, 0, kNothing);
    EXPECT_EQ(workers.Notices()[0].kind(), v1::NOTICE_KIND_CHECKPOINT_LOADED);
    EXPECT_EQ(workers.Notices()[0].step(), step);
    ExpectAllFinished(outcomes, hash);
  }
}

TEST_F(ShardedTrainingTest, ADamagedCheckpointIsPassedOver) {
  const std::filesystem::path directory =
      std::filesystem::path(::testing::TempDir()) / "sharded_damaged";
  std::filesystem::remove_all(directory);
  v1::TrainProgram program = ShardedProgram(1);
  v1::CheckpointSpec* const checkpoint = program.mutable_checkpoint();
  checkpoint->set_directory(directory.string());
  checkpoint->set_every_steps(5);
  checkpoint->set_resume(true);
  TrainerWorkers first(3);
  WriteCheckpoint(first, 3, program);
  int damaged = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out);
    const auto last = static_cast<std::streamoff>(
        std::filesystem::file_size(entry.path()) - 1);
    file.seekg(last);
    const char byte = static_cast<char>(file.get());
    file.seekp(last);
    file.put(static_cast<char>(byte ^ 4));
    ++damaged;
  }
  EXPECT_GT(damaged, 0);
  TrainerWorkers workers(3);
  ExpectAllFinished(workers.RunGeneration(1, {0, 1, 2}, program, 0, kNothing),
                    HashOfWhole({{3}}));
}

TEST_F(ShardedTrainingTest, WhoBeginsAnewHasNoMoments) {
  ProgramConfig config;
  config.model = {.kind = "mlp", .settings = {{"window", {8}}}};
  config.data = {.kind = "synthetic", .seed = 3, .num_samples = 256};
  config.program.set_steps(2);
  config.program.mutable_optimizer_sharding()->set_mirror(1);
  const auto state = TrainingState::Create(config, {}).value();
  state->KeepPartsOf(1, Topology::OneHost(3));
  const ArenaSpans<float> moments = state->MutableMoments();
  for (const absl::Span<float> moment :
       {moments.first_moment, moments.second_moment})
    std::fill(moment.begin(), moment.end(), 1.0f);
  state->BecomeNewcomer();
  ASSERT_TRUE(state->ResumeAt(0).ok());
  for (const absl::Span<const float> moment :
       {state->first_moment(), state->second_moment()}) {
    EXPECT_EQ(std::count(moment.begin(), moment.end(), 0.0f),
              static_cast<int64_t>(moment.size()));
  }
}

TEST_F(ShardedTrainingTest, AllStartWithTheCheckpointAgainAfterAFault) {
  const std::filesystem::path directory =
      std::filesystem::path(::testing::TempDir()) / "sharded_restart";
  std::filesystem::remove_all(directory);
  v1::TrainProgram program = ShardedProgram(1);
  v1::CheckpointSpec* const checkpoint = program.mutable_checkpoint();
  checkpoint->set_directory(directory.string());
  checkpoint->set_every_steps(5);
  checkpoint->set_resume(true);
  TrainerWorkers workers(4);
  const int64_t step = WriteCheckpoint(workers, 4, program);
  workers.RunGeneration(3, {0, 3}, program, step, kNothing);  // gives it up
  ExpectAllFinished(workers.RunGeneration(4, {0, 3}, program, 0, kNothing),
                    HashOfWhole({{4, step}, {2}}));
}

}  // namespace
}  // namespace ringmaster
