// ShardHost holds shards of a job's parameters from one generation to the next,
// and updates them with the gradients that workers push.
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

  // Brings the shards that it holds to `resume_step`. Those that it shall no
  // longer hold stay until a second step is made, as by then every holder has
  // its own; those that rank 0 gives anew are forgotten at once.
  // Run learns from the workers which shards there are, and their sizes.
  // `program` has its defaults (DefaultProgram).
  //   FAILED_PRECONDITION  the placements name this host as the source of a
  //                        shard that it does not hold as of the resume step
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
  // The newest step whose update all primary shards of this host have.
  [[nodiscard]] virtual int64_t complete_step() const = 0;
  // The step from which the workers resume in this generation: the resume step,
  // or the checkpoint's step if rank 0 sends a checkpoint's parameters, once
  // they have arrived.
  [[nodiscard]] virtual int64_t begin_step() const = 0;
  // The rank that this host waits for: the sender of a copy of a shard, its
  // backup, or the slowest worker. -1: none; it is working or not running.
  [[nodiscard]] virtual int waiting_for_rank() const = 0;
  // Returns how long it has waited in this generation while `rank` held others
  // up. Waiting for pushes of all workers counts for none of them.
  [[nodiscard]] virtual absl::Duration WaitedFor(int rank) const = 0;
  // Messages taken so far in this generation, as a sign of progress.
  [[nodiscard]] virtual int64_t taken_messages() const = 0;
  // Returns true if it runs and all copies that pushes must wait for have
  // arrived: its own and those of its backup.
  [[nodiscard]] virtual bool takes_pushes() const = 0;
  // The rank that the last Run's failure names; -1: none.
  [[nodiscard]] virtual int blamed_rank() const = 0;
  // With ssp and async: element i counts the answers of the last Run to pushes
  // that were i steps ahead of the slowest worker's; the last one counts all
  // that were further ahead. Covers the shards that are primary here, as of the
  // last time that a step was complete, or of the end. Empty with bsp.
  [[nodiscard]] virtual std::vector<int64_t> staleness() const = 0;
  // The memory of the parameters that it answers with, which workers on this
  // machine read in place; null: it cannot be shared, or the layout is not
  // known yet.
  [[nodiscard]] virtual const SharedSegment* shared_parameters() const = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PARAMETER_SERVER_SHARD_HOST_H_
