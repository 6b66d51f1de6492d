#include "server/ctl/commands/events.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/protocol/proto_time.h"
#include "common/status/status_macros.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/commands/follow.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/listing.h"

namespace ringmaster::ctl {
namespace {

v1::EventSeverity LeastSeverity(const std::string& name) {
  if (name == "error") return v1::EVENT_SEVERITY_ERROR;
  return name == "warning" ? v1::EVENT_SEVERITY_WARNING
                           : v1::EVENT_SEVERITY_UNSPECIFIED;
}

// Shows the events of one page after another that were asked for.
class EventPrinter {
 public:
  EventPrinter(const CommandContext& context, const EventsOptions& options,
               absl::Time since)
      : context_(context),
        is_followed_(options.is_followed),
        least_(LeastSeverity(options.severity)),
        since_(since) {}

  // UNAVAILABLE: they are another coordinator's, which numbers its own from 1.
  [[nodiscard]] absl::Status Print(const v1::ListEventsResponse& page) {
    if (last_sequence_ > 0 &&
        page.coordinator_incarnation() != all_.coordinator_incarnation()) {
      return absl::UnavailableError(
          "the coordinator was started again, and knows no earlier events: "
          "follow it anew");
    }
    all_.set_coordinator_incarnation(page.coordinator_incarnation());
    for (const v1::Event& event : page.events()) {
      last_sequence_ = event.sequence();
      if (event.severity() >= least_ && FromProto(event.time()) >= since_)
        Print(event);
    }
    return absl::OkStatus();
  }

  // Without a follow-up, JSON is one document.
  void Finish() {
    if (context_.format == OutputFormat::kJson && !is_followed_)
      context_.console.Write(ToJsonLine(all_, /*is_indented=*/true));
  }

  [[nodiscard]] int64_t last_sequence() const { return last_sequence_; }

 private:
  void Print(const v1::Event& event) {
    if (context_.format != OutputFormat::kJson) {
      context_.console.Write(
          absl::StrCat(EventLine(event, context_.console.GetStyle()), "\n"));
    } else if (is_followed_) {
      context_.console.Write(ToJsonLine(event));
    } else {
      *all_.add_events() = event;
    }
  }

  const CommandContext& context_;
  const bool is_followed_;
  const v1::EventSeverity least_;
  const absl::Time since_;
  v1::ListEventsResponse all_;
  int64_t last_sequence_ = 0;
};

absl::Status FollowEvents(const CommandContext& context,
                          const std::string& job_id, EventPrinter& printer) {
  Bell bell;  // Nobody rings it: it waits.
  while (true) {
    bool has_ended = false;
    if (!job_id.empty()) {
      ASSIGN_OR_RETURN(has_ended, HasEndedAt(context.client, job_id));
    }
    ASSIGN_OR_RETURN(const v1::ListEventsResponse events,
                     context.client.AllEvents(job_id, printer.last_sequence()));
    RETURN_IF_ERROR(printer.Print(events));
    if (has_ended) return absl::OkStatus();
    (void)bell.Await(context.clock, context.clock.Now() + kFollowInterval);
  }
}

}  // namespace

void AddEventsFlags(FlagSet& command, EventsOptions& options) {
  command.Add({.name = "follow",
               .help = "Go on with new events, until the job has ended; "
                       "without JOB, until interrupted."},
              &options.is_followed);
  command.Add({.name = "since",
               .unit = "DURATION|TIME",
               .help = "Only events since then: 10m, or "
                       "2026-01-02T12:03:04Z."},
              &options.since);
  command.Add({.name = "severity",
               .help = "The least severity to show.",
               .choices = {"info", "warning", "error"}},
              &options.severity);
}

absl::StatusOr<int> RunEvents(const CommandContext& context,
                              const EventsOptions& options) {
  ASSIGN_OR_RETURN(const absl::Time since,
                   ParseSince(options.since, absl::Now()));
  // By its id from here on: another job may get the name. One that the
  // coordinator has forgotten may have events still.
  std::string job_id = options.job;
  absl::Status unknown;
  if (!job_id.empty()) {
    const absl::StatusOr<v1::Job> job = context.client.GetJob(options.job);
    if (!job.ok() && !absl::IsNotFound(job.status())) return job.status();
    unknown = job.status();
    if (job.ok()) job_id = job->id();
  }
  ASSIGN_OR_RETURN(const v1::ListEventsResponse events,
                   context.client.AllEvents(job_id));
  if (events.events().empty()) RETURN_IF_ERROR(unknown);
  EventPrinter printer(context, options, since);
  RETURN_IF_ERROR(printer.Print(events));
  printer.Finish();
  if (options.is_followed)
    RETURN_IF_ERROR(FollowEvents(context, job_id, printer));
  return 0;
}

}  // namespace ringmaster::ctl
