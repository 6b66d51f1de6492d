#include "server/ctl/commands/compare_run.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/credentials/credentials.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/ctl/client/job_watch.h"
#include "server/ctl/commands/cancel_on_interrupt.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/compare/observer.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

constexpr absl::Duration kCheckInterval = absl::Milliseconds(100);
constexpr absl::Duration kCancelLimit = absl::Seconds(30);

double SecondsOf(MonotonicTime time) {
  return absl::ToDoubleSeconds(time - MonotonicTime());
}

absl::Status CheckInterrupt(const CompareContext& context) {
  return context.is_interrupted() ? absl::CancelledError("stopped by a signal")
                                  : absl::OkStatus();
}

// A job that is followed, and what was seen of it.
struct Followed {
  RunObserver observer;
  bool has_trace = false;
  v1::GetTraceResponse trace = {};
};

// The trace, late enough for all to be warm, and before ranks are released.
void TakeTrace(Client& client, const v1::Job& job, Followed& followed) {
  if (!followed.has_trace ||
      job.figures().step() < job.spec().train().steps() / 2) {
    return;
  }
  followed.has_trace = false;
  absl::StatusOr<v1::GetTraceResponse> trace = client.GetTrace(job.id(), 0, 0);
  // Without one, moments are spread evenly.
  if (trace.ok()) followed.trace = *std::move(trace);
}

// Submits the job to `client` and follows it; `check` is called meanwhile, its
// error ends the run.
absl::StatusOr<v1::Job> Follow(
    const CompareContext& context, Client& client, const v1::JobSpec& spec,
    const std::function<absl::Status(const v1::Job&)>& check,
    Followed& followed) {
  ASSIGN_OR_RETURN(const v1::Job job,
                   client.SubmitJob(spec, /*validate_only=*/false, ""));
  CancelOnInterrupt cancel(client, context.clock,
                           {.is_interrupted = context.is_interrupted,
                            .limit = kCancelLimit,
                            .note = [](std::string_view) {}});
  JobWatch watch(client.Share(), job.id(), {}, context.clock, context.bell);
  int64_t updates = 0;
  while (true) {
    const WatchSnapshot snapshot = watch.Snapshot();
    if (snapshot.job.has_value() && snapshot.updates != updates) {
      updates = snapshot.updates;
      followed.observer.Take(*snapshot.job, SecondsOf(context.clock.Now()));
    }
    if (snapshot.end.has_value()) {
      RETURN_IF_ERROR(*snapshot.end);
      return *snapshot.job;
    }
    RETURN_IF_ERROR(cancel.Check(job.id()));
    RETURN_IF_ERROR(check(snapshot.job.value_or(job)));
    TakeTrace(client, snapshot.job.value_or(job), followed);
    (void)context.bell.Await(context.clock,
                             context.clock.Now() + kCheckInterval);
  }
}

// `ended` is how it ended, or what prevented that.
absl::StatusOr<FinishedRun> Conclude(const CompareContext& context,
                                     const absl::StatusOr<v1::Job>& ended,
                                     const Followed& followed) {
  RETURN_IF_ERROR(CheckInterrupt(context));
  FinishedRun run;
  run.result = followed.observer.Finish();
  run.trace = followed.trace;
  if (!ended.ok()) {
    run.result.failure = std::string(ended.status().message());
    run.exit_code = static_cast<int>(ExitCodeOf(ended.status()));
    return run;
  }
  run.exit_code = ExitCodeOfJob(*ended);
  if (run.exit_code != 0) {
    run.result.failure = Printable(ended->message());
  } else if (!run.result.is_ok()) {
    run.exit_code = static_cast<int>(ExitCode::kInternal);
  }
  return run;
}

class LocalCompareRun {
 public:
  LocalCompareRun(const CompareContext& context, const PlannedRun& planned,
                  LocalCluster& cluster)
      : context_(context), planned_(planned), cluster_(cluster) {}

  absl::StatusOr<v1::Job> Run(Followed& followed) {
    ASSIGN_OR_RETURN(
        const std::string address,
        cluster_.StartCoordinator([this] { return CheckInterrupt(context_); }));
    ASSIGN_OR_RETURN(auto credentials,
                     MakeChannelCredentials({.insecure = true}, address));
    Client client({.address = address,
                   .credentials = std::move(credentials),
                   .timeout = context_.timeout});
    RETURN_IF_ERROR(cluster_.StartWorkers(address, planned_.result.workers));
    RETURN_IF_ERROR(
        cluster_.StartParameterServers(address, planned_.servers()));
    return Follow(
        context_, client, planned_.spec,
        [this](const v1::Job& job) {
          // Without all of them the job would wait for ever.
          return cluster_.Check(/*needs_all_members=*/job.generation() == 0);
        },
        followed);
  }

 private:
  const CompareContext& context_;
  const PlannedRun& planned_;
  LocalCluster& cluster_;
};

}  // namespace

absl::StatusOr<FinishedRun> RunOnCluster(const CompareContext& context,
                                         const PlannedRun& planned,
                                         bool has_trace) {
  Followed followed{RunObserver(planned.result), has_trace};
  const absl::StatusOr<v1::Job> ended = Follow(
      context, *context.cluster, planned.spec,
      [](const v1::Job&) { return absl::OkStatus(); }, followed);
  return Conclude(context, ended, followed);
}

absl::StatusOr<FinishedRun> RunOnThisMachine(const CompareContext& context,
                                             const PlannedRun& planned,
                                             bool has_trace,
                                             LocalClusterOptions options,
                                             const LinkNamespaces* links) {
  if (links != nullptr) {
    options.listen_host = links->address();
    // Workers are started first; each server has a host of its own.
    options.launcher = [&](int index) {
      const RunResult& run = planned.result;
      const int hosts =
          (run.workers + run.ranks_per_host - 1) / run.ranks_per_host;
      return links->Launcher(index < run.workers ? index / run.ranks_per_host
                                                 : hosts + index - run.workers);
    };
  }
  LocalCluster cluster(std::move(options));
  Followed followed{RunObserver(planned.result), has_trace};
  const absl::StatusOr<v1::Job> ended =
      LocalCompareRun(context, planned, cluster).Run(followed);
  cluster.Stop();
  return Conclude(context, ended, followed);
}

}  // namespace ringmaster::ctl
