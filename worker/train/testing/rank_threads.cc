#include "worker/train/testing/rank_threads.h"

#include <algorithm>

#include "common/plan/partition.h"
#include "common/status/status_macros.h"
#include "common/transport/cancel_token.h"
#include "worker/collective/testing/world_of_threads.h"
#include "worker/data/prefetcher.h"
#include "worker/train/exchange/all_reduce_sync.h"

namespace ringmaster {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

}  // namespace

absl::StatusOr<GenerationRun::End> TrainRank(Communicator& communicator,
                                             ParameterSync& sync,
                                             RankResult& result) {
  Clock& clock = Clock::Real();
  TrainingState& state = *result.state;
  const int rank = communicator.rank();
  const int world_size = communicator.world_size();
  const int64_t global_batch = state.config().program.global_batch();
  const int64_t local_batch =
      std::max<int64_t>(state.config().PartOf(rank, world_size).count, 1);
  RETURN_IF_ERROR(state.ReserveBatch(local_batch));
  if (state.is_sharded())
    state.KeepPartsOf(rank, Topology::OneHost(world_size));
  Prefetcher prefetcher(state.dataset(), state.sampler(),
                        {.global_batch = global_batch,
                         .sample_group = state.config().sample_group(),
                         .max_local_batch = local_batch},
                        clock);
  RETURN_IF_ERROR(prefetcher.Start(state.applied_step() + 1, rank, world_size));
  ProgressBoard board;
  JobFiles files(
      state, "job-1", board, [](const v1::Notice&) {}, clock);
  RETURN_IF_ERROR(
      files.BeginGeneration(/*generation=*/1, rank, communicator, kPatience));
  const Wishes wishes;
  const CancelToken cancel;
  TrainCounters counters(result.metrics);
  GenerationRun run(
      kPatience, {state, communicator, sync, prefetcher, board, wishes, cancel,
                  clock, result.trace, counters, files});
  absl::StatusOr<GenerationRun::End> end = run.Run();
  counters.AddWire(communicator.counters());
  const v1::TrainingFigures figures = board.progress().figures;
  result.evaluation_loss = figures.evaluation_loss();
  result.top5_accuracy = figures.evaluation_top5_accuracy();
  result.macro_f1 = figures.evaluation_macro_f1();
  return end;
}

std::vector<std::unique_ptr<RankResult>> RunRanks(const ProgramConfig& config,
                                                  int world_size, int threads) {
  std::vector<std::unique_ptr<RankResult>> results;
  WorldOfThreads::Options options;
  options.world_size = world_size;
  options.transport = Transport::kTcp;
  for (int rank = 0; rank < world_size; ++rank) {
    results.push_back(std::make_unique<RankResult>());
    results.back()->state =
        TrainingState::Create(config, {.threads = threads}).value();
    options.traces.push_back(&results.back()->trace);
  }
  const std::unique_ptr<WorldOfThreads> world =
      WorldOfThreads::Create(options).value();
  world->RunAll([&results](Communicator& communicator) {
    RankResult& result = *results[static_cast<size_t>(communicator.rank())];
    AllReduceSync sync(/*generation=*/1, kPatience, *result.state, communicator,
                       Clock::Real(), result.trace);
    result.end = TrainRank(communicator, sync, result);
    // A rank that failed leaves; the others must not wait for it.
    if (!result.end.ok())
      communicator.Abort(std::string(result.end.status().message()));
    return result.end.status();
  });
  return results;
}

}  // namespace ringmaster
