// The runs of a comparison: every mode with every number of workers, and with
// every variation, each as a job of its own.
//
// Pure: nothing is started here.
#ifndef RINGMASTER_SERVER_CTL_COMPARE_PLAN_H_
#define RINGMASTER_SERVER_CTL_COMPARE_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ringmaster/v1/job.pb.h"
#include "server/ctl/compare/mode.h"
#include "server/ctl/compare/result.h"

namespace ringmaster::ctl {

// "2,4,8": ascending, each once.
//   INVALID_ARGUMENT  names the flag --workers
[[nodiscard]] absl::StatusOr<std::vector<int>> ParseWorkerCounts(
    std::string_view text);

// "1gbit", "250mbit", "64kbit": bytes a second.
//   INVALID_ARGUMENT  names the flag --link
[[nodiscard]] absl::StatusOr<double> ParseLinkRate(std::string_view text);

// Changes of the job that are tried beside it as it is.
struct Variation {
  std::string label;                     // "16-bit wire"; "" changes nothing
  std::vector<std::string> assignments;  // as of --set
};

// "16-bit wire:train.collective.wire=float16;train.steps=50".
//   INVALID_ARGUMENT  names the flag --vary
[[nodiscard]] absl::StatusOr<Variation> ParseVariation(std::string_view text);

struct PlannedRun {
  v1::JobSpec spec;
  RunResult result;  // what is known of it before it runs

  // Processes beside the workers.
  [[nodiscard]] int servers() const { return result.mode.servers; }
};

struct PlanOptions {
  std::vector<Mode> modes;
  std::vector<int> workers;
  // Beside the job as it is.
  std::vector<Variation> variations;
  // Modes that are varied; empty: all.
  std::vector<std::string> varied_modes;
  int ranks_per_host = 1;
  // The job's global batch is that of the fewest workers, and grows with them;
  // else it is that of any number.
  bool is_batch_scaled = false;
  // Hosts are apart: whatever the job says, ranks talk over TCP.
  bool is_over_network = false;
  bool is_on_gpus = false;  // workers compute there
};

// In the order in which they run: few workers first. Every spec has its
// defaults. Runs write no checkpoints and no text, and evaluate once.
//   INVALID_ARGUMENT  names the run, and what the coordinator would refuse, or
//                     workers on GPUs, if it is for these
[[nodiscard]] absl::StatusOr<std::vector<PlannedRun>> MakePlan(
    const v1::JobSpec& job, const PlanOptions& options);

// "8GiB", "512MiB", "1048576": bytes, from 1 MiB to 1 PiB.
//   INVALID_ARGUMENT  names the flag --device_memory
[[nodiscard]] absl::StatusOr<int64_t> ParseDeviceMemory(std::string_view text);

// The most samples that one of `workers` computes at once: its part of a batch,
// or a micro-batch where that is less.
[[nodiscard]] int64_t SamplesAtOnce(const v1::TrainProgram& train, int workers);

// Fills in what `train`, checked and with its defaults, says of a run;
// `result.workers` is set already.
void FillResult(const v1::TrainProgram& train, RunResult& result);

// Makes `train` a short run that computes, each worker its part of a batch of
// `global_batch` samples at once. A warm-up that is longer ends with the run.
void SetShortRun(v1::TrainProgram& train, int64_t steps, int64_t global_batch);

// Two short runs of one mode, which tell what memory it needs (memory.h): each
// worker computes several times as many samples at once in the second.
struct MemoryRuns {
  PlannedRun few;
  PlannedRun more;
};

// Those of each mode of `runs`, without variations and with the most workers.
//   INVALID_ARGUMENT  names --device_memory and the run, and what the
//                     coordinator would refuse
[[nodiscard]] absl::StatusOr<std::vector<MemoryRuns>> PlanMemoryRuns(
    const std::vector<PlannedRun>& runs);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_PLAN_H_
