// The simulated trainer's part of an assignment; the agent's core passes it
// on unread. (Programs define the same type in worker/agent/rpc.)
#ifndef RINGMASTER_TESTS_SIMULATOR_ASSIGNMENT_PAYLOAD_H_
#define RINGMASTER_TESTS_SIMULATOR_ASSIGNMENT_PAYLOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/parameter_server/shard_placement.h"

namespace ringmaster::agent {

struct AssignmentPayload {
  std::string job_id;
  int32_t generation = 0;
  int rank = 0;
  int world_size = 1;
  // The members, by rank: workers, then parameter servers.
  std::vector<int> slots;
  // The workers that are the neighbours in the ring; of a server, of nobody.
  int prev_slot = -1;
  int next_slot = -1;
  int32_t resume_step = 0;
  int state_source_rank = -1;
  bool is_newcomer = false;
  bool is_rehearsal = false;
  bool makes_no_step = false;
  bool saves = false;  // and writes a checkpoint
  // The holders of each shard of the parameters; null: the job has none.
  std::shared_ptr<const std::vector<ShardPlacement>> placements;
};

}  // namespace ringmaster::agent

#endif  // RINGMASTER_TESTS_SIMULATOR_ASSIGNMENT_PAYLOAD_H_
