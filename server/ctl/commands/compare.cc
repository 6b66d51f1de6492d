#include "server/ctl/commands/compare.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/config/version.h"
#include "common/machine/usable_cores.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/ctl/commands/compare_device.h"
#include "server/ctl/commands/compare_run.h"
#include "server/ctl/commands/job_file.h"
#include "server/ctl/compare/comparison_files.h"
#include "server/ctl/compare/comparison_json.h"
#include "server/ctl/compare/emulation.h"
#include "server/ctl/compare/gpu_run.h"
#include "server/ctl/compare/memory.h"
#include "server/ctl/local/binaries.h"
#include "server/ctl/local/other_clusters.h"

namespace ringmaster::ctl {
namespace {

constexpr char kModes[] = "ring,hierarchical,gather_broadcast";

// "model name : ..." of /proc/cpuinfo; empty where there is none.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return "";
}

// Returns the algorithm by which TCP flows of new network namespaces share a
// link; empty: not known.
std::string CongestionControl() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string name;
  file >> name;
  return name;
}

class Compare {
 public:
  Compare(const CompareContext& context, const CompareFlags& flags)
      : context_(context), flags_(flags) {}

  absl::StatusOr<int> Run() {
    RETURN_IF_ERROR(SettleDevice());
    RETURN_IF_ERROR(Plan());
    RETURN_IF_ERROR(MakeOutDirectory(flags_.out));
    if (context_.cluster == nullptr) {
      RETURN_IF_ERROR(SettleLocal());
    } else {
      RETURN_IF_ERROR(CheckCluster());
    }
    FillConditions();
    int exit_code = 0;
    const size_t runs = plan_.size() * flags_.repeats;
    for (size_t i = 0; i < runs && !context_.is_interrupted(); ++i) {
      ASSIGN_OR_RETURN(const int code, RunOne(i));
      if (exit_code == 0) exit_code = code;
    }
    ASSIGN_OR_RETURN(const int memory_exit_code, MeasureMemory());
    if (exit_code == 0) exit_code = memory_exit_code;
    links_.reset();
    comparison_.conditions.is_cut_short = context_.is_interrupted();
    RETURN_IF_ERROR(WriteComparison(comparison_, flags_.out));
    context_.console.Write(
        context_.format == OutputFormat::kJson
            ? ComparisonJson(comparison_)
            : absl::StrCat("report: ", flags_.out, "/", kReportFile, "\n"));
    return context_.is_interrupted() ? static_cast<int>(ExitCode::kStopped)
                                     : exit_code;
  }

 private:
  absl::Status SettleDevice() {
    if (context_.cluster != nullptr) {
      ASSIGN_OR_RETURN(status_, context_.cluster->GetStatus());
    }
    ASSIGN_OR_RETURN(
        is_on_gpus_,
        AreWorkersOnGpus(flags_,
                         context_.cluster == nullptr ? nullptr : &status_));
    return absl::OkStatus();
  }

  const char* GpuModes() const {
    return context_.cluster == nullptr ? kGpuModes : kClusterGpuModes;
  }

  absl::Status Plan() {
    ASSIGN_OR_RETURN(const v1::JobSpec job,
                     LoadJobFile(flags_.job_file, flags_.assignments));
    PlanOptions options;
    options.is_on_gpus = is_on_gpus_;
    ASSIGN_OR_RETURN(options.modes,
                     ParseModes(!flags_.modes.empty() ? flags_.modes
                                : is_on_gpus_         ? GpuModes()
                                                      : kModes));
    if (is_on_gpus_) {
      RETURN_IF_ERROR(
          CheckGpuModes(options.modes, context_.cluster != nullptr));
    }
    ASSIGN_OR_RETURN(options.workers, ParseWorkerCounts(flags_.workers));
    for (const std::string& text : flags_.variations) {
      ASSIGN_OR_RETURN(Variation variation, ParseVariation(text));
      options.variations.push_back(std::move(variation));
    }
    if (!flags_.link.empty()) {
      ASSIGN_OR_RETURN(link_rate_, ParseLinkRate(flags_.link));
      if (context_.cluster != nullptr) {
        return absl::InvalidArgumentError(
            "--link: the links of a cluster are what they are; leave it out, "
            "or leave --coordinator out to run on this machine");
      }
    }
    if (!flags_.device_memory.empty()) {
      ASSIGN_OR_RETURN(device_memory_, ParseDeviceMemory(flags_.device_memory));
    }
    if (!flags_.varied_modes.empty()) {
      ASSIGN_OR_RETURN(const std::vector<Mode> varied,
                       ParseModes(flags_.varied_modes));
      for (const Mode& mode : varied) options.varied_modes.push_back(mode.name);
    }
    options.is_batch_scaled = flags_.is_batch_scaled;
    options.ranks_per_host = flags_.ranks_per_host;
    options.is_over_network = link_rate_ > 0;
    absl::StatusOr<std::vector<PlannedRun>> plan = MakePlan(job, options);
    if (!plan.ok())
      return Annotate(plan.status(), JobFileName(flags_.job_file));
    plan_ = *std::move(plan);
    if (device_memory_ > 0) {
      ASSIGN_OR_RETURN(memory_plan_, PlanMemoryRuns(plan_));
    }
    model_ = job.train().model().ShortDebugString();
    return absl::OkStatus();
  }

