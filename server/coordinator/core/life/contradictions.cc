#include "server/coordinator/core/life/contradictions.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/faults/step_claims.h"
#include "server/coordinator/core/life/absence.h"
#include "server/coordinator/core/life/job_end.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/reform.h"

namespace ringmaster::coordinator {
namespace {

// A claim, and the party that makes it: a member, one that was given up and is
// back, or, as neither, the coordinator, which knows a step from before.
struct Voice {
  StepClaim claim;
  Member* member = nullptr;
  const AbsentMember* returned = nullptr;
};

bool HoldsNothing(const HaltedAnswer& answer) {
  return answer.is_blank || answer.complete_step == 0;
}

StepClaim ClaimOf(int64_t reported, const std::optional<HaltedAnswer>& answer) {
  StepClaim claim;
  claim.applied = reported;
  if (!answer.has_value()) return claim;
  claim.applied = std::max(claim.applied, answer->applied_step);
  if (HoldsNothing(*answer)) return claim;
  claim.held = answer->complete_step;
  claim.is_loaded = answer->applied_step == 0 && answer->complete_step > 1;
  return claim;
}

// A process of a worker: its name and incarnation.
using Life = std::pair<std::string_view, uint64_t>;

Life LifeOf(const Member& member) {
  return {member.identity.worker, member.identity.incarnation};
}

// The coordinator's comes last.
std::vector<Voice> VoicesOf(Job& job) {
  std::vector<Voice> voices;
  const std::vector<const AbsentMember*> returned = ReturnedMembers(job);
  // Thousands may be back, each of which has the job look again.
  std::set<Life> returned_lives;
  for (const AbsentMember* const absent : returned) {
    returned_lives.insert(LifeOf(absent->member));
  }
  int64_t reported = 0;
  for (Member& member : job.members) {
    // It says for itself what it holds.
    if (member.is_lost && returned_lives.contains(LifeOf(member))) continue;
    voices.push_back({ClaimOf(member.step, member.halted), &member, nullptr});
    // What one that is lost has held counts no more.
    if (member.is_lost) voices.back().claim.held.reset();
    reported = std::max(reported, voices.back().claim.applied);
  }
  for (const AbsentMember* const absent : returned) {
    voices.push_back(
        {ClaimOf(absent->member.step, absent->answer), nullptr, absent});
    reported = std::max(reported, voices.back().claim.applied);
  }
  // The generation began after a step that was agreed on, unless nobody was told of
  // it; and the journal may know of one that no member has reported to this
  // coordinator.
  StepClaim known;
  if (job.best_step > reported) {
    known.applied = job.best_step;
  } else if (job.generation == job.told_generation) {
    known.applied = job.resume_step;
  }
  voices.push_back({known, nullptr, nullptr});
  return voices;
}

// Returns nullopt for the coordinator.
std::optional<MemberIdentity> IdentityOf(const Voice& voice) {
  if (voice.member != nullptr) return voice.member->identity;
  if (voice.returned != nullptr) return voice.returned->member.identity;
  return std::nullopt;
}

// Returns true if it is a member, or is back.
bool IsThere(const Voice& voice) {
  return voice.returned != nullptr ||
         (voice.member != nullptr && !voice.member->is_lost);
}

std::vector<StepClaim> ClaimsOf(const std::vector<Voice>& voices) {
  std::vector<StepClaim> claims;
  for (const Voice& voice : voices) claims.push_back(voice.claim);
  return claims;
}

// "worker a (rank 0)".
std::string NameOf(const Voice& voice) {
  const std::optional<MemberIdentity> identity = IdentityOf(voice);
  if (!identity.has_value()) return "the coordinator";
  return absl::StrCat("worker ", identity->worker, " (rank ", identity->rank,
                      ")");
}

std::string AppliedText(const Voice& voice) {
  return absl::StrCat(
      IdentityOf(voice).has_value() ? "applied step " : "knows of step ",
      voice.claim.applied);
}

std::string HeldText(const Voice& voice) {
  return absl::StrCat(voice.claim.is_loaded ? "holds only a checkpoint of step "
                                            : "holds only step ",
                      *voice.claim.held);
}

// "says that it applied step 12, but worker a (rank 0) holds only step 9".
std::string RefutationText(const std::vector<Voice>& voices, size_t false_one) {
  const Voice& liar = voices[false_one];
  size_t others = 0;
  std::string text;
  for (size_t i = 0; i < voices.size(); ++i) {
    const Voice& other = voices[i];
    std::string one;
    if (i == false_one && Contradicts(liar.claim, liar.claim)) {
      return absl::StrCat("says that it ", HeldText(liar), ", and that it ",
                          AppliedText(liar));
    }
    if (Contradicts(liar.claim, other.claim)) {
      one = absl::StrCat("says that it ", AppliedText(liar), ", but ",
                         NameOf(other), " ", HeldText(other));
    } else if (Contradicts(other.claim, liar.claim)) {
      one = absl::StrCat("says that it ", HeldText(liar), ", but ",
                         NameOf(other), " ", AppliedText(other));
    } else {
      continue;
    }
    if (text.empty()) {
      text = std::move(one);
    } else {
      ++others;
    }
  }
  if (others == 0) return text;
  return absl::StrCat(text, ", and ", Counted(others, "other"),
                      others == 1 ? " contradicts" : " contradict", " it too");
}

// The highest step that any of `voices` but those of `disbelieved` reports.
int64_t BestOf(const std::vector<Voice>& voices,
               const DisbelievedClaims& disbelieved) {
  int64_t best = 0;
  for (size_t i = 0; i < voices.size(); ++i) {
    if (std::binary_search(disbelieved.refuted.begin(),
                           disbelieved.refuted.end(), i)) {
      continue;
    }
    const bool is_doubtful = std::binary_search(disbelieved.doubtful.begin(),
                                                disbelieved.doubtful.end(), i);
    if (!is_doubtful) best = std::max(best, voices[i].claim.applied);
  }
  // Both of two that contradict each other vouch for what the one behind holds.
  std::optional<int64_t> vouched;
  for (const size_t i : disbelieved.doubtful) {
    const std::optional<int64_t>& held = voices[i].claim.held;
    if (held.has_value()) vouched = std::min(vouched.value_or(*held), *held);
  }
  return std::max(best, vouched.value_or(0));
}

// Sets everything that follows from what was reported back to `best`.
void BelieveUpTo(Turn& turn, Job& job, int64_t best) {
  job.best_step = best;
  job.resume_step = std::min(job.resume_step, best);
  job.open_incident.best_step = std::min(job.open_incident.best_step, best);
  job.figures.set_step(std::min(job.figures.step(), best));
  for (Member& member : job.members) {
    member.step = std::min(member.step, best);
    Worker* const worker = turn.state.FindWorker(member.identity.worker);
    if (worker != nullptr && !member.is_lost)
      worker->step = std::min(worker->step, best);
    if (member.is_lost && member.halted.has_value()) {
      member.halted->applied_step = std::min(member.halted->applied_step, best);
    }
  }
  // One that comes back is not held to what has been dropped.
  for (AbsentMember& absent : job.absence.members) {
    absent.member.step = std::min(absent.member.step, best);
  }
  turn.Touch(job);
}

// `index` is that of one that is there.
void EvictRefuted(Turn& turn, Job& job, const std::vector<Voice>& voices,
                  size_t index) {
  const Voice& liar = voices[index];
  const MemberIdentity identity = *IdentityOf(liar);
  const std::string what = RefutationText(voices, index);
  if (liar.member != nullptr) {
    liar.member->halted.reset();
  } else {
    ReleaseReturned(turn, job, identity);
  }
  CloseForViolation(turn, *turn.state.FindWorker(identity.worker), what);
}

// `index` is that of one that is lost, or of the coordinator.
void DropClaim(Turn& turn, const Job& job, const std::vector<Voice>& voices,
               size_t index) {
  const std::optional<MemberIdentity> identity = IdentityOf(voices[index]);
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "job.claim_dropped", job,
            identity.has_value() ? std::string_view(identity->worker)
                                 : std::string_view(),
            absl::StrCat(NameOf(voices[index]),
                         identity.has_value() ? ", which is lost, " : " ",
                         RefutationText(voices, index),
                         "; that step does not count"));
}

// Blames nobody, and names all of `doubtful` with what they say.
v1::Verdict VerdictOnDoubtful(const Turn& turn, const Job& job,
                              const std::vector<Voice>& voices,
                              const std::vector<size_t>& doubtful) {
  std::string text;
  v1::Verdict verdict = VerdictOnNobody(job, "", turn.time);
  for (const size_t i : doubtful) {
    const Voice& voice = voices[i];
    const bool is_behind =
        std::any_of(doubtful.begin(), doubtful.end(), [&](size_t other) {
          return Contradicts(voices[other].claim, voice.claim);
        });
    const std::string what = is_behind ? HeldText(voice) : AppliedText(voice);
    absl::StrAppend(&text, text.empty() ? "" : ", ", NameOf(voice), " says it ",
                    what);
    const std::optional<MemberIdentity> identity = IdentityOf(voice);
    AddEvidence(
        EvidenceOf(v1::EVIDENCE_KIND_FALSE_REPORT,
                   identity.has_value() ? std::string_view(identity->worker)
                                        : kCoordinatorObserver,
                   what),
        verdict);
  }
  verdict.set_summary(
      absl::StrCat(text,
                   ": that cannot be, and nobody can tell which is wrong, so "
                   "what they hold does not count"));
  return verdict;
}

// The voices that are doubtful contradict one another: those that are there give up
// what they hold.
void GiveUpDoubtful(Turn& turn, Job& job, const std::vector<Voice>& voices,
                    const std::vector<size_t>& doubtful) {
  v1::Verdict verdict = VerdictOnDoubtful(turn, job, voices, doubtful);
  turn.Emit(v1::EVENT_SEVERITY_WARNING, "job.contradicted", job, "",
            verdict.summary(), &verdict);
  std::vector<MemberIdentity> returned;
  for (const size_t i : doubtful) {
    if (!IsThere(voices[i])) continue;
    Member* const member = voices[i].member;
    if (member == nullptr) {
      returned.push_back(voices[i].returned->member.identity);
      continue;
    }
    member->is_lost = true;
    member->loss = "its steps contradict another's";
    member->halted.reset();
    Release(turn, *turn.state.FindWorker(member->identity.worker), job.state(),
            member->loss);
  }
  for (const MemberIdentity& identity : returned) {
    ReleaseReturned(turn, job, identity);
  }
  NoteFurtherLoss(turn, job, std::move(verdict));
}

}  // namespace

bool SettleContradictions(Turn& turn, Job& job) {
  if (job.sharding.shards > 0) return false;
  const bool is_waiting = IsWaiting(job);
  while (true) {
    const std::vector<Voice> voices = VoicesOf(job);
    const DisbelievedClaims disbelieved = Disbelieved(ClaimsOf(voices));
    if (disbelieved.refuted.empty() && disbelieved.doubtful.empty())
      return false;
    BelieveUpTo(turn, job, BestOf(voices, disbelieved));
    const auto liar =
        std::find_if(disbelieved.refuted.begin(), disbelieved.refuted.end(),
                     [&](size_t i) { return IsThere(voices[i]); });
    if (liar != disbelieved.refuted.end()) {
      const bool is_member = voices[*liar].member != nullptr;
      EvictRefuted(turn, job, voices, *liar);
      // A job that waits, or that loses a member, has re-formed without it.
      if (is_member || is_waiting) return true;
      continue;
    }
    for (const size_t i : disbelieved.refuted) DropClaim(turn, job, voices, i);
    if (!disbelieved.doubtful.empty())
      GiveUpDoubtful(turn, job, voices, disbelieved.doubtful);
    return false;
  }
}

}  // namespace ringmaster::coordinator
