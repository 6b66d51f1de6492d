// The time that a step of a run should take, from the formulas (theory.h) and
// from what other runs of the same comparison measured.
//
// Formulas leave out that those who share a link do not share it evenly. Where
// many push to one, an update waits for the slowest of N pushes, and answers
// begin late; where one root takes in and sends out, both directions are only
// partly in use at once. A mode's run with the next smaller number of workers
// measures how many times as long that makes its transfers; the factor is
// carried on. The delay of the slowest of N grows like the harmonic number H(N)
// (the mean of the largest of N delays that are distributed exponentially).
// Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_PREDICTION_H_
#define RINGMASTER_SERVER_CTL_COMPARE_PREDICTION_H_

#include <optional>

#include "server/ctl/compare/result.h"
#include "server/ctl/compare/theory.h"

namespace ringmaster::ctl {

// Assumed of a message, where there is a core for each process; with more
// processes than cores so many times as long.
inline constexpr double kLatencySeconds = 20e-6;

// The shape of a run's step, as it was measured.
[[nodiscard]] StepShape ShapeOf(const RunResult& run);

// The bytes of a step of `run`, by theory. Nothing where nobody knows how
// gradients travelled: with "auto", and where NCCL reduced them.
[[nodiscard]] std::optional<NodeBytes> TheoryOf(const RunResult& run);

struct KnownLink {
  LinkCost cost;
  // One of the comparison's runs, by which the link is known and which it
  // therefore does not predict; null: the link was limited.
  const RunResult* source = nullptr;
};

// The link that runs were made over: the rate it was limited to, else what the
// all-reduce over the fewest workers reached. Nothing where neither is known,
// or where workers compute on GPUs: NCCL has ways of its own, which no formula
// knows, and parameter servers do not take these.
[[nodiscard]] std::optional<KnownLink> LinkOf(const Comparison& comparison);

// Returns true if a mode's transfers need another run's to be predicted.
[[nodiscard]] bool IsLengthened(const Mode& mode);

// By how many times the transfers of `run` took longer than by the formulas.
// Nothing where they hid behind the backward pass, so that none can tell.
[[nodiscard]] std::optional<double> MeasuredLengthening(const RunResult& run,
                                                        const LinkCost& link);

// Returns what `lengthening`, measured with `from` workers, is with `to` of
// them.
[[nodiscard]] double GrownLengthening(const Mode& mode, double lengthening,
                                      int from, int to);

// `run` is one of `comparison`, whose own transfers are not used. Nothing where
// no link is known, or by this run alone, or where the mode is lengthened and
// no run with fewer workers tells by how much.
[[nodiscard]] std::optional<double> PredictedStepSeconds(
    const Comparison& comparison, const RunResult& run);

// The part of a step that computes, by the formulas, on `nodes` nodes that each
// do what a worker of `run` does, and have cores of their own; as the mode's
// largest run was lengthened. Nothing as above.
[[nodiscard]] std::optional<double> ComputingShare(const Comparison& comparison,
                                                   const RunResult& run,
                                                   int nodes,
                                                   int ranks_per_host);

// The errors of predictions, as a part of what was measured.
struct PredictionErrors {
  int runs = 0;  // that were predicted
  double median = 0;
  double largest = 0;
};
[[nodiscard]] PredictionErrors ErrorsOf(const Comparison& comparison);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_PREDICTION_H_
