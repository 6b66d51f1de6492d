#include "server/coordinator/core/incident.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ringmaster::coordinator {
namespace {

// The time since the mark, which moves on to now.
absl::Duration Lap(const Turn& turn, Job& job) {
  return turn.now - std::exchange(job.incident_mark, turn.now);
}

void Add(std::optional<absl::Duration>& part, absl::Duration more) {
  part = part.value_or(absl::ZeroDuration()) + more;
}

std::string Milliseconds(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(duration), " ms");
}

void Append(std::string& text, std::string_view name,
            const std::optional<absl::Duration>& part) {
  if (!part.has_value()) return;
  absl::StrAppend(&text, text.empty() ? "" : ", ", Sv(name), " ",
                  Milliseconds(*part));
}

std::string CostText(const RecoveryCost& cost) {
  std::string text;
  Append(text, "detect", cost.detect);
  Append(text, "halt", cost.halt);
  Append(text, "assign", cost.assign);
  Append(text, "connect", cost.connect);
  Append(text, "first step", cost.first_step);
  return text;
}

}  // namespace

Incident* OpenIncident(Job& job) {
  if (job.incidents.empty() || job.incidents.back().is_over) return nullptr;
  return &job.incidents.back();
}

const Incident* OpenIncident(const Job& job) {
  return OpenIncident(const_cast<Job&>(job));
}

void NoteHaltBegun(Turn& turn, Job& job, const Verdict& verdict) {
  if (Incident* const open = OpenIncident(job)) {
    // A further fault before the first step: where the time went since the
    // last turning point is its detection.
    Add(open->cost.detect, Lap(turn, job));
    return;
  }
  Incident incident;
  incident.number = job.incidents.empty() ? 1 : job.incidents.back().number + 1;
  incident.verdict = verdict;
  incident.cost.detect = turn.now - std::min(turn.now, job.last_progress);
  incident.world_size_before = static_cast<int>(job.members.size());
  job.incidents.push_back(std::move(incident));
  if (job.incidents.size() > kMaxIncidents) job.incidents.pop_front();
  job.incident_mark = turn.now;
}

void NoteAllHalted(Turn& turn, Job& job) {
  if (Incident* const open = OpenIncident(job)) {
    Add(open->cost.halt, Lap(turn, job));
  }
}

void NoteAssigned(Turn& turn, Job& job) {
  if (Incident* const open = OpenIncident(job)) {
    Add(open->cost.assign, Lap(turn, job));
    open->next_generation = job.generation;
    open->resume_step = job.resume_step;
    open->world_size_after = static_cast<int>(job.members.size());
  }
}

void NoteStarted(Turn& turn, Job& job) {
  if (Incident* const open = OpenIncident(job)) {
    Add(open->cost.connect, Lap(turn, job));
  }
}

void NoteStep(Turn& turn, Job& job) {
  Incident* const open = OpenIncident(job);
  if (open == nullptr || job.state != JobState::kRunning) return;
  Add(open->cost.first_step, Lap(turn, job));
  open->is_over = true;
  turn.Emit(EventSeverity::kInfo, "job.resumed", job, "",
            absl::StrCat("generation ", job.generation, " committed step ",
                         job.best_step, ", ", Milliseconds(open->cost.Total()),
                         " after ", open->verdict.summary, " (",
                         CostText(open->cost), ")"));
}

void NoteEnded(Turn& turn, Job& job) {
  Incident* const open = OpenIncident(job);
  if (open == nullptr) return;
  open->is_over = true;
  turn.Touch(job);
}

}  // namespace ringmaster::coordinator
