#include "server/ctl/commands/cordon.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "common/protocol/proto_time.h"
#include "common/status/status_macros.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/client/job_watch.h"
#include "server/ctl/commands/follow.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

bool HasJob(const v1::Worker& worker) { return !worker.job_id().empty(); }

// Returns how many are to go and have not gone yet.
int64_t BusyCount(const v1::Status& part) {
  return std::count_if(part.workers().begin(), part.workers().end(),
                       [](const v1::Worker& worker) {
                         return HasJob(worker) && worker.cordon().drain();
                       });
}

bool IsDrained(const v1::Status& part) {
  return std::any_of(part.cordons().begin(), part.cordons().end(),
                     [](const v1::Cordon& cordon) { return cordon.drain(); });
}

bool HasDueTime(const v1::Status& part) {
  return std::any_of(
      part.cordons().begin(), part.cordons().end(),
      [](const v1::Cordon& cordon) { return cordon.has_due_time(); });
}

// The part of the status that is about `target`.
absl::StatusOr<v1::Status> StatusOf(const CommandContext& context,
                                    std::string_view target) {
  ASSIGN_OR_RETURN(v1::Status all, context.client.GetStatus());
  v1::Status part;
  for (v1::Worker& worker : *all.mutable_workers()) {
    if (worker.name() == target || worker.host() == target)
      *part.add_workers() = std::move(worker);
  }
  for (v1::Cordon& cordon : *all.mutable_cordons()) {
    if (cordon.target() == target) *part.add_cordons() = std::move(cordon);
  }
  return part;
}

absl::Status Change(const CommandContext& context, const std::string& command,
                    const CordonOptions& options) {
  if (command == "uncordon") return context.client.Uncordon(options.target);
  v1::CordonRequest request;
  request.set_target(options.target);
  request.set_drain(command == "drain");
  request.set_reason(options.reason);
  if (!options.by.empty()) {
    ASSIGN_OR_RETURN(
        const absl::Duration within,
        ParseBy(options.by.back(), absl::Now(), absl::LocalTimeZone()));
    *request.mutable_within() = ToProto(within);
  }
  return context.client.Cordon(request);
}

// "worker a (host h1): drained", "worker b (host h1): rank 2 of job j-1 until that
// can do without it, or 2026-11-28 18:00:00", "... rank 2 of job j-1, due to go since
// 2026-11-28 18:00:00".
std::string LineOf(const v1::Worker& worker, const Style& style) {
  const std::string job =
      absl::StrCat("rank ", worker.rank(), " of job ", worker.job_id());
  std::string what;
  if (!worker.has_cordon()) {
    what = "jobs may take it";
  } else if (!worker.cordon().drain()) {
    what =
        HasJob(worker) ? absl::StrCat("cordoned; it stays ", job) : "cordoned";
  } else if (!HasJob(worker)) {
    what = "drained";
  } else if (!worker.cordon().has_due_time()) {
    what = absl::StrCat(job, " until that can do without it");
  } else {
    const absl::Time due = FromProto(worker.cordon().due_time());
    what = absl::StrCat(job,
                        due > absl::Now() ? " until that can do without it, or "
                                          : ", due to go since ",
                        FormatTime(due, style));
  }
  return Printable(absl::StrCat("worker ", worker.name(), " (host ",
                                worker.host(), "): ", what));
}

void Show(const CommandContext& context, const v1::Status& part) {
  if (context.format == OutputFormat::kJson) {
    context.console.Write(ToJsonLine(part, /*is_indented=*/true));
    return;
  }
  for (const v1::Worker& worker : part.workers())
    context.console.Write(
        absl::StrCat(LineOf(worker, context.console.GetStyle()), "\n"));
  if (part.workers().empty())
    context.console.Write("no worker of that name is connected now\n");
}

// absl::ParseTime takes "infinite-future" for a time, whatever the format.
bool IsInfinite(absl::Time time) {
  return time == absl::InfiniteFuture() || time == absl::InfinitePast();
}

