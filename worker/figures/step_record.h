// StepRecord: the figures of one training step, as one rank saw it.
#ifndef RINGMASTER_WORKER_FIGURES_STEP_RECORD_H_
#define RINGMASTER_WORKER_FIGURES_STEP_RECORD_H_

#include <cstdint>
#include <limits>
#include <optional>

namespace ringmaster {

// The seconds of a step by phase. The phases need not add up to `total`.
struct PhaseSeconds {
  double data_wait = 0;
  double forward = 0;
  double backward = 0;
  // Exposed communication: the time in which nothing was left to compute.
  double communication_wait = 0;
  double commit = 0;     // of which: for the records that end the step
  double optimizer = 0;  // with the norm of the gradient
  double checkpoint_snapshot = 0;
  double total = 0;

  friend bool operator==(const PhaseSeconds&, const PhaseSeconds&) = default;
};

// An evaluation on held-out samples.
struct EvaluationRecord {
  double loss = 0;  // mean cross entropy of a target, in nats
  // The share of targets that were the most probable class, in [0, 1].
  std::optional<double> accuracy = std::nullopt;
  // Of samples with classes: see ClassCounts.
  std::optional<double> top5_accuracy = std::nullopt;
  std::optional<double> macro_f1 = std::nullopt;
};

struct StepRecord {
  int64_t step = 0;  // from 1: the number of updates made
  double loss = 0;   // mean over the global batch
  double gradient_norm = 0;
  double learning_rate = 0;
  // The throughput of all ranks together.
  double tokens_per_second = 0;
  double samples_per_second = 0;
  // The share of the peak, in [0, 1]; nothing where the model's work is not
  // known.
  std::optional<double> model_flops_utilization = std::nullopt;
  PhaseSeconds seconds = {};
  // The bytes that this rank sent, without headers, and the least that it must
  // send.
  int64_t wire_payload_bytes = 0;
  int64_t wire_theory_bytes = 0;
  int world_size = 1;
  int64_t generation = 0;
  // The step was interrupted after its gradient was complete, and made all the
  // same: neither its loss nor its times are known, and they are NaN.
  bool is_partial = false;

  friend bool operator==(const StepRecord&, const StepRecord&) = default;
};

// Returns the record of a step of which no more is known than that.
[[nodiscard]] inline StepRecord PartialRecord(int64_t step) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  StepRecord record;
  record.step = step;
  record.loss = record.gradient_norm = record.learning_rate = kUnknown;
  record.tokens_per_second = record.samples_per_second = kUnknown;
  record.seconds = {kUnknown, kUnknown, kUnknown, kUnknown,
                    kUnknown, kUnknown, kUnknown, kUnknown};
  record.is_partial = true;
  return record;
}

// Returns the bytes that each rank sends on average in a ring all-reduce of
// `bytes` among N ranks: 2 * bytes * (N-1) / N (Patarasuk and Yuan, 2009).
[[nodiscard]] constexpr int64_t AllReduceWireBytes(int64_t bytes,
                                                   int world_size) {
  return 2 * bytes * (world_size - 1) / world_size;
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_FIGURES_STEP_RECORD_H_
