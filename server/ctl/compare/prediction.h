// The predicted time of a run's step, from the formulas (theory.h) and from the
// measurements of other runs of the same comparison.
//
// The formulas ignore that transfers do not share a link evenly. If many
// workers push to one server, an update waits for the slowest of N pushes, and
// answers begin late; if one root receives and sends, both directions are only
// partly busy at once. The mode's run with the next smaller number of workers
// shows by which factor that lengthens its transfers, and the factor is
// extrapolated: the delay of the slowest of N grows like the harmonic number
// H(N) (the mean of the largest of N exponentially distributed delays).
//
// Comparisons here have one run for each combination: medians, if it was
// repeated (repeats.h). Pure.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_PREDICTION_H_
#define RINGMASTER_SERVER_CTL_COMPARE_PREDICTION_H_

#include <optional>

#include "server/ctl/compare/result.h"
#include "server/ctl/compare/theory.h"

namespace ringmaster::ctl {

// Assumed latency of a message if each process has a core; with more processes
// than cores, longer by their ratio.
inline constexpr double kLatencySeconds = 20e-6;

// Returns the measured shape of a run's step.
[[nodiscard]] StepShape ShapeOf(const RunResult& run);

// The bytes of a step of `run`, by theory. nullopt if it is not known how
// gradients travelled: with "auto", and if NCCL reduced them.
[[nodiscard]] std::optional<NodeBytes> TheoryOf(const RunResult& run);

struct KnownLink {
  LinkCost cost;
  // The run of the comparison from which the link is known, and which it
  // therefore does not predict; null: the link was limited.
  const RunResult* source = nullptr;
};

// Returns the link of the runs: the rate it was limited to, otherwise the rate
// that the all-reduce over the fewest workers reached. nullopt if neither is
// known, or if workers compute on GPUs: NCCL uses transports that no formula
// covers, and parameter servers do not use these.
[[nodiscard]] std::optional<KnownLink> LinkOf(const Comparison& comparison);

// Returns true if predicting a mode's transfers requires another run.
[[nodiscard]] bool IsLengthened(const Mode& mode);

// Returns the factor by which the transfers of `run` took longer than predicted
// by the formulas. nullopt if the backward pass hid them, so that they could
// not be measured.
[[nodiscard]] std::optional<double> MeasuredLengthening(const RunResult& run,
                                                        const LinkCost& link);

// Extrapolates `lengthening`, measured with `from` workers, to `to` workers.
[[nodiscard]] double GrownLengthening(const Mode& mode, double lengthening,
                                      int from, int to);

// Predicts the step of `run`, one of `comparison`, without using its own
// transfers. nullopt if the link is unknown or known from this run alone, or if
// the mode is lengthened and no run with fewer workers shows by how much.
[[nodiscard]] std::optional<double> PredictedStepSeconds(
    const Comparison& comparison, const RunResult& run);

// Returns the share of a step spent computing, by the formulas, on `nodes`
// nodes with their own cores that each do what a worker of `run` does;
// lengthened like the mode's largest run. nullopt as above.
[[nodiscard]] std::optional<double> ComputingShare(const Comparison& comparison,
                                                   const RunResult& run,
                                                   int nodes,
                                                   int ranks_per_host);

// The errors of predictions, as a share of the measured values.
struct PredictionErrors {
  int runs = 0;  // that were predicted
  double median = 0;
  double largest = 0;
};
[[nodiscard]] PredictionErrors ErrorsOf(const Comparison& comparison);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_PREDICTION_H_
