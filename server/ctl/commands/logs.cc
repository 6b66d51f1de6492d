#include "server/ctl/commands/logs.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/protocol/proto_time.h"
#include "common/status/status_macros.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/commands/follow.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/commands/log_reading.h"
#include "server/ctl/commands/target.h"
#include "server/ctl/render/log_view.h"

namespace ringmaster::ctl {
namespace {

constexpr char kCoordinator[] = "coordinator";

v1::LogSeverity LeastSeverity(const std::string& name) {
  if (name == "error") return v1::LOG_SEVERITY_ERROR;
  if (name == "warning") return v1::LOG_SEVERITY_WARNING;
  return name == "debug" ? v1::LOG_SEVERITY_DEBUG : v1::LOG_SEVERITY_INFO;
}

// `interruptions` are those of a job.
absl::StatusOr<Target> TargetOf(Client& client, const std::string& text,
                                int& interruptions) {
  if (text == kCoordinator) return Target{Target::Kind::kCoordinator, text};
  ASSIGN_OR_RETURN(Target target, FindTarget(client, text));
  if (target.kind != Target::Kind::kJob) return target;
  // By its id from here on: another job may get the name.
  ASSIGN_OR_RETURN(const v1::Job job, client.GetJob(target.name));
  target.name = job.id();
  interruptions = job.incidents_size();
  return target;
}

v1::GetLogsRequest RequestFor(const Target& target, const LogsOptions& options,
                              absl::Time since) {
  v1::GetLogsRequest request;
  if (target.kind == Target::Kind::kCoordinator) request.set_coordinator(true);
  if (target.kind == Target::Kind::kWorker) request.set_worker(target.name);
  if (target.kind == Target::Kind::kJob) request.set_job(target.name);
  request.mutable_filter()->set_tail(options.tail);
  request.mutable_filter()->set_min_severity(LeastSeverity(options.severity));
  if (since != absl::InfinitePast())
    *request.mutable_filter()->mutable_since() = ToProto(since);
  return request;
}

// Shows one answer after another.
class LogPrinter {
 public:
  LogPrinter(const CommandContext& context, const Target& target,
             bool is_followed)
      : context_(context),
        has_names_(target.kind == Target::Kind::kJob),
        is_followed_(is_followed),
        reading_(context.console) {}

  // Says whom nobody asks: members from before the last interruption.
  void NoteEarlierMembers(int interruptions) {
    if (interruptions == 0) return;
    reading_.Note(
        "only the job's members since its last interruption are asked; a "
        "worker that left before is asked by its name, and one that has ended "
        "keeps no lines (`ringctl events` says how it left)");
  }

  void Print(const v1::GetLogsResponse& response) {
    reading_.Take(response);
    reading_.NoteMissing(response);
    if (context_.format != OutputFormat::kJson) {
      for (const std::string& line :
           LogTextLines(response, has_names_, context_.console.GetStyle()))
        context_.console.Write(absl::StrCat(line, "\n"));
    } else if (!is_followed_) {
      context_.console.Write(ToJsonLine(response, /*is_indented=*/true));
    } else if (HasLines(response)) {
      context_.console.Write(ToJsonLine(response));
    }
  }

  void SetCursors(v1::GetLogsRequest& request) const {
    reading_.SetCursors(request);
  }

 private:
  static bool HasLines(const v1::GetLogsResponse& response) {
    for (const v1::ProcessLog& log : response.logs())
      if (log.page().lines_size() > 0) return true;
    return false;
  }

  const CommandContext& context_;
  const bool has_names_;
  const bool is_followed_;
  LogReading reading_;
};

absl::Status NobodyAnswered(const Target& target,
                            const v1::GetLogsResponse& response) {
  if (target.kind == Target::Kind::kWorker && response.missing_size() == 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", MissingLogText(response.missing(0))));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", target.name,
      response.missing().empty()
          ? " has no members"
          : ": none of its members has sent its log; see the notes above"));
}

absl::Status Follow(const CommandContext& context, const Target& target,
                    v1::GetLogsRequest request, LogPrinter& printer) {
  request.mutable_filter()->set_tail(0);
  Bell bell;  // Nobody rings it: it waits.
  while (true) {
    bool has_ended = false;
    if (target.kind == Target::Kind::kJob) {
      ASSIGN_OR_RETURN(has_ended, HasEndedAt(context.client, target.name));
    }
    printer.SetCursors(request);
    ASSIGN_OR_RETURN(const v1::GetLogsResponse response,
                     context.client.GetLogs(request));
    printer.Print(response);
    if (has_ended) return absl::OkStatus();
    (void)bell.Await(context.clock, context.clock.Now() + kFollowInterval);
  }
}

}  // namespace

void AddLogsCommand(FlagSet& flags, LogsOptions& options) {
  FlagSet& command = flags.AddCommand(
      "logs",
      "The last log lines of a worker, of a job's members by time, or of the "
      "coordinator, as far as their processes keep them (--log_kept).");
  command.AddArgument(
      "WORKER|JOB",
      absl::StrCat(kTargetHelp, " coordinator is the coordinator itself."),
      /*is_required=*/true, &options.target);
  command.Add({.name = "follow",
               .short_name = 'f',
               .help = "Go on with new lines, until the job has ended; of a "
                       "worker or the coordinator, until interrupted."},
              &options.is_followed);
  command.Add({.name = "tail",
               .unit = "N",
               .help = "Only the last N lines of each process; 0: all.",
               .min = 0},
              &options.tail);
  command.Add({.name = "since",
               .unit = "DURATION|TIME",
               .help = "Only lines since then: 10m, or 2026-01-02T12:03:04Z."},
              &options.since);
  command.Add({.name = "severity",
               .help = "The least severity to show. debug needs a process that "
                       "logs it (--log_level).",
               .choices = {"debug", "info", "warning", "error"}},
              &options.severity);
}

absl::StatusOr<int> RunLogs(const CommandContext& context,
                            const LogsOptions& options) {
  ASSIGN_OR_RETURN(const absl::Time since,
                   ParseSince(options.since, absl::Now()));
  int interruptions = 0;
  ASSIGN_OR_RETURN(const Target target,
                   TargetOf(context.client, options.target, interruptions));
  const v1::GetLogsRequest request = RequestFor(target, options, since);
  const absl::StatusOr<v1::GetLogsResponse> response =
      context.client.GetLogs(request);
  if (absl::IsNotFound(response.status()) &&
      target.kind == Target::Kind::kWorker) {
    return NoSuchTarget(target.name);
  }
  RETURN_IF_ERROR(response.status());
  LogPrinter printer(context, target, options.is_followed);
  printer.NoteEarlierMembers(interruptions);
  if (response->logs().empty() && !options.is_followed) {
    if (target.kind != Target::Kind::kWorker ||
        context.format == OutputFormat::kJson)
      printer.Print(*response);
    return NobodyAnswered(target, *response);
  }
  printer.Print(*response);
  if (options.is_followed)
    RETURN_IF_ERROR(Follow(context, target, request, printer));
  return 0;
}

}  // namespace ringmaster::ctl
