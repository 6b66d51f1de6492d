// StateArenas is the memory of a job's training state: parameters, gradients
// and moments, and the arithmetic over all of them.
//
// If an accelerator computes, it has parameters, gradients and moments of its
// own. The host's are then copies, which are brought up to date in either
// direction on request (FetchToHost, SendToDevice). With parameter servers the
// host's parameters are authoritative, gradients pass through the host's arena,
// and the accelerator has no moments.
// Where the moments are sharded, a rank has those of some elements alone; the
// others' memory is not real.
// Guarantees: every arena has the plan's layout; none moves but by TakeNext.
// Thread-safety: thread-compatible; on the training thread.
// Ownership: owns the arenas; plan, config, pool and accelerator must outlive
// it.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_STATE_ARENAS_H_
#define RINGMASTER_WORKER_TRAIN_STATE_STATE_ARENAS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/optimizer/update.h"
#include "common/parameter_server/shard_layout.h"
#include "common/plan/arena.h"
#include "common/plan/plan.h"
#include "common/sync/thread_pool.h"
#include "common/tensor/allocator.h"
#include "common/transport/shared_allocator.h"
#include "worker/collective/communicator.h"
#include "worker/nn/model.h"
#include "worker/train/state/accelerator.h"
#include "worker/train/state/moment_parts.h"
#include "worker/train/state/program_config.h"

namespace ringmaster {

class StateArenas {
 public:
  struct Options {
    const Plan& plan;
    const ProgramConfig& config;
    ThreadPool& pool;
    // The allocator of the host's arenas.
    Allocator& allocator;
    Accelerator* accelerator = nullptr;  // null: the host computes
    int ranks_on_host = 1;               // that share its memory
  };
  // All zeros; without moments where parameter servers hold them.
  //   RESOURCE_EXHAUSTED  the host or the accelerator lacks memory
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<StateArenas>> Create(
      const Options& options);

  // The host's, to be read after FetchToHost.
  ArenaSpans<float> host();
  const Arena& parameters() const { return *parameters_; }
  // Empty where the optimizer has no such moment, or there is no room for it.
  absl::Span<const float> first_moment() const;
  absl::Span<const float> second_moment() const;
  // The host's arenas are written to, or were: they are newer than the
  // accelerator's.
  void MarkHostNewest();
  // The host's arenas are as the accelerator's from here on, until it updates
  // its own.
  [[nodiscard]] absl::Status FetchToHost();
  // The same for the parameters alone.
  [[nodiscard]] absl::Status FetchParameters();
  // Makes the accelerator's arenas as the host's, and its gradients zero:
  // before the first step of a generation.
  [[nodiscard]] absl::Status SendToDevice();

  // The accelerator's parameters and moments, for collectives, and a place
  // where collectives put elements that this rank does not need: its gradients,
  // which are not in use when a generation begins. Requires that an accelerator
  // computes.
  struct DeviceViews {
    std::vector<BufferView> state;
    BufferView scratch;
  };
  [[nodiscard]] DeviceViews device_views() const;
  // Collectives have written to them: they are newer than the host's.
  void MarkDeviceNewest() { newest_ = Newest::kDevice; }

  // Room for moments that servers hold; theirs are fetched.
  [[nodiscard]] absl::Status ReserveMoments();
  // The room for the parameters after the next step; empty without servers.
  absl::Span<float> next_parameters();
  // Puts them in the place of the others, on the accelerator too, to which all
  // have been sent (ServerCopies). The error is an accelerator's.
  [[nodiscard]] absl::Status TakeNext();
  // Null: the host computes, or there are no servers.
  ServerCopies* server_copies() const {
    return device_ == nullptr ? nullptr : device_->server_copies();
  }

  // The gradients of `range`, for collectives.
  [[nodiscard]] BufferView GradientsOf(ElemRange range) const;
  // The host's. Requires that the host computes, or that there are servers.
  const Arena& gradients() const { return *gradients_; }
  // Their memory, for members of this host to read; null if it is not shared:
  // this rank was alone on its host at first and has no servers, an accelerator
  // computes, or the host forbids it.
  const SharedSegment* shared_gradients() const;

  // Lets `model` compute with these.
  [[nodiscard]] absl::Status Bind(Model<float>& model) const;
  // The stretches that updates treat alike; they tile the arenas.
  std::span<const UpdateStretch> update_stretches() const {
    return update_stretches_;
  }
  // The squares of the norms of the gradients of each of `parts`; equal
  // gradients give equal bits. An accelerator has one part.
  [[nodiscard]] absl::StatusOr<std::vector<double>> GradientNormsSquared(
      absl::Span<const MomentPart> parts);
  // Updates all parameters, or, where the moments are sharded, those that have
  // them; update.decays and update.tracking_rate are settled here, and what the
  // layers make of the learning rate.
  [[nodiscard]] absl::Status Apply(const Update& update);

  // Only where the moments are sharded: this rank has those of `ranges`, which
  // are kept, and no others.
  void KeepMoments(const ElemRanges& ranges);
  // All moments are zeros again; the same ones are kept.
  void ClearMoments();
  // See AcceleratorArenas; zero where the host computes, whose Apply returns
  // when it is done.
  [[nodiscard]] absl::StatusOr<absl::Duration> TakeUpdateTime();

 private:
  enum class Newest { kBoth, kHost, kDevice };

  explicit StateArenas(const Options& options) : options_(options) {}
  [[nodiscard]] absl::Status Allocate();
  [[nodiscard]] absl::Status AllocateGradients();
  void MakeUpdateStretches();
  void MakeNormPieces(absl::Span<const MomentPart> parts);
  // Cuts the stretches into pieces for threads, and at the borders of `ranges`.
  void MakeUpdatePieces(const ElemRanges& ranges);
  [[nodiscard]] bool has_servers() const {
    return options_.config.parameter_server.has_value();
  }

  const Options options_;
  // Before the arenas, which give their memory back to it.
  SharedAllocator shared_allocator_{"ringmaster gradients"};
  PageAllocator page_allocator_;
  std::unique_ptr<Arena> parameters_;
  std::unique_ptr<Arena> next_parameters_;  // null without servers
  // Null where an accelerator has them and no server takes them.
  std::unique_ptr<Arena> gradients_;
  // Null if the optimizer has none, or servers have it.
  std::unique_ptr<Arena> first_moment_;
  std::unique_ptr<Arena> second_moment_;       // likewise
  std::unique_ptr<AcceleratorArenas> device_;  // null: the host computes
  Newest newest_ = Newest::kBoth;
  std::vector<UpdateStretch> update_stretches_;
  std::vector<UpdateStretch> update_pieces_;  // of what is updated here
  // The pieces of each of the parts whose norms were asked for last.
  struct NormPieces {
    std::vector<MomentPart> parts = {};
    std::vector<ElemRange> pieces = {};
    std::vector<size_t> ends = {};  // of those of each part
    std::vector<double> sums = {};  // scratch
    int64_t grain = 1;              // pieces that a thread takes at once
  };
  NormPieces norm_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_STATE_ARENAS_H_
