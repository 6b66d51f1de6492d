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
// There is one such probe a generation, for it ends in a halt. It has as long
// as the report that began it (Suspicions::deadline). Members of older
// releases are asked nothing, so links of theirs are judged by the reports
// alone.
//
// An end of a link is sure only after seconds that nothing is acknowledged any
// more, and stops the job with its report. So members are also asked early,
// when some have waited for each other in vain for half a lease: that costs the
// job nothing if all links can be made. Then it is left at that, and the next
// one waits twice as long. A link counts only if both of its ends have tried
// and could not make it, and one still waits over it; none inside a host does.
// An end goes only if the job has members enough without those that go, and
// loses no state with them. See docs/decisions/0071.
//
// Each probe of a generation has a number, which its answers repeat: so none
// that comes late is taken for the answer to the next one. A release that does
// not say it is believed once a generation.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_PROBING_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_PROBING_H_

#include <vector>

#include "common/clock/monotonic_time.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Asks the ends of the link that `report` is about, and others. Returns false if
// there is nothing to ask, or nobody: the report does not call for it, members
// are asked already, or one of the ends cannot be.
[[nodiscard]] bool BeginProbing(Turn& turn, Job& job,
                                const SuspicionReport& report);

// An early probe is forgotten so long after it has found nothing.
inline constexpr absl::Duration kEarlyProbeMemory = absl::Minutes(10);
// So many are made in a generation: a member that trains accepts no connection,
// so those of all probes wait in its port's queue, which may have but 128
// places on an old kernel. Where that is full, no link could be made. Members
// take them out as the next generation connects, except those of a release that
// does not say a probe's number: with one of these, so many are made in all.
inline constexpr int kMostEarlyProbes = 16;

// `member` has sent a beat. Begins an early probe if it and others have waited
// for each other for long enough: of all links between members, if kMostProbers
// are enough for that, else of those over which they wait.
void ProbeEarly(Turn& turn, Job& job, const Member& member);

// When the early probe under way, if there is one, is over whether or not all
// have answered; InfiniteFuture if there is none, or a report has come
// meanwhile.
[[nodiscard]] MonotonicTime EarlyProbeDeadline(const Job& job);

// The coordinator itself was held up for `delay`.
void ExtendProbing(Job& job, absl::Duration delay);

void OnProbed(Turn& turn, Worker& worker, const ProbedReceived& probed);

// Returns true if members were asked, and all of them have answered.
[[nodiscard]] bool HasAllAnswers(const Job& job);

// Returns true if an end of the link that `report` is about says what became of it
// when it tried it. Requires job.suspicions.probing.
[[nodiscard]] bool IsProbed(const Job& job, const SuspicionReport& report);

// The names of members that one who was asked did not reach, and that the coordinator
// had not heard for a while then, either. They may be heard again now.
[[nodiscard]] std::set<std::string> SilentPeers(const Job& job);

// The links that could not be made although both ends were heard, as reports of
// those who tried.
[[nodiscard]] std::vector<SuspicionReport> LinksNotMade(const State& state,
                                                        const Job& job);

// Returns true if an end of `link` waits for the other, and has made no
// progress since it was asked. Requires job.suspicions.probing.
[[nodiscard]] bool IsStillWaitedOn(const State& state, const Job& job,
                                   const SuspicionReport& link);

// Those of the links that were not made of which both ends say so.
[[nodiscard]] std::vector<SuspicionReport> LinksMadeByNeither(
    const State& state, const Job& job);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_PROBING_H_
