#include "server/ctl/commands/local.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/credentials/credentials.h"
#include "common/job/job_spec.h"
#include "common/machine/usable_cores.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/ctl/client/client.h"
#include "server/ctl/client/job_watch.h"
#include "server/ctl/commands/cancel_on_interrupt.h"
#include "server/ctl/commands/job_file.h"
#include "server/ctl/commands/warnings.h"
#include "server/ctl/local/binaries.h"
#include "server/ctl/local/local_cluster.h"
#include "server/ctl/local/other_clusters.h"
#include "server/ctl/local/run_directory.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

constexpr int kTailLines = 15;

// Returns how many parameter servers the job needs as processes of their own.
int ParameterServersOf(const v1::JobSpec& spec) {
  return spec.train().parameter_server().servers();
}

// One run: the cluster, the job in it, and the user's interrupts.
class LocalRun {
 public:
  LocalRun(const LocalContext& context, const LocalOptions& options,
           LocalCluster& cluster)
      : context_(context),
        options_(options),
        cluster_(cluster),
        display_(context.console, context.format, context.clock) {}

  absl::StatusOr<v1::Job> Run(const v1::JobSpec& spec, int workers) {
    ASSIGN_OR_RETURN(
        const std::string address,
        cluster_.StartCoordinator([this] { return CheckInterrupt(); }));
    context_.console.WriteError(absl::StrCat("coordinator: ", address, "\n"));
    if (!cluster_.page_port().empty()) {
      context_.console.WriteError(
          absl::StrCat("page: http://127.0.0.1:", cluster_.page_port(), "/\n"));
    }
    ASSIGN_OR_RETURN(auto credentials, MakeChannelCredentials({}, address));
    client_ = std::make_unique<Client>(
        ClientOptions{.address = address,
                      .credentials = std::move(credentials),
                      .timeout = options_.timeout});
    RETURN_IF_ERROR(
        cluster_.StartParameterServers(address, ParameterServersOf(spec)));
    RETURN_IF_ERROR(cluster_.StartWorkers(address, workers));
    ASSIGN_OR_RETURN(const v1::Job job,
                     client_->SubmitJob(spec, /*validate_only=*/false, ""));
    WarnOf(job.spec(), context_.console);
    job_id_ = job.id();
    cancel_ = std::make_unique<CancelOnInterrupt>(
        *client_, context_.clock,
        CancelOnInterrupt::Options{
            .is_interrupted = context_.is_interrupted,
            .limit = options_.cancel_limit,
            .note = [this](std::string_view line) { display_.Note(line); }});
    watch_ =
        std::make_unique<JobWatch>(client_->Share(), job_id_, JobWatchOptions{},
                                   context_.clock, context_.bell);
    ASSIGN_OR_RETURN(const v1::Job ended,
                     Follow(*watch_, display_, context_.bell, context_.clock,
                            [this] { return Check(); }));
    NoteWarnings(*client_, job_id_, display_);
    return ended;
  }

 private:
  absl::Status CheckInterrupt() const {
    return context_.is_interrupted()
               ? absl::CancelledError("stopped by a signal")
               : absl::OkStatus();
  }

  // Called while the job is followed.
  absl::Status Check() {
    RETURN_IF_ERROR(cancel_->Check(job_id_));
    const std::optional<v1::Job> job = watch_->Snapshot().job;
    // Once it has members, the coordinator decides what a worker's end means;
    // before that, the job would wait for ever.
    const bool is_gathering = !job.has_value() || job->generation() == 0;
    return cluster_.Check(/*needs_all_members=*/is_gathering);
  }

  const LocalContext& context_;
  const LocalOptions& options_;
  LocalCluster& cluster_;
  JobDisplay display_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<JobWatch> watch_;
  std::string job_id_;
  std::unique_ptr<CancelOnInterrupt> cancel_;
};

// Prints the end of the log of the worker that the verdict blames, unless the worker has
// said itself what it died of, which the verdict repeats.
void PrintCulpritsLog(Console& console, const v1::Job& job,
                      const LocalCluster& cluster) {
  if (job.state() != v1::JOB_STATE_FAILED || !job.has_verdict()) return;
  for (const v1::Evidence& evidence : job.verdict().evidence())
    if (evidence.kind() == v1::EVIDENCE_KIND_SELF_REPORT) return;
  const std::string log = cluster.LogOf(job.verdict().worker());
  if (log.empty()) return;
  console.WriteError(absl::StrCat("the end of ", log, ":\n"));
  for (const std::string& line : LastLines(log, kTailLines)) {
    console.WriteError(absl::StrCat("  ", Printable(line), "\n"));
  }
}

}  // namespace

absl::StatusOr<int> RunLocal(const LocalContext& context,
                             const LocalOptions& options) {
  ASSIGN_OR_RETURN(v1::JobSpec spec,
                   LoadJobFile(options.job_file, options.assignments));
  ASSIGN_OR_RETURN(const int workers, FitToLocalWorkers(options.workers, spec));
  // The coordinator checks it again; here a mistake costs nothing yet.
  if (const auto checked = ValidateAndDefault(spec); !checked.ok()) {
    return Annotate(checked.status(), JobFileName(options.job_file));
  }
  LocalClusterOptions cluster_options;
  const BinaryPlaces places = OwnPlaces(options.bin_dir);
  ASSIGN_OR_RETURN(cluster_options.coordinator_binary,
                   FindBinary("coordinator", places));
  ASSIGN_OR_RETURN(cluster_options.worker_binary, FindBinary("worker", places));
  if (ParameterServersOf(spec) > 0) {
    ASSIGN_OR_RETURN(cluster_options.parameter_server_binary,
                     FindBinary("parameter_server", places));
  }
  cluster_options.worker_threads = options.threads;
  if (options.page_port >= 0)
    cluster_options.page_listen = absl::StrCat("127.0.0.1:", options.page_port);
  // The command is that of the user whose processes these are.
  if (spec.has_external())
    cluster_options.worker_arguments.push_back("--allow_commands");
  ASSIGN_OR_RETURN(cluster_options.run_dir,
                   MakeRunDirectory(options.run_dir, absl::Now()));
  ForgetOtherClusters();
  context.console.WriteError(
      absl::StrCat("logs: ", cluster_options.run_dir, "\n"));

  const std::string warning =
      spec.train().has_emulate_compute()
          ? ""
          : WarningOfCores(workers, options.threads, UsableCores());
  if (!warning.empty()) {
    context.console.WriteError(absl::StrCat("warning: ", warning, "\n"));
  }

  LocalCluster cluster(cluster_options);
  absl::StatusOr<v1::Job> job;
  {
    LocalRun run(context, options, cluster);
    job = run.Run(spec, workers);
  }
  cluster.Stop();
  if (context.is_interrupted()) {
    if (!job.ok()) {
      context.console.WriteError(
          absl::StrCat("error: ", std::string(job.status().message()), "\n"));
    }
    return static_cast<int>(ExitCode::kStopped);
  }
  RETURN_IF_ERROR(job.status());
  PrintCulpritsLog(context.console, *job, cluster);
  return ExitCodeOfJob(*job);
}

}  // namespace ringmaster::ctl
