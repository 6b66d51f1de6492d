#include "server/coordinator/core/life/suspension.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/account/goodput.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/memberships.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/rehearsal.h"
#include "server/coordinator/core/placement/gifts.h"

namespace ringmaster::coordinator {
namespace {

// How long a job trains on whose checkpoint could not be written.
constexpr absl::Duration kUnsavedTime = absl::Minutes(1);

}  // namespace

void WaitAnew(Job& job) {
  job.place.is_overdue = job.place.is_served = false;
  job.place.first_since.reset();
}

void ReturnToQueue(Turn& turn, Job& job) {
  Account(job, turn.now);
  job.stage = stage::Queued{};
  job.gives_way.reset();
  job.suspend_retry = MonotonicTime::InfiniteFuture();
  job.has_trained_on = false;
  ForgetSuspicions(job);
  ClearDeadlines(job);
  turn.state.active_jobs.erase(job.number);
  job.message = QueuedText(job);
  turn.Touch(job);
  turn.ScheduleSoon();
}

bool IsEmptied(const Job& job) {
  return job.gives_way.has_value() && AliveCount(job, v1::ROLE_WORKER) == 0 &&
         AliveCount(job, v1::ROLE_PARAMETER_SERVER) == 0;
}

std::string QueuedText(const Job& job) {
  if (job.is_suspended) return job.suspended_text;
  return absl::StrCat(SuspendedText(job), "waits for the jobs before it");
}

std::string SuspendedText(const Job& job) {
  if (IsNew(job)) return "";
  if (job.runs_commands) return "its commands were stopped; ";
  if (job.saved_step < 0) return "";
  return absl::StrCat("suspended after step ", job.saved_step, "; ");
}

void Suspend(Turn& turn, Job& job) {
  const bool has_no_step = job.best_step == 0 && !job.has_trained;
  const bool is_saved = job.saved_step == job.best_step || has_no_step;
  const std::string step =
      job.runs_commands    ? ", and its commands have ended"
      : !is_saved          ? " without its last steps, which nobody held"
      : job.best_step == 0 ? " before its first step"
                           : absl::StrCat(" after step ", job.best_step);
  const std::string why = *job.gives_way;
  if (is_saved) job.clocks.set_back = job.clocks.to_set_back = 0;
  NoteEnded(turn, job);
  DropAll(turn, job);
  EndRehearsals(turn, job, absl::StrCat("job ", job.id, " ", why));
  job.members.clear();
  NoteNoMembers(job, turn.time);
  job.closing = Closing::kNone;
  WaitAnew(job);
  ReturnToQueue(turn, job);
  turn.Emit(v1::EVENT_SEVERITY_INFO, "job.suspended", job, "",
            absl::StrCat(why, step,
                         job.runs_commands ? "; they begin anew once "
                                           : "; it goes on from there once ",
                         job.is_suspended ? "it is resumed"
                                          : "there are workers for it"));
  turn.Persist(JobSuspendedRecord{job.id, job.generation, job.best_step,
                                  is_saved, turn.time, job.has_told_loss});
}

void ApplySuspension(Job& job, const JobSuspendedRecord& record) {
  job.stage = stage::Queued{};
  job.members.clear();
  NoteNoMembers(job, record.time);
  job.absence.members.clear();
  job.best_step = record.step;
  job.saved_step = record.is_saved ? record.step : -1;
  job.has_told_loss = record.lacks_work;
  job.has_trained = !record.is_saved;
  job.clocks.set_back = job.clocks.to_set_back = 0;
  if (record.is_saved) job.figures.set_checkpoint_step(record.step);
  job.message = QueuedText(job);
}

void NoteUnsaved(Turn& turn, Job& job, int64_t step) {
  job.suspend_retry = turn.now + kUnsavedTime;
  job.has_trained_on = true;
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "job.not_suspended", job, "",
            absl::StrCat("cannot be suspended now, and trains on, since ",
                         WhyNotSaved(job, step)));
}

}  // namespace ringmaster::coordinator
