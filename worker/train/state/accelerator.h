// Accelerator is the device that a worker trains on beside the host's
// processor: a GPU. AcceleratorArenas are what one job has in its memory.
//
// The host stays in charge of everything that is not arithmetic over whole
// arenas, and keeps arenas of its own (TrainingState): checkpoints, imports and
// copies between ranks go through these.
// Thread-safety: thread-compatible, on the training thread.
// Ownership: an Accelerator must outlive the models, arenas and communicators
// that it made.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_ACCELERATOR_H_
#define RINGMASTER_WORKER_TRAIN_STATE_ACCELERATOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/clock/clock.h"
#include "common/optimizer/optimizer_config.h"
#include "common/optimizer/update.h"
#include "common/parameter_server/shard_layout.h"
#include "common/plan/plan.h"
#include "common/tensor/allocator.h"
#include "common/trace/trace.h"
#include "common/transport/cancel_token.h"
#include "worker/collective/communicator.h"
#include "worker/nn/compute.h"
#include "worker/nn/model.h"
#include "worker/nn/model_config.h"

namespace ringmaster {

struct CollectiveConfig;

// The arenas that are kept between steps, in the host's memory or in an
// accelerator's. A moment that the optimizer does not have is empty.
template <typename T>
struct ArenaSpans {
  absl::Span<T> parameters;
  absl::Span<T> first_moment;
  absl::Span<T> second_moment;
};

// ServerCopies bring gradients to the host and parameters back while passes
// run, for a job whose parameters are on servers.
//
// Each bucket is copied at most once in each direction at a time. Host memory
// should be of Accelerator::host_allocator(), and stays as it is until the copy
// is done.
// Thread-safety: on the training thread, unless a method says otherwise.
class ServerCopies {
 public:
  // Waits for all copies.
  virtual ~ServerCopies() = default;

  // Queues a copy of a bucket's gradients to `host`, as the passes queued so
  // far write them. The gradients are not written to until the copy is done.
  [[nodiscard]] virtual absl::Status StartGradients(int bucket,
                                                    absl::Span<float> host) = 0;
  // Returns true if that copy is done. From any thread.
  [[nodiscard]] virtual absl::StatusOr<bool> HasGradients(int bucket) = 0;
  // Queues a copy of a bucket's next parameters. From one thread at a time, and
  // not beside the methods below.
  virtual void StartParameters(int bucket, absl::Span<const float> host) = 0;
  // Makes everything queued from here on compute with the parameters that were
  // copied last. Returns the first error of all these copies.
  [[nodiscard]] virtual absl::Status TakeParameters() = 0;
  // Waits until no copy reads the host's memory any more. An error shows in
  // TakeParameters.
  virtual void AwaitParameters() = 0;
};

class AcceleratorArenas {
 public:
  virtual ~AcceleratorArenas() = default;

  // All parameters and all gradients, in the accelerator's memory: for
  // Model::Bind.
  [[nodiscard]] virtual absl::Span<const float> parameters() const = 0;
  [[nodiscard]] virtual absl::Span<float> gradients() const = 0;
  // Parameters and moments, for collectives.
  [[nodiscard]] virtual ArenaSpans<float> state() = 0;

  // Null: not made for parameter servers.
  [[nodiscard]] virtual ServerCopies* server_copies() = 0;

  // Queues zeros for all gradients.
  virtual void ClearGradients() = 0;
  // Copies parameters and moments; done when they return. Those that `host`
  // leaves empty stay where they are.
  [[nodiscard]] virtual absl::Status CopyFromHost(
      const ArenaSpans<const float>& host) = 0;
  [[nodiscard]] virtual absl::Status CopyToHost(
      const ArenaSpans<float>& host) = 0;

  // Returns the square of the norm of the gradients that all passes and
  // collectives so far wrote; see SumOfGradientSquares. Ranks with equal
  // gradients get equal bits on equal accelerators.
  [[nodiscard]] virtual absl::StatusOr<double> GradientNormSquared(
      int64_t statistics) = 0;
  // Queues the update of all parameters; `stretches` tile the arenas, and
  // update.decays and update.tracking_rate are taken from them, and their rate
  // multiplies the learning rate.
  [[nodiscard]] virtual absl::Status Apply(
      const OptimizerConfig& config, const Update& update,
      std::span<const UpdateStretch> stretches) = 0;
  // Returns the time that the last update took, if it is done and was not asked
  // for before; else zero.
  [[nodiscard]] virtual absl::StatusOr<absl::Duration> TakeUpdateTime() = 0;
};

class Accelerator {
 public:
  virtual ~Accelerator() = default;

  // For people: "cuda:0 (NVIDIA H200, 139 GiB, GPU-8a56...)".
  [[nodiscard]] virtual const std::string& name() const = 0;
  // Makes the calling thread the training thread: before any other call of
  // this, or of the objects that it made.
  [[nodiscard]] virtual absl::Status Enter() = 0;
  // Returns true if `status` says that this process can no longer use the
  // accelerator: only another process can.
  [[nodiscard]] virtual bool IsLost(const absl::Status& status) const = 0;
  // Operations a second at `precision`, of dense matrix products; 0: not known.
  [[nodiscard]] virtual double PeakFlops(Precision precision) const = 0;
  // Host memory that it copies from and to at full speed.
  [[nodiscard]] virtual Allocator& host_allocator() = 0;

  // As CreateModel of model_registry.h; its passes run on the accelerator.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<Model<float>>>
  CreateModel(const ModelConfig& config, Precision precision,
              int64_t max_batch) = 0;
  struct ArenaOptions {
    int moments = 0;
    bool has_servers = false;  // that hold parameters and moments
  };
  // Zeroed arenas of `plan`.
  //   RESOURCE_EXHAUSTED  its memory is too small; with figures
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<AcceleratorArenas>>
  CreateArenas(const Plan& plan, const ArenaOptions& options) = 0;

  // The inputs of a generation's communicator.
  struct CommunicatorOptions {
    int64_t generation = 0;
    absl::Duration connect_timeout;
    const CollectiveConfig& collective;
    BufferView gradients;  // all that is reduced
    const CancelToken& cancel;
    Clock& clock;
    Trace& trace;
  };
  // A communicator that reduces gradients on the accelerators of all ranks, and
  // does everything else through `host`, which connects the same ranks. All
  // ranks call it at once.
  //   FAILED_PRECONDITION  ranks whose accelerators differ too much; both are
  //                        named
  //   INVALID_ARGUMENT     the job asks of collectives what accelerators cannot
  //                        do, or a rank's cannot be used, or not with
  //                        another's
  //   UNAVAILABLE, DEADLINE_EXCEEDED, ABORTED  as Communicator::Wait
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      std::unique_ptr<Communicator> host,
      const CommunicatorOptions& options) = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_ACCELERATOR_H_
