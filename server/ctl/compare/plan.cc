#include "server/ctl/compare/plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/config/byte_count.h"
#include "common/config/yaml_to_proto.h"
#include "common/job/job_spec.h"
#include "common/job/token_model.h"
#include "common/protocol/proto_time.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "server/ctl/compare/gpu_run.h"

namespace ringmaster::ctl {
namespace {

// Held-out samples at the end of a run: enough to see that it ends well.
constexpr int kEvaluationSamples = 64;
constexpr absl::Duration kSettle = absl::Seconds(30);
// To see how much memory a run needs: buffers are reserved for the first step,
// and nothing new after the second.
constexpr int64_t kMemorySteps = 4;
constexpr int64_t kMemoryBatchFactor = 4;
// Workers reserve buffers for as many targets, however few samples they compute
// (worker/train/step/prepared_job.cc): fewer samples would seem to need no memory.
constexpr int64_t kBufferedTargets = 64;
constexpr int64_t kLeastMemoryBytes = int64_t{1} << 20;
constexpr int64_t kMostMemoryBytes = int64_t{1} << 50;

absl::string_view Abseil(std::string_view text) {
  return {text.data(), text.size()};
}

void MakeComparable(const PlanOptions& options, int workers,
                    v1::JobSpec& spec) {
  spec.mutable_workers()->set_min(workers);
  spec.mutable_workers()->set_max(workers);
  *spec.mutable_workers()->mutable_settle() = ToProto(kSettle);
  v1::TrainProgram& train = *spec.mutable_train();
  train.clear_checkpoint();
  train.clear_sample();
  train.clear_early_stop();
  train.set_evaluate_every(0);
  train.set_evaluation_samples(kEvaluationSamples);
  if (options.is_over_network) {
    train.mutable_collective()->set_transport(v1::COLLECTIVE_TRANSPORT_TCP);
  }
}

bool IsVaried(const PlanOptions& options, const Mode& mode) {
  return options.varied_modes.empty() ||
         std::find(options.varied_modes.begin(), options.varied_modes.end(),
                   mode.name) != options.varied_modes.end();
}

absl::StatusOr<PlannedRun> PlanRun(const v1::JobSpec& job,
                                   const PlanOptions& options, int workers,
                                   const Mode& mode,
                                   const Variation& variation) {
  PlannedRun run;
  run.result.mode = mode;
  run.result.workers = workers;
  run.result.variant = variation.label;
  v1::JobSpec spec = job;
  MakeComparable(options, workers, spec);
  ApplyMode(mode, *spec.mutable_train());
  for (const std::string& assignment : variation.assignments)
    RETURN_IF_ERROR(SetProtoField(assignment, spec));
  if (options.is_batch_scaled) {
    v1::TrainProgram& train = *spec.mutable_train();
    train.set_global_batch(train.global_batch() * workers /
                           options.workers.front());
  }
  absl::StatusOr<v1::JobSpec> checked = ValidateAndDefault(spec);
  absl::Status status = checked.status();
  if (status.ok() && options.is_on_gpus)
    status = CheckGpuProgram(checked->train());
  if (!status.ok()) {
    return Annotate(status, absl::StrCat(run.result.label(), " with ", workers,
                                         " workers"));
  }
  run.spec = *std::move(checked);
  run.result.is_by_nccl =
      options.is_on_gpus && IsReducedByNccl(run.spec.train());
  FillResult(run.spec.train(), run.result);
  // On one host without a network all ranks are together.
  run.result.ranks_per_host =
      options.is_over_network ? options.ranks_per_host : workers;
  return run;
}

// Returns how many targets a model predicts in a sample; 1 if that is not
// known, as for a custom model.
int64_t TargetsOf(const v1::ModelSpec& model) {
  const auto tokens = TokenModelOf(model);
  return tokens ? std::max(1, tokens->sample_tokens) : 1;
}

// The samples that the first of two memory runs computes on each worker.
int64_t FewSamples(const v1::TrainProgram& train, int workers) {
  const int64_t targets = TargetsOf(train.model());
  return std::max(SamplesAtOnce(train, workers),
                  (kBufferedTargets + targets - 1) / targets);
}

absl::StatusOr<PlannedRun> MemoryRunOf(const PlannedRun& run,
                                       int64_t samples_per_worker) {
  PlannedRun short_run = run;
  SetShortRun(*short_run.spec.mutable_train(), kMemorySteps,
              samples_per_worker * run.result.workers);
  absl::StatusOr<v1::JobSpec> checked = ValidateAndDefault(short_run.spec);
  if (!checked.ok()) {
    return Annotate(
        checked.status(),
        absl::StrCat("--device_memory: ", run.result.label(), " with ",
                     samples_per_worker, " samples on each worker"));
  }
  short_run.spec = *std::move(checked);
  FillResult(short_run.spec.train(), short_run.result);
  return short_run;
}

}  // namespace

void FillResult(const v1::TrainProgram& train, RunResult& result) {
  result.steps = train.steps();
  result.global_batch = train.global_batch();
  result.bucket_bytes = train.bucket_bytes();
  result.samples_at_once = SamplesAtOnce(train, result.workers);
  const int64_t pieces = result.workers * result.samples_at_once;
  result.micro_batches = (train.global_batch() + pieces - 1) / pieces;
  result.wire_share =
      train.collective().wire() == v1::COLLECTIVE_WIRE_UNSPECIFIED ? 1 : 0.5;
}

absl::StatusOr<std::vector<int>> ParseWorkerCounts(std::string_view text) {
  std::set<int> counts;
  for (const absl::string_view piece : absl::StrSplit(Abseil(text), ',')) {
    int count = 0;
    if (!absl::SimpleAtoi(piece, &count) || count < 1 ||
        count > kMaxComparedWorkers) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--workers: \"", piece, "\" is no number of workers from 1 to ",
          kMaxComparedWorkers, "; write them as 2,4,8"));
    }
    counts.insert(count);
  }
  return std::vector<int>(counts.begin(), counts.end());
}