  absl::Status SettleLocal() {
    const BinaryPlaces places = OwnPlaces(flags_.bin_dir);
    ASSIGN_OR_RETURN(local_.coordinator_binary,
                     FindBinary("coordinator", places));
    ASSIGN_OR_RETURN(local_.worker_binary, FindBinary("worker", places));
    // Without it the modes that need it fail, and the others do not.
    const absl::StatusOr<std::string> server =
        FindBinary("parameter_server", places);
    server_fault_ = server.status();
    local_.parameter_server_binary = server.ok() ? *server : "";
    local_.worker_threads = flags_.threads;
    local_.are_workers_slots = is_on_gpus_;
    local_.worker_arguments = {absl::StrCat("--device=", flags_.device)};
    if (flags_.share_gpu) local_.worker_arguments.push_back("--share_gpu");
    ForgetOtherClusters();
    if (link_rate_ == 0) return absl::OkStatus();
    LinkNamespacesOptions options;
    options.bytes_per_second = link_rate_;
    options.scratch_dir = flags_.out;
    for (const PlannedRun& run : plan_) {
      const int hosts = (run.result.workers + flags_.ranks_per_host - 1) /
                            flags_.ranks_per_host +
                        run.servers();
      options.hosts = std::max(options.hosts, hosts);
    }
    absl::StatusOr<std::unique_ptr<LinkNamespaces>> links =
        LinkNamespaces::Make(options);
    if (links.ok()) {
      links_ = *std::move(links);
      return absl::OkStatus();
    }
    if (flags_.ranks_per_host > 1) {
      return Annotate(links.status(), "--ranks_per_host");
    }
    context_.console.WriteError(
        absl::StrCat("note: ", std::string(links.status().message()),
                     "; each worker holds itself to the rate instead\n"));
    local_.launcher = [rate = link_rate_](int) {
      return std::vector<std::string>{
          "/usr/bin/env", absl::StrCat("RINGMASTER_LINK_RATE=", rate)};
    };
    return absl::OkStatus();
  }