// The next time of day that `text` says, as "18:00"; nullopt if it is none.
std::optional<absl::Time> NextTimeOfDay(const std::string& text, absl::Time now,
                                        absl::TimeZone zone) {
  absl::Time read;
  std::string error;
  if (!absl::ParseTime("%H:%M", text, &read, &error) || IsInfinite(read))
    return std::nullopt;
  const absl::CivilMinute of_day(
      absl::ToCivilMinute(read, absl::UTCTimeZone()));
  const absl::CivilDay today(absl::ToCivilDay(now, zone));
  for (const absl::CivilDay day : {today, today + 1}) {
    const absl::TimeZone::TimeInfo info = zone.At(absl::CivilSecond(
        day.year(), day.month(), day.day(), of_day.hour(), of_day.minute()));
    if (info.pre > now) return info.pre;
    // In the night when clocks go back it comes twice.
    const bool is_repeated = info.kind == absl::TimeZone::TimeInfo::REPEATED;
    if (is_repeated && info.post > now) return info.post;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<absl::Duration> ParseBy(const std::string& text, absl::Time now,
                                       absl::TimeZone zone) {
  absl::Duration within;
  absl::Time time;
  std::string error;
  if (const std::optional<absl::Time> next = NextTimeOfDay(text, now, zone)) {
    within = *next - now;
  } else if (absl::ParseTime(absl::RFC3339_full, text, &time, &error) &&
             !IsInfinite(time)) {
    within = time - now;
  } else if (!absl::ParseDuration(text, &within) ||
             absl::AbsDuration(within) == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--by=", Printable(text),
        ": give a duration, as in 2h, a time of day, as in 18:00, or a time "
        "with its zone, as in 2026-01-02T18:00:00Z"));
  }
  if (within <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--by=", Printable(text), ": that is past"));
  }
  return within;
}

void AddCordonCommands(FlagSet& flags, CordonOptions& options) {
  const auto add = [&](const char* name, const char* summary) -> FlagSet& {
    FlagSet& command = flags.AddCommand(name, summary);
    command.AddArgument("NAME",
                        "Name of a worker, or of a host: all of its workers.",
                        /*is_required=*/true, &options.target);
    return command;
  };
  const auto add_reason = [&](FlagSet& command) {
    command.Add({.name = "reason",
                 .unit = "TEXT",
                 .help = "Shown wherever somebody asks why."},
                &options.reason);
  };
  add_reason(add("cordon", "Let no job take a worker, or a host's workers."));
  FlagSet& drain = add("drain",
                       "Take a worker, or a host's workers, out of use: "
                       "running jobs go on without them, at a step boundary. "
                       "Without --by no step is lost.");
  add_reason(drain);
  drain.Add({.name = "by",
             .unit = "TIME",
             .help = "When jobs let the workers go even if they cannot do "
                     "without them, as 2h, 18:00 or 2026-01-02T18:00:00Z: "
                     "they write a checkpoint, and wait for others; without "
                     "a checkpoint directory, steps that nobody else has are "
                     "lost. Without --by they keep them for as long as they "
                     "need them."},
            &options.by);
  drain.Add({.name = "wait",
             .unit = "DURATION",
             .help = "How long to wait until none of them has a job; 0: not "
                     "at all.",
             .min = 0,
             .max = 7 * 24 * 3600.0},
            &options.wait);
  add("uncordon", "Let jobs take a worker, or a host's workers, again.");
}

absl::StatusOr<int> RunCordon(const CommandContext& context,
                              const std::string& command,
                              const CordonOptions& options) {
  RETURN_IF_ERROR(Change(context, command, options));
  const MonotonicTime deadline = context.clock.Now() + options.wait;
  absl::StatusOr<v1::Status> part = StatusOf(context, options.target);
  RETURN_IF_ERROR(part.status());
  const auto lacks_time = [&] {
    return !options.by.empty() && IsDrained(*part) && !HasDueTime(*part);
  };
  const auto is_awaited = [&] {
    // A coordinator that is restarted keeps the drain.
    if (!part.ok()) return IsWorthARetry(part.status());
    return IsDrained(*part) && !lacks_time() && BusyCount(*part) > 0;
  };
  Bell bell;  // Nobody rings it.
  while (command == "drain" && is_awaited() && context.clock.Now() < deadline) {
    (void)bell.Await(context.clock,
                     std::min(deadline, context.clock.Now() + kFollowInterval));
    part = StatusOf(context, options.target);
  }
  RETURN_IF_ERROR(part.status());
  if (lacks_time()) {
    return absl::FailedPreconditionError(absl::StrCat(
        Printable(options.target),
        " is drained without a time: the coordinator is too old for --by, or "
        "somebody has drained it anew meanwhile"));
  }
  Show(context, *part);
  if (command != "drain" || options.wait == absl::ZeroDuration()) return 0;
  const std::string target = Printable(options.target);
  if (!IsDrained(*part)) {
    return absl::AbortedError(absl::StrCat(
        target, " is drained no more: somebody has lifted that meanwhile"));
  }
  if (const int64_t busy = BusyCount(*part); busy > 0) {
    return absl::DeadlineExceededError(absl::StrCat(
        busy == 1 ? "a worker" : absl::StrCat(busy, " workers"), " of ", target,
        " still had a job after ", absl::FormatDuration(options.wait),
        "; they stay drained, and go as soon as their jobs can do without "
        "them"));
  }
  return 0;
}

}  // namespace ringmaster::ctl
