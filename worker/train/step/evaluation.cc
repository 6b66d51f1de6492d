#include "worker/train/step/evaluation.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/plan/partition.h"
#include "common/status/status_macros.h"
#include "worker/train/step/class_counts.h"

namespace ringmaster {
namespace {

// Sums over the ranks in rank order, so that every rank gets the same bits.
absl::StatusOr<Prediction> SumOverRanks(const Prediction& own,
                                        Communicator& communicator,
                                        MonotonicTime deadline) {
  constexpr size_t kWords = 2;
  std::vector<int64_t> words(kWords *
                             static_cast<size_t>(communicator.world_size()));
  int64_t* const mine =
      &words[kWords * static_cast<size_t>(communicator.rank())];
  mine[0] = std::bit_cast<int64_t>(own.loss_sum);
  mine[1] = own.correct;
  RETURN_IF_ERROR(communicator.Run(
      AllGather(BufferView::Of(std::span<int64_t>(words))), deadline));
  Prediction sum;
  for (size_t i = 0; i < words.size(); i += kWords) {
    sum.loss_sum += std::bit_cast<double>(words[i]);
    sum.correct += words[i + 1];
  }
  return sum;
}

// Targets that a rank computes between two exchanges. The exchanges keep ranks
// together and are the progress that a watcher sees in a long evaluation.
constexpr int64_t kRoundTargets = 4096;
// Samples likewise where they are decoded: the largest pictures may take a second
// each.
constexpr int64_t kRoundDecodedSamples = 32;

// Over the samples at positions `part`; those of classes are counted, too.
absl::StatusOr<Prediction> PredictPart(TrainingState& state,
                                       const PermutationSampler& sampler,
                                       ElemRange part, Batch& batch,
                                       std::optional<ClassCounts>& counts,
                                       const CancelToken& cancel) {
  std::vector<int64_t> ids;
  Prediction sum;
  for (int64_t begin = part.begin; begin < part.end();
       begin += batch.capacity()) {
    RETURN_IF_ERROR(cancel.status());
    ids.clear();
    const int64_t end = std::min(begin + batch.capacity(), part.end());
    for (int64_t i = begin; i < end; ++i) ids.push_back(sampler.SampleAt(i));
    RETURN_IF_ERROR(state.dataset().FillBatch(Split::kHeldOut, ids, batch));
    const Prediction prediction = state.model().Predict(batch);
    sum.loss_sum += prediction.loss_sum;
    sum.correct += prediction.correct;
    if (counts.has_value() && !prediction.outcomes.empty())
      counts->Add(batch.targets(), prediction.outcomes);
  }
  return sum;
}

}  // namespace

absl::StatusOr<EvaluationRecord> Evaluate(TrainingState& state,
                                          Communicator& communicator,
                                          absl::Duration wait_timeout,
                                          Clock& clock,
                                          const CancelToken& cancel) {
  const int64_t held_out = state.dataset().size(Split::kHeldOut);
  const int64_t wanted = state.config().program.evaluation_samples();
  const int64_t samples = wanted == 0 ? held_out : std::min(wanted, held_out);
  const PermutationSampler sampler(state.config().data.seed, held_out);
  Batch batch(state.model().max_batch(), state.dataset().shape());

  // Large pictures take longer to decode than the model takes for them. All that
  // this depends on is the job's, so the ranks make the same rounds.
  int64_t rank_samples = std::max<int64_t>(1, kRoundTargets / state.targets());
  if (state.dataset().decodes())
    rank_samples = std::min(rank_samples, kRoundDecodedSamples);
  const int64_t round_samples = rank_samples * communicator.world_size();
  const int64_t classes = state.model().input().sample_classes();
  std::optional<ClassCounts> counts;
  if (classes > 0) counts.emplace(classes);
  Prediction total;
  for (int64_t begin = 0; begin < samples; begin += round_samples) {
    ElemRange part = ChunkOf(communicator.rank(), communicator.world_size(),
                             std::min(round_samples, samples - begin));
    part.begin += begin;
    ASSIGN_OR_RETURN(const Prediction own,
                     PredictPart(state, sampler, part, batch, counts, cancel));
    RETURN_IF_ERROR(state.model().AwaitDevice().status());
    ASSIGN_OR_RETURN(
        const Prediction sum,
        SumOverRanks(own, communicator, clock.Now() + wait_timeout));
    total.loss_sum += sum.loss_sum;
    total.correct += sum.correct;
  }
  const auto targets = static_cast<double>(samples * state.targets());
  EvaluationRecord record = {
      .loss = total.loss_sum / targets,
      .accuracy = static_cast<double>(total.correct) / targets};
  if (counts.has_value()) {
    const absl::Span<int64_t> words = counts->words();
    RETURN_IF_ERROR(communicator.Run(
        AllReduceSum(BufferView::Of(std::span<int64_t>(words))),
        clock.Now() + wait_timeout));
    record.top5_accuracy = counts->Top5Accuracy();
    record.macro_f1 = counts->MacroF1();
  }
  return record;
}

}  // namespace ringmaster
