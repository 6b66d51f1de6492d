#include "worker/train/evaluation.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "common/plan/partition.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// Sums `value` over the ranks in rank order, so that every rank gets the same
// bits.
absl::StatusOr<double> SumOverRanks(double value, Communicator& communicator,
                                    MonotonicTime deadline) {
  std::vector<int64_t> words(static_cast<size_t>(communicator.world_size()));
  words[static_cast<size_t>(communicator.rank())] =
      std::bit_cast<int64_t>(value);
  CollectiveRequest request;
  request.op = CollectiveOp::kAllGather;
  request.buffer = BufferView::Of(std::span<int64_t>(words));
  RETURN_IF_ERROR(communicator.Run(request, deadline));
  double sum = 0;
  for (const int64_t word : words) sum += std::bit_cast<double>(word);
  return sum;
}

// Samples that a rank computes between two exchanges. The exchanges keep ranks
// together and are the progress that a watcher sees in a long evaluation.
constexpr int64_t kRoundSamples = 4096;

// Sum of the losses of the samples at positions `part`.
absl::StatusOr<double> SumLosses(TrainingState& state,
                                 const PermutationSampler& sampler,
                                 ElemRange part, Batch& batch,
                                 const CancelToken& cancel) {
  std::vector<int64_t> ids;
  double loss_sum = 0;
  for (int64_t begin = part.begin; begin < part.end();
       begin += batch.capacity()) {
    RETURN_IF_ERROR(cancel.status());
    ids.clear();
    const int64_t end = std::min(begin + batch.capacity(), part.end());
    for (int64_t i = begin; i < end; ++i) ids.push_back(sampler.SampleAt(i));
    RETURN_IF_ERROR(state.dataset().FillBatch(Split::kHeldOut, ids, batch));
    loss_sum += state.model().Predict(batch).loss_sum;
  }
  return loss_sum;
}

}  // namespace

absl::StatusOr<double> Evaluate(TrainingState& state,
                                Communicator& communicator,
                                absl::Duration wait_timeout, Clock& clock,
                                const CancelToken& cancel) {
  const int64_t held_out = state.dataset().size(Split::kHeldOut);
  const int64_t wanted = state.config().evaluation_samples;
  const int64_t samples = wanted == 0 ? held_out : std::min(wanted, held_out);
  const PermutationSampler sampler(state.config().data.seed, held_out);
  Batch batch(state.model().max_batch(), state.dataset().shape());

  const int64_t round_samples = kRoundSamples * communicator.world_size();
  double total = 0;
  for (int64_t begin = 0; begin < samples; begin += round_samples) {
    ElemRange part = ChunkOf(communicator.rank(), communicator.world_size(),
                             std::min(round_samples, samples - begin));
    part.begin += begin;
    ASSIGN_OR_RETURN(const double own,
                     SumLosses(state, sampler, part, batch, cancel));
    ASSIGN_OR_RETURN(
        const double sum,
        SumOverRanks(own, communicator, clock.Now() + wait_timeout));
    total += sum;
  }
  return total / static_cast<double>(samples * state.targets());
}

}  // namespace ringmaster
