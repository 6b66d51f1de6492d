// Verdicts: from observations to the culprit, its place, the cause and the
// evidence.
//
// Pure functions of their arguments. A verdict's `decision` is to continue
// without the culprit; the caller may decide otherwise.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_VERDICT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_VERDICT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// The observer of everything that no worker reports.
inline constexpr std::string_view kCoordinatorObserver = "coordinator";

// The verdict on `member` of `job`, last known as `worker`: `what` happened to
// it ("was lost", "left"), on `evidence` and on what its peers have reported.
[[nodiscard]] v1::Verdict VerdictOnMember(const Job& job, const Member& member,
                                          const Worker& worker,
                                          std::string_view what,
                                          v1::Evidence evidence,
                                          absl::Time time);

// `detail` is cut to kMaxDetail bytes.
inline constexpr size_t kMaxDetail = 1024;
[[nodiscard]] v1::Evidence EvidenceOf(v1::EvidenceKind kind,
                                      std::string_view observer,
                                      std::string_view detail);

// Adds `evidence` to `verdict`; beyond kMaxEvidence it is only counted, so that a
// halt stays small however many members have seen its cause.
inline constexpr int kMaxEvidence = 16;
void AddEvidence(v1::Evidence evidence, v1::Verdict& verdict);

// "closed by the peer: DETAIL": what a member observed of a link, and how it
// failed if that was told.
[[nodiscard]] std::string LinkText(v1::LinkFailure failure,
                                   std::string_view detail);

// Returns a verdict that blames nobody.
[[nodiscard]] v1::Verdict VerdictOnNobody(const Job& job, std::string summary,
                                          absl::Time time);

// Returns the details that the suspicions of `job` give about the link between
// two ranks, from both ends, in the order of arrival and without duplicates.
// One end may know only that nobody connected, the other also the address that
// it tried in vain.
[[nodiscard]] std::string LinkDetail(const Job& job, int rank, int peer);

// The verdict on the link that `first`, a suspicion of `job`, is about, with
// all suspicions as evidence. Both ends are alive.
[[nodiscard]] v1::Verdict VerdictOnLink(const Job& job,
                                        const SuspicionReport& first,
                                        absl::Time time);

// The verdict on two members that have given up states that differed, as `report`
// says: neither is known to be wrong.
[[nodiscard]] v1::Verdict VerdictOnStates(const Job& job,
                                          const SuspicionReport& report,
                                          absl::Time time);

// A worker cannot do its work: by its own words, or by how it differs from the
// others.
[[nodiscard]] bool IsOwnFailure(const v1::Verdict& verdict);
// A worker left, or others joined: nobody failed.
[[nodiscard]] bool IsPolite(const v1::Verdict& verdict);
// Returns true if IsPolite and the job continues.
[[nodiscard]] bool IsWanted(const v1::Verdict& verdict);

// Adds `later`, a verdict on the same incident, to the first. The culprit that
// was blamed first stays blamed, and `later` becomes evidence; but if nobody
// was blamed for a halt that the job survives, `later` replaces the verdict.
void AddVerdict(const v1::Verdict& later, v1::Verdict& verdict);

// Returns whether all members of `job` that are not lost have prepared, and the
// workers alike. (Parameter servers have no plan and read no data.)
enum class Agreement { kIncomplete, kEqual, kDifferent };
[[nodiscard]] Agreement PreparedAgreement(const Job& job);
// Returns whether all workers have finished, with the same hash of the final
// parameters. Parameter servers are done when they are.
[[nodiscard]] Agreement FinishedAgreement(const Job& job);

struct OddMember {
  std::string worker;
  std::string difference;
};

// The members that prepared differently from the generation whose state goes on; where
// nobody prepared like that one, or there is none, from those who hold the state, or
// from more than half of the workers where it is held by nobody or they differ. With
// what differs; empty if nobody can tell.
[[nodiscard]] std::vector<OddMember> OddlyPrepared(const Job& job);

// One that finished differently from more than half of the workers, and how; nullopt
// if no more than half are agreed, or each has a clock of its own. Requires kDifferent.
[[nodiscard]] std::optional<OddMember> OddlyFinished(const Job& job);

// "the data differs from that of X: A against B": what one that prepared as
// `mine` lacks against `theirs`, of `whose`; empty if nothing.
[[nodiscard]] std::string DifferenceText(const PreparedAnswer& mine,
                                         const PreparedAnswer& theirs,
                                         std::string_view whose);

// Blames the first member of the smallest group that prepared (or finished)
// alike, and says how it differs from the first of the largest group. Requires
// kDifferent.
[[nodiscard]] v1::Verdict VerdictOnPrepared(const Job& job, absl::Time time);
[[nodiscard]] v1::Verdict VerdictOnFinished(const Job& job, absl::Time time);

// The words (split at spaces, commas and semicolons) of `a` that `b` lacks;
// `a` whole if there are none.
[[nodiscard]] std::string WordsOnlyIn(std::string_view a, std::string_view b);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_ACCOUNT_VERDICT_H_
