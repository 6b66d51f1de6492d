// Faults: what goes wrong in a simulated cluster, and when.
#ifndef RINGMASTER_TESTS_SIMULATOR_FAULT_H_
#define RINGMASTER_TESTS_SIMULATOR_FAULT_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "tests/simulator/random.h"

namespace ringmaster::simulator {

enum class FaultKind {
  kKill,         // SIGKILL of a worker: its connections are reset
  kKillSeveral,  // of k workers at once
  kHostLost,     // power: nothing is reset
  kFreeze,       // SIGSTOP, later SIGCONT
  kCutSession,   // nothing gets through between coordinator and worker
  kCutPeers,     // nothing gets through between two workers
  kIsolate,      // nothing gets through to one worker from anybody
  kResetSession,
  kResetPeers,
  kCoordinatorKill,
  kCoordinatorStall,
  kJournalFails,
  kSlow,  // computes ten times slower
  kDrain,
  kFreezeAll,       // all workers, as a machine that is paused
  kCutCoordinator,  // nothing gets through between coordinator and anybody
  kResetSessions,   // all
  // With copies of shards: SIGKILL of a holder, which comes back; and as it, or
  // anybody, then takes copies, SIGKILL of one that gives them.
  kKillHolder,
  kKillGiver,
  kLeaveAll,  // SIGTERM of all members at once, or of everybody
  // Workers reach another coordinator for a while, on an older copy of the
  // journal, and theirs is cut off.
  kTwin,
  // From now on workers of a host fail by themselves.
  kBadHost,
  // A worker says what is not so about its links and steps; only in runs with a
  // liar.
  kLiar,
  // A worker fails in each step, and does not know why: it closes its connections.
  kMute,
};
inline constexpr int kFaultKinds = 24;
// Those that any job may meet.
inline constexpr int kFaultKindsOfRanks = 17;
[[nodiscard]] std::string_view NameOf(FaultKind kind);

// Moments at which faults hurt most.
enum class Moment {
  kNone,  // at a time of its own
  kHalt,
  kFormation,
  kAssignment,
  kPreparing,
  kConnecting,
  kCommitExchange,
  kStateCopy,
  kPause,
  kReattach,
};
inline constexpr int kMoments = 10;
[[nodiscard]] std::string_view NameOf(Moment moment);

// How workers of a bad host fail.
enum class BadHost {
  kNone,
  kNoData,    // they cannot prepare: a file is missing
  kBadDisk,   // reading fails now and then, while they train
  kNoMemory,  // the kernel kills them when they have prepared
};

struct Fault {
  FaultKind kind = FaultKind::kKill;
  // Comes at `time`, or `delay` after the first time that `moment` is reached
  // after `time`.
  int64_t time = 0;
  Moment moment = Moment::kNone;
  int64_t delay = 0;
  int64_t duration = 0;
  // 1: towards the worker (or the second one), 2: away from it, 3: both.
  int directions = 3;
  // Of kBadHost, and whether all hosts are.
  BadHost way = BadHost::kNone;
  bool is_everywhere = false;
  bool is_scheduled = false;
};

inline constexpr int kFaults = 5;
using FaultPlan = std::array<Fault, kFaults>;
// `has_copies`: the job has copies of its shards.
[[nodiscard]] FaultPlan DrawFaults(Random& random, Random& leave_random,
                                   Random& late_random, bool has_copies);
[[nodiscard]] Fault DrawLiar(Random& random);
[[nodiscard]] Fault DrawMute(Random& random);

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_FAULT_H_