  // Jobs that ask for more workers than there are would wait.
  [[nodiscard]] absl::Status CheckCluster() const {
    const auto idle = [&](v1::Role role) {
      return std::count_if(status_.workers().begin(), status_.workers().end(),
                           [&](const v1::Worker& worker) {
                             return worker.state() == v1::WORKER_STATE_IDLE &&
                                    worker.role() == role;
                           });
    };
    const auto workers = idle(v1::ROLE_WORKER);
    const auto servers = idle(v1::ROLE_PARAMETER_SERVER);
    for (const PlannedRun& run : plan_) {
      if (run.result.workers > workers) {
        return absl::InvalidArgumentError(
            absl::StrCat("--workers: the cluster has ", workers,
                         " idle workers, too few for ", run.result.workers));
      }
      if (run.servers() > servers) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--modes: the cluster has ", servers,
            " idle parameter servers, too few for ", run.result.mode.name));
      }
    }
    return absl::OkStatus();
  }

  void FillConditions() {
    Conditions& conditions = comparison_.conditions;
    conditions.time = absl::FormatTime("%Y-%m-%d %H:%M:%S %z", absl::Now(),
                                       absl::LocalTimeZone());
    conditions.version = std::string(kVersion);
    conditions.command = context_.command;
    conditions.job = JobFileName(flags_.job_file);
    conditions.model = model_;
    conditions.repeats = flags_.repeats;
    conditions.planned_runs = static_cast<int>(plan_.size()) * flags_.repeats;
    conditions.is_on_cluster = context_.cluster != nullptr;
    conditions.planned_memories = static_cast<int>(memory_plan_.size());
    conditions.batch = BatchText();
    conditions.device_memory_bytes = static_cast<double>(device_memory_);
    conditions.is_on_gpus = is_on_gpus_;
    conditions.device =
        DeviceText(is_on_gpus_, context_.cluster != nullptr, flags_.share_gpu);
    if (context_.cluster != nullptr) {
      conditions.place =
          absl::StrCat("the cluster at ", context_.cluster->address());
      return;
    }
    conditions.place =
        absl::StrCat("processes of one machine, ", flags_.threads,
                     flags_.threads == 1 ? " thread" : " threads", " each");
    conditions.cores = UsableCores();
    conditions.machine =
        absl::StrCat(conditions.cores, " cores, ", ProcessorName());
    conditions.link_bytes_per_second = link_rate_;
    conditions.link = LinkText();
  }

  [[nodiscard]] std::string LinkText() const {
    if (is_on_gpus_) return "none: NCCL's ways, and shared memory";
    if (link_rate_ == 0) return "none: shared memory";
    if (links_ == nullptr) {
      return flags_.link +
             " each way for each worker, which its transport holds itself to; "
             "all are on one host";
    }
    return absl::StrCat(flags_.link,
                        " each way for each host, by token buckets between "
                        "network namespaces; ",
                        flags_.ranks_per_host,
                        flags_.ranks_per_host == 1 ? " worker" : " workers",
                        " a host; TCP with ", CongestionControl());
  }

  // Says how many samples a step has.
  [[nodiscard]] std::string BatchText() const {
    const RunResult& first = plan_.front().result;
    if (flags_.is_batch_scaled) {
      return absl::StrFormat(
          "A step trains on %.4g samples for each worker: more workers train "
          "on "
          "more at once.",
          static_cast<double>(first.global_batch) / first.workers);
    }
    return absl::StrCat("A step trains on ", first.global_batch,
                        " samples, which the workers share.");
  }

  // A directory of its own, for logs.
  absl::StatusOr<std::string> LogDirectory(std::string name) const {
    std::replace(name.begin(), name.end(), ':', '-');
    std::string path = absl::StrCat(flags_.out, "/logs/", name);
    RETURN_IF_ERROR(MakeOutDirectory(path));
    return path;
  }

  // `name` is its logs' directory.
  absl::StatusOr<FinishedRun> Start(const PlannedRun& run,
                                    const std::string& name,
                                    const LinkNamespaces* links,
                                    bool has_trace) {
    if (context_.cluster != nullptr)
      return RunOnCluster(context_, run, has_trace);
    if (run.servers() > 0 && !server_fault_.ok()) {
      FinishedRun failed{run.result, static_cast<int>(ExitCode::kUsage), {}};
      failed.result.failure = std::string(server_fault_.message());
      return failed;
    }
    LocalClusterOptions options = local_;
    if (is_on_gpus_) {
      options.launcher = [&run](int) { return NcclLauncher(run.spec.train()); };
    }
    ASSIGN_OR_RETURN(options.run_dir, LogDirectory(name));
    return RunOnThisMachine(context_, run, has_trace, std::move(options),
                            links);
  }

  // Makes `run` wait instead of computing, for as long as a single worker
  // computes: recorded once for all runs that compute alike.
  absl::Status Emulate(PlannedRun& run) {
    ASSIGN_OR_RETURN(const PlannedRun recording, RecordingOf(run));
    const std::string key = recording.spec.SerializeAsString();
    auto known = recorded_.find(key);
    if (known == recorded_.end()) {
      ASSIGN_OR_RETURN(
          const FinishedRun recorded,
          Start(recording, absl::StrCat("recording-", recorded_.size() + 1),
                /*links=*/nullptr, /*has_trace=*/true));
      if (!recorded.result.is_ok()) {
        return absl::InternalError(
            absl::StrCat("--emulate_compute: the run that records how long "
                         "computing takes failed: ",
                         recorded.result.failure));
      }
      known = recorded_.emplace(key, recorded).first;
    }
    const FinishedRun& recorded = known->second;
    *run.spec.mutable_train()->mutable_emulate_compute() =
        EmulationFrom(recorded.result, recorded.trace, run.result.bucket_bytes);
    run.result.is_emulated = true;
    run.result.ready_shares.clear();
    for (const int permille :
         run.spec.train().emulate_compute().ready_permille())
      run.result.ready_shares.push_back(1e-3 * permille);
    return absl::OkStatus();
  }

  // The first exit code of its runs that is not 0. An error ends everything.
  absl::StatusOr<int> MeasureMemory() {
    int exit_code = 0;
    for (const MemoryRuns& runs : memory_plan_) {
      if (context_.is_interrupted()) break;
      ASSIGN_OR_RETURN(const int code, MeasureMemoryOf(runs));
      if (exit_code == 0) exit_code = code;
    }
    return exit_code;
  }

  absl::StatusOr<int> MeasureMemoryOf(const MemoryRuns& runs) {
    const std::string& mode = runs.few.result.mode.name;
    int exit_code = 0;
    std::vector<RunResult> results;
    for (const auto& [run, name] :
         {std::pair(&runs.few, "few"), std::pair(&runs.more, "more")}) {
      absl::StatusOr<FinishedRun> finished =
          Start(*run, absl::StrCat("memory-", mode, "-", name), links_.get(),
                /*has_trace=*/false);
      // Cancelled by the user: the loop ends.
      if (context_.is_interrupted()) return 0;
      RETURN_IF_ERROR(finished.status());
      if (exit_code == 0) exit_code = finished->exit_code;
      results.push_back(std::move(finished->result));
    }
    comparison_.memories.push_back(MemoryFrom(results[0], results[1]));
    const MemoryResult& memory = comparison_.memories.back();
    if (exit_code == 0 && !memory.is_ok())
      exit_code = static_cast<int>(ExitCode::kInternal);
    context_.console.WriteError(absl::StrCat(
        "memory of ", mode, " x", memory.workers,
        memory.is_ok() ? absl::StrCat(": with ", memory.few_samples, " and ",
                                      memory.more_samples, " samples\n")
                       : absl::StrCat(": error: ", memory.failure, "\n")));
    RETURN_IF_ERROR(WriteComparison(comparison_, flags_.out));
    return exit_code;
  }

  // The exit code of the run, one of all turns. An error ends everything.
  absl::StatusOr<int> RunOne(size_t index) {
    PlannedRun& plan = plan_[index % plan_.size()];
    const RunResult& planned = plan.result;
    plan.result.turn = static_cast<int>(index / plan_.size()) + 1;
    const std::string name = absl::StrFormat(
        "[%d/%d] %s x%d", index + 1, comparison_.conditions.planned_runs,
        planned.label(), planned.workers);
    const MonotonicTime begin = context_.clock.Now();
    if (flags_.is_emulated && planned.turn == 1) {
      const absl::Status emulated = Emulate(plan);
      if (context_.is_interrupted()) return 0;
      RETURN_IF_ERROR(emulated);
    }
    absl::StatusOr<FinishedRun> run = Start(
        plan,
        absl::StrCat(index + 1, "-", planned.mode.name, "-x", planned.workers),
        links_.get(), /*has_trace=*/false);
    // Cancelled by the user: the loop ends.
    if (context_.is_interrupted()) return 0;
    RETURN_IF_ERROR(run.status());
    RunResult& result = run->result;
    result.wall_seconds = absl::ToDoubleSeconds(context_.clock.Now() - begin);
    context_.console.WriteError(
        result.is_ok() ? absl::StrFormat("%s: %.2f ms a step, %.1f samples/s\n",
                                         name, 1e3 * result.step_seconds,
                                         result.samples_per_second)
                       : absl::StrCat(name, ": error: ", result.failure, "\n"));
    comparison_.runs.push_back(std::move(result));
    RETURN_IF_ERROR(WriteComparison(comparison_, flags_.out));
    return run->exit_code;
  }

  const CompareContext& context_;
  const CompareFlags& flags_;
  std::vector<PlannedRun> plan_;
  std::vector<MemoryRuns> memory_plan_;  // empty: not asked for
  std::string model_;
  bool is_on_gpus_ = false;
  v1::Status status_;  // of the cluster, if there is one
  double link_rate_ = 0;
  int64_t device_memory_ = 0;
  LocalClusterOptions local_;
  absl::Status server_fault_;  // why there are no parameter servers
  std::unique_ptr<LinkNamespaces> links_;
  // By the recording's spec.
  std::map<std::string, FinishedRun> recorded_;
  Comparison comparison_;
};

}  // namespace

absl::StatusOr<int> RunCompare(const CompareContext& context,
                               const CompareFlags& flags) {
  return Compare(context, flags).Run();
}

}  // namespace ringmaster::ctl
