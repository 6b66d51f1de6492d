#include "server/ctl/commands/cluster_bench.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "server/ctl/client/job_watch.h"
#include "server/ctl/commands/bench_lines.h"
#include "server/ctl/commands/cancel_on_interrupt.h"
#include "server/ctl/render/bench_view.h"
#include "server/ctl/render/job_view.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/verdict_view.h"
#include "worker/bench/bench_program.h"

namespace ringmaster::ctl {
namespace {

constexpr const char* kJobName = "bench-allreduce";
constexpr absl::Duration kCheckInterval = absl::Seconds(1);
constexpr int64_t kMaxBytes = int64_t{1} << 30;

// -n, or all workers that are idle now.
absl::StatusOr<int> WorkersFor(const BenchFlags& flags, Client& client) {
  if (flags.ranks != 0) return flags.ranks;
  ASSIGN_OR_RETURN(const v1::Status status, client.GetStatus());
  const auto idle = std::count_if(
      status.workers().begin(), status.workers().end(), [](const auto& worker) {
        return worker.state() == v1::WORKER_STATE_IDLE;
      });
  if (idle >= 2)
    return static_cast<int>(std::min<int64_t>(idle, kMaxAllReduceBenchRanks));
  return absl::InvalidArgumentError(absl::StrCat(
      "--ranks: the pool has ", idle,
      " idle workers, and an all-reduce takes two; with -n N the benchmark "
      "waits until there are as many"));
}

// A user who waits for figures need not see the other states.
bool IsTold(v1::JobState state) {
  return state == v1::JOB_STATE_QUEUED || state == v1::JOB_STATE_GATHERING ||
         state == v1::JOB_STATE_HALTING || state == v1::JOB_STATE_STOPPING;
}

class ClusterBench {
 public:
  ClusterBench(const CommandContext& context,
               const ClusterBenchOptions& options)
      : context_(context),
        options_(options),
        cancel_(context.client, context.clock,
                {.is_interrupted = options.is_interrupted,
                 .limit = options.cancel_limit,
                 .note = [this](std::string_view line) { Note(line); }}) {}

  absl::StatusOr<int> Run() {
    ASSIGN_OR_RETURN(const int workers,
                     WorkersFor(options_.flags, context_.client));
    ASSIGN_OR_RETURN(const v1::JobSpec spec,
                     BenchJobSpec(options_.flags, workers));
    ASSIGN_OR_RETURN(const v1::Job job, context_.client.SubmitJob(
                                            spec, /*validate_only=*/false, ""));
    Note(absl::StrCat("job ", Printable(job.id()), ": all-reduce of ", workers,
                      " workers"));
    ASSIGN_OR_RETURN(const v1::Job ended, Follow(job.id()));
    if (is_json()) context_.console.Write(BenchJson(ended));
    if (ended.state() != v1::JOB_STATE_SUCCEEDED) {
      Note(absl::StrCat(
          "error: job ", Printable(ended.id()), " ",
          ended.state() == v1::JOB_STATE_CANCELLED ? "was cancelled" : "failed",
          ": ", Printable(ended.message())));
    }
    return ExitCodeOfJob(ended);
  }

 private:
  bool is_json() const { return context_.format == OutputFormat::kJson; }

  // On stderr: stdout has figures only.
  void Note(std::string_view line) {
    context_.console.WriteError(absl::StrCat(std::string(line), "\n"));
  }

  absl::StatusOr<v1::Job> Follow(const std::string& job_id) {
    JobWatch watch(context_.client.Share(), job_id, {}, context_.clock,
                   options_.bell);
    while (true) {
      const WatchSnapshot snapshot = watch.Snapshot();
      Show(snapshot);
      if (snapshot.end.has_value()) {
        RETURN_IF_ERROR(*snapshot.end);
        return *snapshot.job;
      }
      RETURN_IF_ERROR(cancel_.Check(job_id));
      (void)options_.bell.Await(context_.clock,
                                context_.clock.Now() + kCheckInterval);
    }
  }

  void Show(const WatchSnapshot& snapshot) {
    const bool is_lost = !snapshot.lost.empty();
    if (is_lost && !was_lost_) {
      Note(absl::StrCat("lost the coordinator, trying again: ",
                        Printable(snapshot.lost)));
    }
    if (!is_lost && was_lost_) Note("connected to the coordinator again");
    was_lost_ = is_lost;
    if (!snapshot.job.has_value()) return;
    const v1::Job& job = *snapshot.job;
    ShowState(job);
    if (is_json()) return;
    for (const std::string& line : lines_.Take(job))
      context_.console.Write(absl::StrCat(line, "\n"));
  }

  void ShowState(const v1::Job& job) {
    if (HasEnded(job.state())) return;
    if (job.has_verdict()) {
      std::string incident = IncidentLine(job.verdict(), Style());
      if (incident != incident_) Note(incident);
      incident_ = std::move(incident);
    }
    std::string state = StateLine(job);
    if (state != state_ && IsTold(job.state())) Note(state);
    state_ = std::move(state);
  }

  const CommandContext& context_;
  const ClusterBenchOptions& options_;
  CancelOnInterrupt cancel_;
  BenchLines lines_;
  bool was_lost_ = false;
  std::string state_;
  std::string incident_;
};

}  // namespace

absl::StatusOr<v1::JobSpec> BenchJobSpec(const BenchFlags& flags, int workers) {
  ASSIGN_OR_RETURN(AllReduceBenchOptions options,
                   ToBenchOptions(flags, workers));
  // The workers tell if an algorithm is usable: it depends on their hosts.
  AllReduceBenchOptions checked = options;
  checked.algorithm = Algorithm::kAuto;
  RETURN_IF_ERROR(CheckAllReduceBench(checked));
  if (options.sizes.back() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sizes=", flags.sizes,
                     ": workers measure buffers of at most 1G, got ",
                     options.sizes.back(), " bytes"));
  }
  v1::JobSpec spec;
  spec.set_name(kJobName);
  spec.mutable_workers()->set_min(workers);
  spec.mutable_workers()->set_max(workers);
  FillBenchProgram(options, *spec.mutable_bench());
  return spec;
}

absl::StatusOr<int> RunClusterBench(const CommandContext& context,
                                    const ClusterBenchOptions& options) {
  return ClusterBench(context, options).Run();
}

}  // namespace ringmaster::ctl
