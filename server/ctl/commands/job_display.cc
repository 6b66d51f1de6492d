#include "server/ctl/commands/job_display.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/job_view.h"
#include "server/ctl/render/names.h"
#include "server/ctl/render/recovery_view.h"
#include "server/ctl/render/sample_view.h"
#include "server/ctl/render/verdict_view.h"

namespace ringmaster::ctl {
namespace {

constexpr absl::Duration kDrawInterval = absl::Milliseconds(100);
constexpr absl::Duration kStepLineInterval = absl::Seconds(1);
constexpr absl::Duration kCheckInterval = absl::Seconds(1);

}  // namespace

JobDisplay::JobDisplay(Console& console, OutputFormat format, Clock& clock)
    : console_(console),
      format_(format),
      clock_(clock),
      is_live_(format == OutputFormat::kTable && console.IsTerminal()),
      screen_(console) {}

void JobDisplay::Update(const WatchSnapshot& snapshot) {
  next_update_ = MonotonicTime::InfiniteFuture();
  NoteConnection(snapshot);
  if (!snapshot.job.has_value()) return;
  if (format_ == OutputFormat::kJson) {
    if (snapshot.updates > updates_shown_)
      console_.Write(ToJsonLine(*snapshot.job));
  } else if (is_live_) {
    UpdateTable(snapshot);
  } else {
    UpdateLines(snapshot);
  }
  updates_shown_ = snapshot.updates;
}

void JobDisplay::Note(std::string_view line) {
  if (is_live_) {
    screen_.PrintAbove(line);
  } else if (format_ == OutputFormat::kJson) {
    console_.WriteError(absl::StrCat(std::string(line), "\n"));
  } else {
    console_.Write(absl::StrCat(std::string(line), "\n"));
  }
}

void JobDisplay::NoteConnection(const WatchSnapshot& snapshot) {
  const bool is_lost = !snapshot.lost.empty();
  if (is_lost && !was_lost_)
    Note(absl::StrCat("lost the coordinator, trying again: ",
                      Printable(snapshot.lost)));
  if (!is_lost && was_lost_) Note("connected to the coordinator again");
  was_lost_ = is_lost;
}

void JobDisplay::UpdateTable(const WatchSnapshot& snapshot) {
  const v1::TrainingFigures& figures = snapshot.job->figures();
  if (figures.step() > loss_step_ && IsMeasured(figures)) {
    losses_.Add(figures.loss());
    loss_step_ = figures.step();
  }
  const MonotonicTime now = clock_.Now();
  if (now < earliest_draw_) {
    next_update_ = earliest_draw_;
    return;
  }
  earliest_draw_ = now + kDrawInterval;
  JobContext context{.losses = losses_.Points(), .now = absl::Now()};
  if (!snapshot.lost.empty())
    context.notice = "no connection to the coordinator; trying again";
  screen_.Draw(LiveTable(*snapshot.job, context, console_.GetStyle()));
}

void JobDisplay::UpdateLines(const WatchSnapshot& snapshot) {
  const v1::Job& job = *snapshot.job;
  if (job.has_verdict()) {
    std::string incident = IncidentLine(job.verdict(), console_.GetStyle());
    if (incident != incident_line_ && !HasEnded(job.state())) Note(incident);
    incident_line_ = std::move(incident);
  }
  PrintRecovery(job);
  std::string checkpoint = CheckpointErrorLine(job, console_.GetStyle());
  if (checkpoint != checkpoint_line_ && !checkpoint.empty()) Note(checkpoint);
  checkpoint_line_ = std::move(checkpoint);
  std::string state = StateLine(job);
  if (state != state_line_ && !HasEnded(job.state())) Note(state);
  state_line_ = std::move(state);
  std::string resumption = ResumptionLine(job);
  if (resumption != resumption_line_ && !resumption.empty()) Note(resumption);
  resumption_line_ = std::move(resumption);
  for (const std::string& line : bench_lines_.Take(job)) Note(line);
  if (HasEnded(job.state())) return;
  if (job.has_sample() && job.sample().step() != sample_printed_)
    PrintSample(job.sample());
  if (job.figures().step() <= step_printed_) return;
  const MonotonicTime now = clock_.Now();
  if (now < earliest_step_line_) {
    next_update_ = earliest_step_line_;
    return;
  }
  earliest_step_line_ = now + kStepLineInterval;
  PrintStep(job);
}

void JobDisplay::PrintRecovery(const v1::Job& job) {
  int last = 0;
  for (const v1::Incident& incident : job.incidents()) {
    if (!incident.is_over()) continue;
    last = incident.number();
    // Nothing recovers from the incident that ends a job.
    if (incident.verdict().decision() == v1::VERDICT_DECISION_FAIL_JOB)
      continue;
    if (last > recovery_told_.value_or(last)) Note(RecoveryLine(incident));
  }
  recovery_told_ = std::max(last, recovery_told_.value_or(0));
}

void JobDisplay::PrintStep(const v1::Job& job) {
  Note(ProgressLine(job));
  step_printed_ = job.figures().step();
}

void JobDisplay::PrintSample(const v1::TextSample& sample) {
  for (const std::string& line : SampleLines(sample)) Note(line);
  sample_printed_ = sample.step();
}

void JobDisplay::Finish(const v1::Job& job) {
  if (format_ == OutputFormat::kJson) return;
  const Style style = console_.GetStyle();
  if (is_live_) {
    v1::Job table = job;
    table.clear_sample();  // it follows, whole
    screen_.Draw(LiveTable(
        table, {.losses = losses_.Points(), .now = absl::Now()}, style));
    screen_.Finish();
  } else if (job.figures().step() > step_printed_) {
    PrintStep(job);
  }
  const std::string final_line = FinalLine(job, style);
  console_.Write(absl::StrCat(final_line, "\n"));
  if (job.state() == v1::JOB_STATE_FAILED && job.has_verdict()) {
    for (const std::string& line : VerdictLines(job, final_line, style))
      console_.Write(absl::StrCat(line, "\n"));
  }
  // Single lines may have told it already.
  if (!job.has_sample() ||
      (!is_live_ && job.sample().step() == sample_printed_)) {
    return;
  }
  for (const std::string& line : SampleLines(job.sample()))
    console_.Write(absl::StrCat(line, "\n"));
}

int ExitCodeOfJob(const v1::Job& job) {
  if (job.exit_code() != 0 || job.state() == v1::JOB_STATE_SUCCEEDED)
    return job.exit_code();
  return static_cast<int>(job.state() == v1::JOB_STATE_CANCELLED
                              ? ExitCode::kStopped
                              : ExitCode::kInternal);
}

absl::StatusOr<v1::Job> Follow(JobWatch& watch, JobDisplay& display, Bell& bell,
                               Clock& clock,
                               const std::function<absl::Status()>& check) {
  while (true) {
    const WatchSnapshot snapshot = watch.Snapshot();
    display.Update(snapshot);
    if (snapshot.end.has_value()) {
      RETURN_IF_ERROR(*snapshot.end);
      display.Finish(*snapshot.job);
      return *snapshot.job;
    }
    RETURN_IF_ERROR(check());
    (void)bell.Await(
        clock, std::min(display.next_update(), clock.Now() + kCheckInterval));
  }
}

}  // namespace ringmaster::ctl
