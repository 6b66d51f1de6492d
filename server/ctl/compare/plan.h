// The runs of a comparison: every mode with every number of workers and every
// variation, each a separate job.
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

// Changes of the job to try in addition to the unchanged one.
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
  // In addition to the unchanged job.
  std::vector<Variation> variations;
  // Modes that are varied; empty: all.
  std::vector<std::string> varied_modes;
  int ranks_per_host = 1;
  // The job's global batch is that of the fewest workers and grows with their
  // number; otherwise it is the same for any number.
  bool is_batch_scaled = false;
  // Ranks are on separate hosts: they use TCP, whatever the job says.
  bool is_over_network = false;
  bool is_on_gpus = false;  // workers compute there
};

// Returns the runs in their order: fewest workers first. Every spec has its
// defaults. Runs write no checkpoints and no text, and evaluate once.
//   INVALID_ARGUMENT  names the run, and what the coordinator would refuse, or
//                     workers on GPUs, if it is for these
[[nodiscard]] absl::StatusOr<std::vector<PlannedRun>> MakePlan(
    const v1::JobSpec& job, const PlanOptions& options);

// "8GiB", "512MiB", "1048576": bytes, from 1 MiB to 1 PiB.
//   INVALID_ARGUMENT  names the flag --device_memory
[[nodiscard]] absl::StatusOr<int64_t> ParseDeviceMemory(std::string_view text);

// Returns the most samples that one of `workers` computes at once: its share of
// a batch, or a micro-batch if that is smaller.
[[nodiscard]] int64_t SamplesAtOnce(const v1::TrainProgram& train, int workers);

// Fills in the values of a run that `train`, checked and with its defaults,
// determines; `result.workers` is set already.
void FillResult(const v1::TrainProgram& train, RunResult& result);

// Makes `train` a short run that computes; each worker computes its share of a
// batch of `global_batch` samples at once. A longer warm-up is cut to the run's
// length.
void SetShortRun(v1::TrainProgram& train, int64_t steps, int64_t global_batch);

// Two short runs of one mode that show its memory needs (memory.h): in the
// second, each worker computes several times as many samples at once.
struct MemoryRuns {
  PlannedRun few;
  PlannedRun more;
};

// Returns the memory runs of each mode of `runs`, without variations and with
// the most workers.
//   INVALID_ARGUMENT  names --device_memory and the run, and what the
//                     coordinator would refuse
[[nodiscard]] absl::StatusOr<std::vector<MemoryRuns>> PlanMemoryRuns(
    const std::vector<PlannedRun>& runs);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMPARE_PLAN_H_
