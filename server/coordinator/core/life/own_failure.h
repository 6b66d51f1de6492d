// Own failures: a worker that cannot do a job's work, for its data, its memory
// or its disk, costs the job that worker and nothing else.
//
// It is evicted with its own words as evidence, and its host is left out of the
// job (quarantine.h): as unfit where it could not prepare. So is a host on which
// members die before a first step, kMostEarlyLosses times in a row.
//
// One that could not read a file while it trained, and alone holds some of what the
// job has made, stays a member until others have that, or it is in a checkpoint: it is
// a leaver then (hand_over.h). If it fails again, or nobody could take over, it goes.
//
// A failure is the job's own, and ends it, if it repeats itself wherever the job
// is tried: on kMostFailures hosts or on all that there are, and on none does it go
// well, or did before; or kMostFailures times after one step, to ranks that held it.
// A field of the job that must be corrected (ExitCode::kUsage) is the job's at once
// if nobody does well with it; if it shows while the job trains, once a second one
// says so of those who were members when the first did, or at once if the job has
// too few without the first. So is any failure of a benchmark, whose figures are
// those of its workers, and one that a worker itself calls the job's, since the job
// asks for it (a checkpoint that cannot be written, where train.checkpoint.on_error
// is fail).
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_OWN_FAILURE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_OWN_FAILURE_H_

#include <optional>
#include <string>

#include "common/status/exit_code.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

inline constexpr int kMostFailures = 3;
// Losses before a first step, in a row, that make a host unfit. Whoever kills
// processes at random should not get that far.
inline constexpr int kMostEarlyLosses = 5;

// The code that a worker has failed with; 0 is no failure's, so it is taken for
// a bug.
[[nodiscard]] ExitCode ExitCodeOf(const FailedReceived& failed);

// `member` of `job` has failed by its own fault. Evicts it, or fails the job, as in
// any case if `is_of_job`. `was_preparing`: it says that it had not prepared
// the generation yet. Invalidates `member`.
void OnOwnFailure(Turn& turn, Job& job, Member& member, v1::Evidence evidence,
                  ExitCode exit_code, bool is_of_job = false,
                  bool was_preparing = false);

// `member` was lost, `gone`: if its generation had made no step, its host may be
// to blame.
// Returns why the job is, as the end of a sentence, perhaps an empty one;
// nullopt if it is not.
[[nodiscard]] std::optional<std::string> NoteEarlyLoss(
    Turn& turn, Job& job, const Member& member, const Worker& gone,
    const v1::Verdict& verdict);

// The same for `gone`, which was no member yet and had not got ready to be one.
void NoteLossInRehearsal(Turn& turn, Job& job, const Worker& gone,
                         const v1::Evidence& evidence, std::string what);

// The members have made a step, so their hosts are fit for `job`.
void NoteStepMade(Job& job);
// The hosts of the workers among the members have done well with `job`, which the
// journal tells too. `job` remembers this many, which is more than it can fail on.
inline constexpr size_t kMostProvenHosts = 64;
void NoteProven(Job& job);

// The next generation of `job` lacks workers. Returns the last failure, and on
// which hosts it was the same, if that is the job's fault: none of those left has
// prepared it, and its other hosts are out because their workers failed. (The last
// incident may be another one.)
struct JobsFault {
  int exit_code = 0;
  std::string message;
};
[[nodiscard]] std::optional<JobsFault> TriedEverywhere(const State& state,
                                                       const Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_OWN_FAILURE_H_
