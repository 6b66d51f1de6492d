// Which coordinator formed a generation, and what that says of others on copies
// of the journal.
//
// Two coordinators that work on copies of one journal give out the same
// generation numbers. So a generation is known by its number and by the
// incarnation of the coordinator that formed it. The journal has both, each
// member keeps both, and a coordinator compares them: one that starts again on
// its own journal finds there whatever its members are in, and one on a copy
// does not, once a generation was formed after the copy was made.
//
// Incarnation 0 is that of a release that does not tell; it fits any of the
// generations that a journal has. One beyond those is another coordinator's also if
// its worker does not tell whose: otherwise a worker that hides it could take a job
// from its members.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_FORMED_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_FORMED_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// "0000a1b2c3d4e5f6", as `ringctl -o json status` shows it in decimal.
[[nodiscard]] std::string IncarnationText(uint64_t incarnation);

// Notes that the coordinator `formed_by` formed `generation`.
void NoteFormed(State& state, int64_t generation, uint64_t formed_by);

// What `state` knows of the generation that a worker is in.
enum class Standing {
  // The journal has it, or may have had it; or it has no generation of which it
  // knows the former, so its state was lost, and workers report it (rebuild.h).
  kKnown,
  // It is newer than any that the journal has.
  kNewer,
  // Its number is another's here.
  kOther,
};
[[nodiscard]] Standing StandingOf(const State& state, int64_t generation,
                                  uint64_t formed_by);

// Returns true if the journal has a generation of that coordinator.
[[nodiscard]] bool HasFormedAny(const State& state, uint64_t formed_by);

// Returns true if that job is here and has not ended.
[[nodiscard]] bool IsKnownJob(const State& state, std::string_view job_id);

// Returns true if the journal may be an older copy, so that the present one's
// members are elsewhere: a worker is in a newer generation, and this coordinator
// has formed none itself. Unless that one's coordinator is in the journal, which
// leaves no doubt, a member of the same job that has attached here in its newest
// generation outweighs it.
[[nodiscard]] bool IsOutdated(const State& state);

// Returns true if a member of the newest generation of that job is attached.
[[nodiscard]] bool HasAttachedMember(const State& state,
                                     std::string_view job_id);

// Why a job waits then.
inline constexpr char kOutdatedText[] =
    "nothing is decided about it, since the journal seems to be an older copy; "
    "ringctl status says more";

// Returns true if the other one works on a copy of this journal, and is not that
// of an unrelated cluster.
[[nodiscard]] bool IsCopy(const OtherCoordinator& other);

// The last sign of another coordinator, for users; empty if there is none.
[[nodiscard]] std::string OtherCoordinatorText(const State& state);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_FORMED_H_
