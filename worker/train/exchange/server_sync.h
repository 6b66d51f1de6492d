// ServerSync is data parallelism through parameter servers: gradients are
// pushed to the holders of the parameters, and the updated parameters are
// pulled.
//
// A bucket is pushed as soon as BucketReady says so, and from an accelerator as
// soon as it is on the host; its new parameters go to the state's
// next_parameters(), which take the place of the others in Commit.
//   bsp: a step is one update with everybody's gradients, and the workers then
//     exchange commit records as with an all-reduce.
//   ssp, async: each push is an update. The workers meet at agreement steps
//     only: there they exchange their records since the previous one, fetch all
//     parameters anew, and do not push before everybody has them, so that all
//     evaluate, compare and write the same.
// The servers know where a step that a halt interrupts ends: everything here is
// fetched anew in the next generation.
//
// Thread-safety: on the training thread. Everything given must outlive it.
#ifndef RINGMASTER_WORKER_TRAIN_EXCHANGE_SERVER_SYNC_H_
#define RINGMASTER_WORKER_TRAIN_EXCHANGE_SERVER_SYNC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/trace/trace.h"
#include "worker/collective/communicator.h"
#include "worker/train/exchange/gradient_feed.h"
#include "worker/train/exchange/parameter_sync.h"
#include "worker/train/exchange/shard_client.h"
#include "worker/train/state/training_state.h"

namespace ringmaster {

// Workers that do not wait for each other agree at least this often, in steps.
inline constexpr int64_t kMostStepsApart = 50;

// Returns true if workers that do not wait for each other agree after `step`:
// if something follows for which they must hold the same parameters. Pure.
[[nodiscard]] bool IsAgreementStep(const ProgramConfig& config, int64_t step);

class ServerSync final : public ParameterSync {
 public:
  // `wait_timeout` bounds each wait for others.
  ServerSync(int64_t generation, absl::Duration wait_timeout,
             TrainingState& state, Communicator& communicator,
             ShardClient& client, Clock& clock, Trace& trace);

  // Begins the generation: fetches the parameters of the state's applied step.
  // Rank 0 sends those that no holder has, with the moments, from its state.
  // Errors as Commit.
  [[nodiscard]] absl::Status Begin();
  [[nodiscard]] absl::Status BeginStep() override;
  void BucketReady(int bucket) override;
  [[nodiscard]] absl::StatusOr<CommittedStep> Commit(
      const LocalStep& local) override;
  [[nodiscard]] absl::Status FetchMoments(bool is_wanted) override;
  // The servers need not wait for this worker any more.
  [[nodiscard]] absl::Status Leave(DoneKind how, bool is_leaver) override;

  [[nodiscard]] int64_t payload_sent_bytes() const override;
  [[nodiscard]] int64_t theory_bytes_per_step() const override;
  [[nodiscard]] absl::Duration WaitedFor(int rank) const override;
  [[nodiscard]] int peer_ranks() const override { return peer_ranks_; }

 private:
  // This worker's work since the workers agreed last.
  struct Since {
    LocalStep sum;  // the counts and sums of it
    int64_t steps = 0;
  };

  [[nodiscard]] MonotonicTime Deadline() const {
    return clock_.Now() + wait_timeout_;
  }
  [[nodiscard]] absl::Status GiveState();
  // Pushes a bucket, now or once it is on the host.
  [[nodiscard]] absl::Status Push(int bucket);
  // Waits until all that was pushed is answered.
  [[nodiscard]] absl::Status AwaitAnswers();
  // Exchanges records with all workers; `local` adds up `steps` steps.
  [[nodiscard]] absl::StatusOr<CommitSummary> Exchange(const LocalStep& local,
                                                       int64_t steps,
                                                       double norm_squared);
  [[nodiscard]] absl::StatusOr<CommitSummary> CommitTogether(
      const LocalStep& local, double norm_squared);
  [[nodiscard]] absl::StatusOr<CommitSummary> CommitAlone(
      const LocalStep& local, double norm_squared);
  [[nodiscard]] absl::Status FetchParameters(const LocalStep& local);

  const int64_t generation_;
  const absl::Duration wait_timeout_;
  TrainingState& state_;
  Communicator& communicator_;
  ShardClient& client_;
  Clock& clock_;
  Trace& trace_;
  int peer_ranks_ = 0;
  // Null: gradients are on the host as they come. Uses the client.
  std::unique_ptr<GradientFeed> feed_;
  absl::Status start_error_;  // of a fail point, or an accelerator's
  std::vector<int64_t> record_words_;
  int64_t moments_step_ = -1;  // that the state's moments are of
  Since since_;                // where workers do not wait for each other
  bool has_agreed_ = false;    // since the step before
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_EXCHANGE_SERVER_SYNC_H_
