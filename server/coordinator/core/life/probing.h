// Probing: before a live member goes for a broken link, its neighbours try it.
//
// When a peer's report says more than that a connection was closed, the ends of
// that link and some third members, kMostProbers in all, are asked to connect to
// each other's data ports. Nobody decides by who was accused first then:
//   - if every link can be made again, nobody goes;
//   - else the fewest members that cover the links that cannot (SmallestCover).
// A link counts only if the coordinator has heard both of its ends since the
// probe began: one with a silent end is no evidence against the other, and the
// silent one's lease decides about it.
//
// There is one probe a generation, for it ends in a halt. It has as long as the
// report that began it (Job::suspicion_deadline). Members of older releases are
// asked nothing, so links of theirs are judged by the reports alone.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_PROBING_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_PROBING_H_

#include <vector>

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Asks the ends of the link that `report` is about, and others. Returns false if
// there is nothing to ask, or nobody: the report does not call for it, members
// are asked already, or one of the ends cannot be.
[[nodiscard]] bool BeginProbing(Turn& turn, Job& job,
                                const SuspicionReport& report);

void OnProbed(Turn& turn, Worker& worker, const ProbedReceived& probed);

// Returns true if members were asked, and all of them have answered.
[[nodiscard]] bool HasAllAnswers(const Job& job);

// Returns true if an end of the link that `report` is about says what became of it
// when it tried it. Requires job.probing.
[[nodiscard]] bool IsProbed(const Job& job, const SuspicionReport& report);

// The links that could not be made although both ends were heard, as reports of
// those who tried.
[[nodiscard]] std::vector<SuspicionReport> LinksNotMade(const State& state,
                                                        const Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_PROBING_H_
