#include "server/coordinator/core/life/other_coordinator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status/reason.h"
#include "server/coordinator/core/state/formed.h"

namespace ringmaster::coordinator {
namespace {

void Close(Turn& turn, SessionId session, const std::string& why) {
  turn.Do(CloseSession{session, WithReason(absl::UnavailableError(why),
                                           reason::kUnknownGeneration)});
}

// For the worker, whose line names both.
std::string RefusalText(const State& state, const HelloReceived& hello) {
  const std::string self =
      absl::StrCat("coordinator ", IncarnationText(state.incarnation));
  const std::string theirs = absl::StrCat(
      "generation ", hello.generation,
      hello.formed_by == 0
          ? std::string()
          : absl::StrCat(" of coordinator ", IncarnationText(hello.formed_by)));
  switch (StandingOf(state, hello.generation, hello.formed_by)) {
    case Standing::kNewer:
      return absl::StrCat(self, " does not know ", theirs,
                          ": its journal ends with generation ",
                          state.formed.back().last);
    case Standing::kOther:
      return absl::StrCat(self, " has a generation ", hello.generation,
                          " that is not ", theirs);
    case Standing::kKnown:
      break;
  }
  return absl::StrCat(self, " has an older copy of the journal of ", theirs);
}

// Returns the id of the worker's job if that is known here; else "".
std::string KnownJobOf(const State& state, const HelloReceived& hello) {
  const bool is_known =
      hello.held_job.has_value() && IsKnownJob(state, hello.held_job->job_id);
  return is_known ? hello.held_job->job_id : "";
}

// How much a sign says of the journal.
int Weight(const OtherCoordinator& other) {
  if (!IsCopy(other)) return 0;
  if (!other.is_newer) return 1;
  return other.is_of_former ? 3 : 2;
}

// Remembers the sign, unless there was a better one.
void Note(Turn& turn, const HelloReceived& hello) {
  State& state = turn.state;
  const std::string known_job_id = KnownJobOf(state, hello);
  const OtherCoordinator sign = {
      .worker = hello.name,
      .generation = hello.generation,
      .formed_by = hello.formed_by,
      .is_newer = StandingOf(state, hello.generation, hello.formed_by) ==
                  Standing::kNewer,
      .is_of_former = HasFormedAny(state, hello.formed_by),
      .known_job_id = known_job_id,
      .is_outweighed = HasAttachedMember(state, known_job_id)};
  if (state.other.has_value()) {
    const OtherCoordinator& before = *state.other;
    const bool is_repeated = before.generation == sign.generation &&
                             before.formed_by == sign.formed_by;
    if (is_repeated || Weight(sign) < Weight(before)) return;
  }
  state.other = sign;
  turn.Touch();
  turn.Emit(
      IsCopy(sign) ? v1::EVENT_SEVERITY_ERROR : v1::EVENT_SEVERITY_WARNING,
      IsOutdated(state) ? "coordinator.outdated" : "coordinator.other",
      hello.name, OtherCoordinatorText(state));
}

// Members that came before it was known that the journal is an older copy.
void SendMembersAway(Turn& turn) {
  State& state = turn.state;
  for (auto& [name, worker] : state.workers) {
    if (worker.session == 0 || MemberOf(state, worker) == nullptr) continue;
    Close(turn, worker.session,
          absl::StrCat("coordinator ", IncarnationText(state.incarnation),
                       " has an older copy of its journal"));
    state.sessions.erase(worker.session);
    worker.session = 0;
    worker.state = v1::WORKER_STATE_DETACHED;
  }
}

}  // namespace

bool SendAway(Turn& turn, const HelloReceived& hello) {
  State& state = turn.state;
  if (hello.generation == 0) return false;
  const Standing standing =
      StandingOf(state, hello.generation, hello.formed_by);
  if (standing == Standing::kKnown) {
    // A member of the newest generation may lift the doubt.
    if (!IsOutdated(state) || !state.other->is_of_former) return false;
  } else if (standing == Standing::kNewer && turn.config.takes_over) {
    return false;
  } else {
    Note(turn, hello);
  }
  Close(turn, hello.session, RefusalText(state, hello));
  if (!IsOutdated(state)) return true;
  SendMembersAway(turn);
  for (Job* const job : state.ActiveJobs()) {
    job->message = std::string(kOutdatedText);
    turn.Touch(*job);
  }
  return true;
}

void HoldDeadlines(const Turn& turn) {
  const MonotonicTime later = turn.now + turn.config.reattach_budget;
  for (Job* const job : turn.state.ActiveJobs()) {
    job->reattach_deadline = std::max(job->reattach_deadline, later);
    if (auto* const halting = std::get_if<stage::Halting>(&job->stage))
      halting->deadline = std::max(halting->deadline, later);
    if (auto* const stopping = std::get_if<stage::Stopping>(&job->stage))
      stopping->deadline = std::max(stopping->deadline, later);
    job->last_progress = turn.now;
  }
}

}  // namespace ringmaster::coordinator
