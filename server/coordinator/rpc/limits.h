// The coordinator's limits on what others make it keep; what is beyond them is
// refused by LimitReached. docs/operations.md has them all.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_LIMITS_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_LIMITS_H_

namespace ringmaster::coordinator {

struct Limits {
  int sessions = 10'000;     // of workers and parameter servers
  int watches = 1000;        // streams of WatchJob and WatchStatus
  int waiting_calls = 4096;  // for their turn, and as many for the disk
  int events = 10'000;       // the oldest are dropped
  int gatherings = 32;       // questions to workers, for traces and logs
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_LIMITS_H_
