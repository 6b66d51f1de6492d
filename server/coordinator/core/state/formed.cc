#include "server/coordinator/core/state/formed.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

std::string IncarnationText(uint64_t incarnation) {
  return absl::StrCat(absl::Hex(incarnation, absl::kZeroPad16));
}

void NoteFormed(State& state, int64_t generation, uint64_t formed_by) {
  std::vector<FormedRange>& formed = state.formed;
  if (formed.empty() || generation > formed.back().last) {
    if (!formed.empty() && formed.back().formed_by == formed_by) {
      formed.back().last = generation;
    } else {
      formed.push_back({generation, generation, formed_by});
    }
    return;
  }
  // A job that is rebuilt after another, with an older generation than that.
  const auto next =
      std::find_if(formed.begin(), formed.end(),
                   [&](const FormedRange& r) { return generation <= r.last; });
  if (generation >= next->first) return;
  if (next->formed_by == formed_by) {
    next->first = generation;
  } else {
    formed.insert(next, {generation, generation, formed_by});
  }
}

Standing StandingOf(const State& state, int64_t generation,
                    uint64_t formed_by) {
  const bool knows_any = std::any_of(
      state.formed.begin(), state.formed.end(),
      [](const FormedRange& range) { return range.formed_by != 0; });
  if (!knows_any) return Standing::kKnown;
  if (formed_by == 0 && (state.recovered_generation == 0 ||
                         generation <= state.formed.back().last)) {
    return Standing::kKnown;
  }
  // Those of jobs that ended long ago are forgotten.
  if (generation < state.formed.front().first) return Standing::kKnown;
  // A coordinator that has lost its state takes over one job after the other.
  const bool is_taken_over = state.recovered_generation == 0 &&
                             formed_by != state.incarnation &&
                             HasFormedAny(state, formed_by);
  if (generation > state.formed.back().last)
    return is_taken_over ? Standing::kKnown : Standing::kNewer;
  const auto it =
      std::find_if(state.formed.begin(), state.formed.end(),
                   [&](const FormedRange& r) { return generation <= r.last; });
  if (generation < it->first && is_taken_over) return Standing::kKnown;
  const bool is_known = generation >= it->first &&
                        (it->formed_by == 0 || it->formed_by == formed_by);
  return is_known ? Standing::kKnown : Standing::kOther;
}

bool HasFormedAny(const State& state, uint64_t formed_by) {
  return formed_by != 0 && std::any_of(state.formed.begin(), state.formed.end(),
                                       [&](const FormedRange& range) {
                                         return range.formed_by == formed_by;
                                       });
}

bool IsKnownJob(const State& state, std::string_view job_id) {
  const Job* const job = state.FindJob(job_id);
  return job != nullptr && !IsEnded(job->state());
}

bool IsOutdated(const State& state) {
  if (!state.other.has_value() || !state.other->is_newer ||
      HasFormedAny(state, state.incarnation)) {
    return false;
  }
  return state.other->is_of_former ||
         (!state.other->is_outweighed &&
          IsKnownJob(state, state.other->known_job_id));
}

bool IsCopy(const OtherCoordinator& other) {
  return other.is_of_former || !other.known_job_id.empty();
}

bool HasAttachedMember(const State& state, std::string_view job_id) {
  const Job* const job = state.FindJob(job_id);
  return job != nullptr &&
         std::any_of(job->members.begin(), job->members.end(),
                     [&](const Member& member) {
                       const Worker* const worker =
                           state.FindWorker(member.identity.worker);
                       return worker != nullptr && worker->session != 0 &&
                              MemberOf(state, *worker) == &member;
                     });
}

std::string OtherCoordinatorText(const State& state) {
  if (!state.other.has_value()) return "";
  const OtherCoordinator& other = *state.other;
  const bool is_told = other.formed_by != 0;
  const std::string its =
      is_told ? IncarnationText(other.formed_by) : "the other one";
  std::string text = absl::StrCat(
      "worker ", other.worker, " is in generation ", other.generation,
      is_told ? absl::StrCat(" of coordinator ", its)
              : std::string(" of a coordinator that it does not tell"),
      ", which this one (", IncarnationText(state.incarnation),
      ") does not know");
  if (IsOutdated(state)) {
    return absl::StrCat(text,
                        ": this journal is an older copy, so nothing is "
                        "decided by it. End this coordinator; or, if ",
                        its, " has ended for good, start it with --take_over");
  }
  return absl::StrCat(
      text, IsCopy(other)
                ? ": two coordinators work on copies of one journal. End one "
                  "of them, and restart its workers"
                : ": it has reached the wrong one. Correct its --coordinator");
}

}  // namespace ringmaster::coordinator
