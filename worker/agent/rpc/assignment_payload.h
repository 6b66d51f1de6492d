// AssignmentPayload: the part of an assignment that is for the trainer; the
// agent's core passes it on unread. It keeps the whole spec, because the hello
// reports it to a coordinator that has lost its state.
#ifndef RINGMASTER_WORKER_AGENT_RPC_ASSIGNMENT_PAYLOAD_H_
#define RINGMASTER_WORKER_AGENT_RPC_ASSIGNMENT_PAYLOAD_H_

#include "ringmaster/v1/job.pb.h"
#include "worker/member/job_runner.h"

namespace ringmaster::agent {

struct AssignmentPayload {
  v1::JobSpec spec;
  RankAssignment assignment;
};

}  // namespace ringmaster::agent

#endif  // RINGMASTER_WORKER_AGENT_RPC_ASSIGNMENT_PAYLOAD_H_
