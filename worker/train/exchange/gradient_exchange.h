// GradientExchange is how the ranks of a generation bring their gradients
// together: the communicator, and beside it an all-reduce or the conversation
// with parameter servers.
//
// Thread-safety: on the training thread.
// Ownership: everything given must outlive it. The destructor closes all
// connections.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_GRADIENT_EXCHANGE_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_GRADIENT_EXCHANGE_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/parameter_server/shard_host.h"
#include "common/plan/topology.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"
#include "common/transport/channel.h"
#include "common/transport/tcp.h"
#include "worker/collective/algorithm.h"
#include "worker/collective/communicator.h"
#include "worker/member/job_runner.h"
#include "worker/member/progress_board.h"
#include "worker/member/shard_links.h"
#include "worker/member/train_counters.h"
#include "worker/train/exchange/all_reduce_sync.h"
#include "worker/train/exchange/server_generation.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

class GradientExchange {
 public:
  struct Parts {
    const RankAssignment& assignment;
    TrainingState& state;
    ShardHost* host = nullptr;  // of this worker; null: it holds no shards
    const Listener& listener;
    const CancelToken& cancel;
    ProgressBoard& board;  // gains what is expected of all-reduces
    TrainCounters& counters;
    Clock& clock;
    Trace& trace;
  };

  // Connects with all peers. Errors as ConnectMesh, about BlamedPeer;
  //   INVALID_ARGUMENT    placements of shards that do not fit
  //   RESOURCE_EXHAUSTED  the process has no descriptors left
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<GradientExchange>>
  Connect(const Parts& parts);

  Communicator& communicator() { return *communicator_; }
  ParameterSync& sync();
  // Null: gradients are all-reduced.
  ServerGeneration* servers() { return servers_.get(); }

  // The run ended with `status`: disconnects from the peers, which must not
  // wait for this rank, and returns the cause of its failure.
  [[nodiscard]] GenerationFailure End(const absl::Status& status);

 private:
  explicit GradientExchange(const Parts& parts) : parts_(parts) {}
  // The channels of `links` are those of its connections, in order.
  [[nodiscard]] absl::StatusOr<std::vector<std::unique_ptr<Channel>>>
  ConnectMesh(const ShardLinkPlan& links);
  // Puts the ranks' accelerators, if they reduce any gradients, on top of the
  // communicator.
  [[nodiscard]] absl::Status ConnectAccelerators();
  [[nodiscard]] absl::Status MakeSync(
      const ShardLinkPlan& links,
      std::vector<std::unique_ptr<Channel>> channels);
  // Returns the policy by which this generation's ranks choose algorithms;
  // shows the forecast of their all-reduces.
  [[nodiscard]] AlgorithmPolicy Policy(const Topology& topology);

  const Parts parts_;
  std::unique_ptr<Communicator> communicator_;
  // Exactly one of the two is set.
  std::unique_ptr<AllReduceSync> all_reduce_;
  std::unique_ptr<ServerGeneration> servers_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_GRADIENT_EXCHANGE_H_
