// Stage: where a job is in its life, with what is true only there and ends with it.
//
// A job is in one stage at a time; core.h has the table of them. Entering a stage
// (job.stage = stage::Running{}) drops what the one before it owned: its deadlines cannot
// come due in another.
//
// Thread-safety: thread-compatible; a value.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_STAGE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_STAGE_H_

#include <variant>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"
#include "ringmaster/v1/job_state.pb.h"

namespace ringmaster::coordinator {

// Every deadline is InfiniteFuture while nothing is due.
inline constexpr MonotonicTime kNever = MonotonicTime::InfiniteFuture();

// What follows a halt.
enum class HaltIntent { kReform, kFail, kCancel };

namespace stage {

// In the queue, without members.
struct Queued {
  static constexpr v1::JobState kState = v1::JOB_STATE_QUEUED;
};

// It waits for workers to begin, or, with members, to go on.
struct Gathering {
  static constexpr v1::JobState kState = v1::JOB_STATE_GATHERING;
  MonotonicTime since;
  // It begins with those who are there, unless others join before.
  MonotonicTime gang_deadline = kNever;
  // One that rests (reform.h) forms its next generation.
  MonotonicTime rest_deadline = kNever;
  // It waits for somebody to take over from its last holders, which leave.
  bool awaits_successor = false;
};

// A generation was formed; its members prepare once they have heard of it.
struct Preparing {
  static constexpr v1::JobState kState = v1::JOB_STATE_PREPARING;
};

struct Running {
  static constexpr v1::JobState kState = v1::JOB_STATE_RUNNING;
  // Workers of the pool may join, or members go.
  MonotonicTime growth_deadline = kNever;
  // Members that were asked to pause for that are halted.
  MonotonicTime pause_deadline = kNever;
};

// Members end after the step that they are at, since it was cancelled.
struct Stopping {
  static constexpr v1::JobState kState = v1::JOB_STATE_STOPPING;
  MonotonicTime deadline = kNever;
};

struct Halting {
  static constexpr v1::JobState kState = v1::JOB_STATE_HALTING;
  HaltIntent intent = HaltIntent::kReform;
  // Members that have not answered are evicted.
  MonotonicTime deadline = kNever;
};

// `state` is SUCCEEDED, FAILED or CANCELLED.
struct Ended {
  v1::JobState state = v1::JOB_STATE_FAILED;
};

}  // namespace stage

using Stage =
    std::variant<stage::Queued, stage::Gathering, stage::Preparing,
                 stage::Running, stage::Stopping, stage::Halting, stage::Ended>;

// The stage's name, for users.
[[nodiscard]] v1::JobState StateOf(const Stage& stage);

// When something is due in `stage` next.
[[nodiscard]] MonotonicTime EarliestDeadline(const Stage& stage);
// Members have `delay` longer for what they are to do by then.
void ExtendDeadlines(Stage& stage, absl::Duration delay);
// Nothing is due in `stage` any more.
void ClearDeadlines(Stage& stage);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_STAGE_H_
