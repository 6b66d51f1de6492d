// ServerGeneration is a worker's part in one generation of a job with parameter
// servers: its exchange with the holders of the parameters and, if the worker
// is one of them, its own host, which serves meanwhile.
//
// Thread-safety: on the training thread; the parts given to LiveGeneration,
// from any. Everything given must outlive it.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_SERVER_GENERATION_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_SERVER_GENERATION_H_

#include <atomic>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/parameter_server/shard_host.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"
#include "worker/collective/communicator.h"
#include "worker/member/job_runner.h"
#include "worker/member/shard_links.h"
#include "worker/train/exchange/host_thread.h"
#include "worker/train/exchange/parameter_sync.h"
#include "worker/train/exchange/server_sync.h"
#include "worker/train/exchange/shard_client.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

// Checks that a job has parameter servers exactly if its assignments name
// holders, and that it has at least as many buckets as shards.
//   INVALID_ARGUMENT  what does not fit
[[nodiscard]] absl::Status CheckShards(const TrainingState& state,
                                       const RankAssignment& assignment);

// The cause of a generation's failure.
struct GenerationFailure {
  absl::Status status;
  int blamed_rank = -1;  // the peer that it is about; -1: unknown
};

class ServerGeneration {
 public:
  struct Parts {
    const RankAssignment& assignment;
    TrainingState& state;
    Communicator& communicator;
    ShardHost* host = nullptr;  // of this worker; null: it holds nothing
    const CancelToken& cancel;
    Clock& clock;
    Trace& trace;
  };
  //   INVALID_ARGUMENT  the job has more shards than buckets
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ServerGeneration>> Create(
      const Parts& parts, ShardLinks links);

  // Makes this worker ready for its first step. If no server holds the job's
  // parameters yet, `load` may read a checkpoint into the state, and rank 0
  // then sends the state to the servers; the other ranks get it from the
  // servers. Errors as `load` and ServerSync::Begin.
  //   FAILED_PRECONDITION  a shard is lost, and yet the job goes on
  [[nodiscard]] absl::Status Begin(absl::FunctionRef<absl::Status()> load);
  ServerSync& sync() { return *sync_; }
  // Null: this worker holds nothing.
  CancelToken* host_cancel() {
    return host_thread_ == nullptr ? nullptr : &host_thread_->cancel();
  }

  // The run ended without an error: waits until all workers have left this
  // worker's own host, if it has one, as this worker has.
  [[nodiscard]] absl::Status AwaitHost();
  // The run ended with `seen`: ends this worker's own host, and returns the
  // failure that came first, as far as this worker can tell.
  [[nodiscard]] GenerationFailure End(const GenerationFailure& seen);

  // From any thread. If this worker waits for itself, it waits for the rank
  // that its own host waits for.
  [[nodiscard]] SyncProgress progress() const;

 private:
  explicit ServerGeneration(const Parts& parts) : parts_(parts) {}

  const Parts parts_;
  std::unique_ptr<HostThread> host_thread_;
  std::unique_ptr<ShardClient> client_;
  std::unique_ptr<ServerSync> sync_;
  std::atomic<bool> awaits_host_{false};
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_SERVER_GENERATION_H_