absl::StatusOr<double> ParseLinkRate(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
  for (const auto& [unit, bits] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::string_view digits = text.substr(0, text.size() - unit.size());
    double count = 0;
    // At least what carries control messages.
    if (absl::SimpleAtod(Abseil(digits), &count) && std::isfinite(count) &&
        count * bits >= 1e6 && count * bits <= 1e12) {
      return count * bits / 8;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--link: \"", std::string(text),
                   "\" is no rate from 1mbit to 1000gbit; write it as 1gbit or "
                   "250mbit"));
}

absl::StatusOr<Variation> ParseVariation(std::string_view text) {
  const size_t colon = text.find(':');
  Variation variation;
  if (colon != std::string_view::npos && colon > 0) {
    variation.label = std::string(text.substr(0, colon));
    variation.assignments = absl::StrSplit(Abseil(text.substr(colon + 1)), ';',
                                           absl::SkipWhitespace());
  }
  if (variation.assignments.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--vary: \"", std::string(text),
        "\" names no change; write LABEL:FIELD=VALUE;FIELD=VALUE, as "
        "\"16-bit wire:train.collective.wire=float16\""));
  }
  return variation;
}

absl::StatusOr<std::vector<PlannedRun>> MakePlan(const v1::JobSpec& job,
                                                 const PlanOptions& options) {
  if (!job.has_train()) {
    return absl::InvalidArgumentError(
        "a comparison takes a job that trains: one with `train`");
  }
  std::vector<PlannedRun> runs;
  for (const int workers : options.workers) {
    for (const Mode& mode : options.modes) {
      std::vector<Variation> variations = {Variation()};
      if (IsVaried(options, mode)) {
        variations.insert(variations.end(), options.variations.begin(),
                          options.variations.end());
      }
      for (const Variation& variation : variations) {
        ASSIGN_OR_RETURN(PlannedRun run,
                         PlanRun(job, options, workers, mode, variation));
        runs.push_back(std::move(run));
      }
    }
  }
  return runs;
}

absl::StatusOr<int64_t> ParseDeviceMemory(std::string_view text) {
  const std::optional<absl::int128> bytes = ParseBytes(text);
  if (bytes.has_value() && *bytes >= kLeastMemoryBytes &&
      *bytes <= kMostMemoryBytes) {
    return static_cast<int64_t>(*bytes);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--device_memory: \"", std::string(text),
      "\" is no memory from 1MiB to 1048576GiB; write it as 8GiB or 512MiB"));
}

int64_t SamplesAtOnce(const v1::TrainProgram& train, int workers) {
  const int64_t part = (train.global_batch() + workers - 1) / workers;
  return train.micro_batch() > 0 ? std::min(part, train.micro_batch()) : part;
}

void SetShortRun(v1::TrainProgram& train, int64_t steps, int64_t global_batch) {
  train.clear_emulate_compute();
  train.clear_micro_batch();
  train.set_steps(steps);
  train.set_global_batch(global_batch);
  // Its pace is measured, so that the rate may be any.
  const v1::ScheduleSpec& schedule = train.optimizer().schedule();
  if (schedule.warmup_steps() + schedule.decay_steps() > steps) {
    train.mutable_optimizer()->mutable_schedule()->set_warmup_steps(
        std::min(steps, schedule.warmup_steps()));
    train.mutable_optimizer()->mutable_schedule()->clear_decay_steps();
    if (schedule.kind() == v1::SCHEDULE_KIND_WSD) {
      train.mutable_optimizer()->mutable_schedule()->set_kind(
          v1::SCHEDULE_KIND_CONSTANT);
    }
  }
}

absl::StatusOr<std::vector<MemoryRuns>> PlanMemoryRuns(
    const std::vector<PlannedRun>& runs) {
  int most = 0;
  for (const PlannedRun& run : runs) most = std::max(most, run.result.workers);
  std::vector<MemoryRuns> planned;
  for (const PlannedRun& run : runs) {
    if (!run.result.variant.empty() || run.result.workers != most) continue;
    const int64_t samples = FewSamples(run.spec.train(), most);
    MemoryRuns pair;
    ASSIGN_OR_RETURN(pair.few, MemoryRunOf(run, samples));
    ASSIGN_OR_RETURN(pair.more, MemoryRunOf(run, kMemoryBatchFactor * samples));
    planned.push_back(std::move(pair));
  }
  return planned;
}

}  // namespace ringmaster::ctl
