// ShardHost holds shards of a job's parameters, from one generation to the
// next, and updates them with what workers push.
//
// The process of a parameter server has one, and so has a worker that holds
// shards itself. One generation is one Prepare and one Run.
// Thread-safety: Prepare, Run and Release from one thread at a time; the others
// from any.
#ifndef RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_HOST_H_
#define RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_HOST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/parameter_server/message.h"
#include "common/parameter_server/message_loop.h"
#include "common/parameter_server/shard_placement.h"
#include "common/transport/cancel_token.h"
#include "common/transport/shared_segment.h"

namespace ringmaster {

namespace v1 {
class TrainProgram;
}  // namespace v1

struct ShardHostAssignment {
  std::string job_id;
  int64_t generation = 0;
  int rank = 0;     // own
  int workers = 1;  // ranks 0 to workers - 1
  int64_t resume_step = 0;
  ShardPlacements placements;
};

// The connections of a lane in one generation, as far as the placements ask for
// them.
struct ShardHostLinks {
  std::vector<MessagePeer> workers;    // all of them
  std::vector<MessagePeer> primaries;  // that this host is the backup of
  std::vector<MessagePeer> backups;    // of shards that are primary here
};

class ShardHost {
 public:
  virtual ~ShardHost() = default;

  // Brings the shards that are held to `resume_step`, and forgets those that
  // this host is to hold no longer. Run learns from the workers which shards
  // there are, and their sizes. `program` has its defaults (DefaultProgram).
  //   FAILED_PRECONDITION  a shard that the placements take from here is not
  //                        held as of the resume step
  [[nodiscard]] virtual absl::Status Prepare(
      const v1::TrainProgram& program,
      const ShardHostAssignment& assignment) = 0;

  // Serves until every worker is done; returns how they ended, which is the
  // same for all. `links` are by lane; train.collective.connections sets the
  // number of lanes. Each has a thread, the first one the caller's. `cancel`
  // ends it within milliseconds.
  //   the statuses of MessageLoop::PollOnce, of the first lane that fails, which
  //   ends the others
  [[nodiscard]] virtual absl::StatusOr<DoneKind> Run(
      std::vector<ShardHostLinks> links, const CancelToken& cancel) = 0;

  // Lets the workers know that this host wants to leave between two steps.
  virtual void RequestDrain() = 0;
  // The job is over here: forgets everything.
  virtual void Release() = 0;

  // The shards that it holds, by shard.
  [[nodiscard]] virtual std::vector<HeldShard> held_shards() const = 0;
  // The newest step that all shards which are primary here have made.
  [[nodiscard]] virtual int64_t complete_step() const = 0;
  // The step after which the workers go on in this generation: the resume step,
  // or, where rank 0 gives what a checkpoint had, that one's, once it is here.
  [[nodiscard]] virtual int64_t begin_step() const = 0;
  // The rank that this host waits for: the giver of a copy of a shard, its
  // backup, or the slowest worker. -1: none; it works, or does not run.
  [[nodiscard]] virtual int waiting_for_rank() const = 0;
  // Returns how long it has waited in this generation while `rank` held others
  // up; a host that waits for a push of every worker is held up by nobody.
  [[nodiscard]] virtual absl::Duration WaitedFor(int rank) const = 0;
  // Messages taken so far in this generation: they show if it gets on.
  [[nodiscard]] virtual int64_t taken_messages() const = 0;
  // Returns true if it runs, and all copies that pushes have to wait for are
  // there: its own, and those of its backup.
  [[nodiscard]] virtual bool takes_pushes() const = 0;
  // The rank that the last Run's failure names; -1: none.
  [[nodiscard]] virtual int blamed_rank() const = 0;
  // With ssp and async: element i counts the answers of the last Run to pushes
  // that were i steps ahead of the slowest worker's; the last one counts all
  // that were further ahead. Covers the shards that are primary here, as of the
  // last time that a step was complete, or of the end. Empty with bsp.
  [[nodiscard]] virtual std::vector<int64_t> staleness() const = 0;
  // The memory of the parameters that answers consist of, for workers of this
  // host to read in place; null: it cannot be shared, or the layout is not
  // known yet.
  [[nodiscard]] virtual const SharedSegment* shared_parameters() const = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_HOST_H_
