#include "server/ctl/commands/events.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/protocol/proto_time.h"
#include "common/status/status_macros.h"
#include "server/ctl/client/bell.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/listing.h"
#include "server/ctl/render/names.h"

namespace ringmaster::ctl {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(500);

v1::EventSeverity LeastSeverity(const std::string& name) {
  if (name == "error") return v1::EVENT_SEVERITY_ERROR;
  return name == "warning" ? v1::EVENT_SEVERITY_WARNING
                           : v1::EVENT_SEVERITY_UNSPECIFIED;
}

absl::StatusOr<absl::Time> ParseSince(const std::string& text, absl::Time now) {
  if (text.empty()) return absl::InfinitePast();
  absl::Duration ago;
  if (absl::ParseDuration(text, &ago)) return now - ago;
  absl::Time time;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return time;
  return absl::InvalidArgumentError(absl::StrCat(
      "--since=", text,
      ": give a duration, as in 10m, or a time with its zone, as in "
      "2026-01-02T12:03:04Z"));
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

  void Print(const std::vector<v1::Event>& events) {
    for (const v1::Event& event : events) {
      last_sequence_ = event.sequence();
      if (event.severity() >= least_ && FromProto(event.time()) >= since_)
        Print(event);
    }
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

// A job that has ended has no more events once those have been listed that came
// before this answer.
absl::StatusOr<bool> HasEndedAt(Client& client, const std::string& job) {
  if (job.empty()) return false;
  const absl::StatusOr<v1::Job> found = client.GetJob(job);
  if (absl::IsNotFound(found.status())) return true;  // ended long ago
  RETURN_IF_ERROR(found.status());
  return HasEnded(found->state());
}

absl::Status FollowEvents(const CommandContext& context, const std::string& job,
                          EventPrinter& printer) {
  Bell bell;  // Nobody rings it: it waits.
  while (true) {
    ASSIGN_OR_RETURN(const bool has_ended, HasEndedAt(context.client, job));
    ASSIGN_OR_RETURN(const std::vector<v1::Event> events,
                     context.client.AllEvents(job, printer.last_sequence()));
    printer.Print(events);
    if (has_ended) return absl::OkStatus();
    (void)bell.Await(context.clock, context.clock.Now() + kPollInterval);
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
  ASSIGN_OR_RETURN(const std::vector<v1::Event> events,
                   context.client.AllEvents(options.job));
  // The job has no events, or its name is wrong: ask which.
  if (events.empty() && !options.job.empty())
    RETURN_IF_ERROR(context.client.GetJob(options.job).status());
  EventPrinter printer(context, options, since);
  printer.Print(events);
  printer.Finish();
  if (options.is_followed)
    RETURN_IF_ERROR(FollowEvents(context, options.job, printer));
  return 0;
}

}  // namespace ringmaster::ctl
