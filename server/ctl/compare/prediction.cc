#include "server/ctl/compare/prediction.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "server/ctl/compare/repeats.h"

namespace ringmaster::ctl {
namespace {

// A transfer of which less is seen may as well have hidden altogether.
constexpr double kLeastSeenShare = 0.05;

double Harmonic(int n) {
  double sum = 0;
  for (int i = 1; i <= n; ++i) sum += 1.0 / i;
  return sum;
}

// Returns the cost of a link while all of `run`'s processes share the machine's
// cores.
LinkCost CrowdedLink(const Comparison& comparison, const RunResult& run,
                     LinkCost link) {
  const int cores = comparison.conditions.cores;
  if (cores > 0) {
    const int processes = run.workers + run.mode.servers;
    link.latency_seconds *=
        std::max(1.0, static_cast<double>(processes) / cores);
  }
  return link;
}

// The run that is the same except for its workers: the one with the most below
// `workers`; null: there is none.
const RunResult* NextSmaller(const Comparison& comparison, const RunResult& run,
                             int workers) {
  const RunResult* best = nullptr;
  for (const RunResult& other : comparison.runs) {
    if (!other.is_ok() || other.label() != run.label() ||
        other.workers >= workers || other.workers < 2) {
      continue;
    }
    if (best == nullptr || other.workers > best->workers) best = &other;
  }
  return best;
}

// By how many times the transfers of `run`'s mode take longer with `to`
// workers, as its run with the most below `below` tells; 1 for a mode that needs
// none. Nothing where no run tells.
std::optional<double> LengtheningOf(const Comparison& comparison,
                                    const RunResult& run, int below, int to,
                                    const LinkCost& link) {
  if (!IsLengthened(run.mode)) return 1;
  const RunResult* fewer = NextSmaller(comparison, run, below);
  if (fewer == nullptr) return std::nullopt;
  const auto measured =
      MeasuredLengthening(*fewer, CrowdedLink(comparison, *fewer, link));
  if (!measured.has_value()) return std::nullopt;
  return GrownLengthening(run.mode, *measured, fewer->workers, to);
}

}  // namespace

StepShape ShapeOf(const RunResult& run) {
  StepShape shape;
  shape.compute_seconds = run.compute_seconds + run.other_seconds;
  shape.backward_seconds =
      run.backward_seconds / static_cast<double>(run.micro_batches);
  shape.wire_bytes = run.wire_bytes();
  shape.ranks_per_host = std::max(1, run.ranks_per_host);
  shape.ready = run.ready_shares;
  if (!shape.ready.empty()) return shape;
  double buckets = 1;
  if (run.bucket_bytes > 0) {
    buckets = std::max(1.0, std::ceil(run.gradient_bytes /
                                      static_cast<double>(run.bucket_bytes)));
  }
  shape.ready = EvenlyReady(static_cast<int64_t>(buckets));
  return shape;
}

std::optional<NodeBytes> TheoryOf(const RunResult& run) {
  if (run.is_by_nccl) return std::nullopt;
  return BytesOfStep(run.mode, run.workers, run.ranks_per_host,
                     run.wire_bytes());
}

std::optional<KnownLink> LinkOf(const Comparison& comparison) {
  if (comparison.conditions.is_on_gpus) return std::nullopt;
  if (comparison.conditions.link_bytes_per_second > 0) {
    return KnownLink{
        {kLatencySeconds, 1 / comparison.conditions.link_bytes_per_second}};
  }
  const RunResult* fewest = nullptr;
  for (const RunResult& run : comparison.runs) {
    if (!run.is_ok() || run.workers < 2 || run.all_reduce_seconds <= 0)
      continue;
    if (fewest == nullptr || run.workers < fewest->workers) fewest = &run;
  }
  if (fewest == nullptr) return std::nullopt;
  const std::optional<NodeBytes> bytes = TheoryOf(*fewest);
  if (!bytes.has_value() || bytes->busiest <= 0) return std::nullopt;
  return KnownLink{{0, fewest->all_reduce_seconds / bytes->busiest}, fewest};
}

bool IsLengthened(const Mode& mode) {
  return mode.is_parameter_server() || mode.name == "gather_broadcast";
}

std::optional<double> MeasuredLengthening(const RunResult& run,
                                          const LinkCost& link) {
  const StepShape shape = ShapeOf(run);
  const auto formula = TransferSeconds(run.mode, run.workers, shape, link);
  const double seen = run.transfer_seconds + run.waiting_seconds;
  if (!formula.has_value() || *formula <= 0 ||
      seen < kLeastSeenShare * *formula) {
    return std::nullopt;
  }
  const double hidden = shape.backward_seconds * (1 - shape.ready.front());
  return (seen + hidden) / *formula;
}

double GrownLengthening(const Mode& mode, double lengthening, int from,
                        int to) {
  // A root waits for no slowest: it adds what comes as it comes. And where
  // transfers took no longer than by the formulas there was no waiting to grow.
  if (!mode.is_parameter_server() || lengthening <= 1) return lengthening;
  return 1 + (lengthening - 1) * (Harmonic(to) - 1) / (Harmonic(from) - 1);
}

std::optional<double> PredictedStepSeconds(const Comparison& comparison,
                                           const RunResult& run) {
  const std::optional<KnownLink> known = LinkOf(comparison);
  if (!known.has_value() || known->source == &run) return std::nullopt;
  LinkCost link = CrowdedLink(comparison, run, known->cost);
  const auto lengthening =
      LengtheningOf(comparison, run, run.workers, run.workers, known->cost);
  if (!lengthening.has_value()) return std::nullopt;
  link.lengthening = *lengthening;
  return StepSeconds(run.mode, run.workers, ShapeOf(run), link);
}

std::optional<double> ComputingShare(const Comparison& comparison,
                                     const RunResult& run, int nodes,
                                     int ranks_per_host) {
  const std::optional<KnownLink> known = LinkOf(comparison);
  if (!known.has_value()) return std::nullopt;
  LinkCost link = known->cost;
  const auto lengthening = LengtheningOf(
      comparison, run, kMaxComparedWorkers + 1, nodes, known->cost);
  if (!lengthening.has_value()) return std::nullopt;
  link.lengthening = *lengthening;
  StepShape shape = ShapeOf(run);
  shape.ranks_per_host = ranks_per_host;
  const auto seconds = StepSeconds(run.mode, nodes, shape, link);
  if (!seconds.has_value() || *seconds <= 0) return std::nullopt;
  return shape.compute_seconds / *seconds;
}

PredictionErrors ErrorsOf(const Comparison& comparison) {
  std::vector<double> errors;
  for (const RunResult& run : comparison.runs) {
    if (!run.is_ok() || run.step_seconds <= 0) continue;
    const auto predicted = PredictedStepSeconds(comparison, run);
    if (predicted.has_value())
      errors.push_back(std::abs(*predicted / run.step_seconds - 1));
  }
  if (errors.empty()) return {};
  return {static_cast<int>(errors.size()), MedianOf(errors),
          *std::max_element(errors.begin(), errors.end())};
}

}  // namespace ringmaster::ctl
