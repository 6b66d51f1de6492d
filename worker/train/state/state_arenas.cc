#include "worker/train/state/state_arenas.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "common/logging/logging.h"
#include "common/optimizer/norm.h"
#include "common/optimizer/optimizer.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "worker/train/state/layer_depths.h"

namespace ringmaster {
namespace {

// Pieces of an update, and of a norm: long enough (about 100 us) for a thread to
// claim one for nothing, short enough for threads to end at about the same
// time.
constexpr int64_t kPieceElems = int64_t{1} << 16;

// Calls cut(piece) for pieces of `range`, in order.
template <typename Cut>
void ForEachPiece(ElemRange range, const Cut& cut) {
  for (int64_t begin = range.begin; begin < range.end(); begin += kPieceElems)
    cut({begin, std::min(kPieceElems, range.end() - begin)});
}

absl::StatusOr<std::unique_ptr<Arena>> MakeArena(ArenaRole role,
                                                 int64_t num_elems,
                                                 Allocator& allocator) {
  ASSIGN_OR_RETURN(Arena arena,
                   Arena::Create(role, DType::kFloat32, num_elems, allocator));
  return std::make_unique<Arena>(std::move(arena));
}

absl::Span<float> ElemsOf(const std::unique_ptr<Arena>& arena) {
  return arena == nullptr ? absl::Span<float>() : arena->Elems<float>();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateArenas>> StateArenas::Create(
    const Options& options) {
  std::unique_ptr<StateArenas> arenas(new StateArenas(options));
  RETURN_IF_ERROR(arenas->Allocate());
  arenas->MakeUpdateStretches();
  arenas->MakeUpdatePieces({{0, options.plan.total_elems()}});
  return arenas;
}

absl::Status StateArenas::Allocate() {
  const int64_t num_elems = options_.plan.total_elems();
  ASSIGN_OR_RETURN(parameters_, MakeArena(ArenaRole::kParameters, num_elems,
                                          options_.allocator));
  if (options_.accelerator != nullptr) {
    const int moments =
        has_servers() ? 0 : MomentsOf(options_.config.optimizer);
    ASSIGN_OR_RETURN(
        device_,
        options_.accelerator->CreateArenas(
            options_.plan, {.moments = moments, .has_servers = has_servers()}));
  }
  if (device_ == nullptr || has_servers()) RETURN_IF_ERROR(AllocateGradients());
  if (!has_servers()) return ReserveMoments();
  ASSIGN_OR_RETURN(next_parameters_, MakeArena(ArenaRole::kParameters,
                                               num_elems, options_.allocator));
  return absl::OkStatus();
}

absl::Status StateArenas::ReserveMoments() {
  const int64_t num_elems = options_.plan.total_elems();
  const int moments = MomentsOf(options_.config.optimizer);
  Allocator& allocator =
      options_.config.is_sharded() ? page_allocator_ : options_.allocator;
  if (moments >= 1 && first_moment_ == nullptr) {
    ASSIGN_OR_RETURN(first_moment_,
                     MakeArena(ArenaRole::kFirstMoment, num_elems, allocator));
  }
  if (moments >= 2 && second_moment_ == nullptr) {
    ASSIGN_OR_RETURN(second_moment_,
                     MakeArena(ArenaRole::kSecondMoment, num_elems, allocator));
  }
  return absl::OkStatus();
}

absl::Status StateArenas::AllocateGradients() {
  const int64_t num_elems = options_.plan.total_elems();
  // A server may be on this host, too. An accelerator copies to memory of its
  // own allocator.
  if (device_ == nullptr && (options_.ranks_on_host > 1 || has_servers())) {
    absl::StatusOr<std::unique_ptr<Arena>> shared =
        MakeArena(ArenaRole::kGradients, num_elems, shared_allocator_);
    if (shared.ok()) {
      gradients_ = *std::move(shared);
      return absl::OkStatus();
    }
    // Works without it, just slower.
    LogEvent(LogLevel::kInfo, "gradients.not_shared",
             {{"message", std::string(shared.status().message())}});
  }
  ASSIGN_OR_RETURN(gradients_, MakeArena(ArenaRole::kGradients, num_elems,
                                         options_.allocator));
  return absl::OkStatus();
}

void StateArenas::MakeUpdateStretches() {
  // Padding belongs to the tensor before it: it is zero, and any update leaves
  // it so.
  const absl::Span<const PlannedTensor> tensors = options_.plan.tensors();
  const std::vector<int> depths = LayerDepths(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const double tracking_rate = tensors[i].spec.tracking_rate;
    const bool decays =
        tracking_rate == 0 &&
        DecaysWeights(options_.config.optimizer, tensors[i].spec.shape.rank());
    // Not std::pow, whose bits may differ from one C library to the next.
    double rate = 1;
    for (int layer = 0; layer < depths[i]; ++layer)
      rate *= options_.config.optimizer.layer_decay;
    const int64_t begin = i == 0 ? 0 : tensors[i].range.begin;
    const int64_t end = i + 1 == tensors.size() ? options_.plan.total_elems()
                                                : tensors[i + 1].range.begin;
    if (!update_stretches_.empty() &&
        update_stretches_.back().decays == decays &&
        update_stretches_.back().rate == rate &&
        update_stretches_.back().tracking_rate == tracking_rate) {
      update_stretches_.back().range.count += end - begin;
    } else {
      update_stretches_.push_back(
          {{begin, end - begin}, decays, rate, tracking_rate});
    }
  }
}

void StateArenas::MakeUpdatePieces(const ElemRanges& ranges) {
  update_pieces_.clear();
  for (const UpdateStretch& stretch : update_stretches_) {
    for (const ElemRange& range : Intersection({stretch.range}, ranges)) {
      ForEachPiece(range, [&](ElemRange piece) {
        update_pieces_.push_back(
            {piece, stretch.decays, stretch.rate, stretch.tracking_rate});
      });
    }
  }
}

void StateArenas::KeepMoments(const ElemRanges& ranges) {
  RM_CHECK(options_.config.is_sharded(), "the moments are whole");
  for (const ElemRange& gone :
       Complement(ranges, options_.plan.total_elems())) {
    for (const Arena* arena : {first_moment_.get(), second_moment_.get()}) {
      if (arena == nullptr) continue;
      const absl::Span<float> elems = arena->Slice<float>(gone);
      PageAllocator::Release(
          elems.data(), static_cast<int64_t>(elems.size() * sizeof(float)));
    }
  }
  MakeUpdatePieces(ranges);
}

void StateArenas::ClearMoments() {
  for (const absl::Span<float> moment :
       {ElemsOf(first_moment_), ElemsOf(second_moment_)}) {
    if (options_.config.is_sharded()) {
      PageAllocator::Clear(moment.data(),
                           static_cast<int64_t>(moment.size() * sizeof(float)));
    } else {
      std::fill(moment.begin(), moment.end(), 0.0f);
    }
  }
}

ArenaSpans<float> StateArenas::host() {
  return {ElemsOf(parameters_), ElemsOf(first_moment_),
          ElemsOf(second_moment_)};
}

absl::Span<const float> StateArenas::first_moment() const {
  return ElemsOf(first_moment_);
}

absl::Span<const float> StateArenas::second_moment() const {
  return ElemsOf(second_moment_);
}

void StateArenas::MarkHostNewest() {
  if (device_ == nullptr) return;
  if (server_copies() != nullptr) server_copies()->AwaitParameters();
  newest_ = Newest::kHost;
}

absl::Status StateArenas::FetchToHost() {
  if (newest_ != Newest::kDevice) return absl::OkStatus();
  RETURN_IF_ERROR(device_->CopyToHost(host()));
  newest_ = Newest::kBoth;
  return absl::OkStatus();
}

absl::Status StateArenas::FetchParameters() {
  if (newest_ != Newest::kDevice) return absl::OkStatus();
  return device_->CopyToHost({.parameters = ElemsOf(parameters_),
                              .first_moment = {},
                              .second_moment = {}});
}

absl::Status StateArenas::SendToDevice() {
  // No pass overwrites what an aborted collective left between the tensors.
  if (device_ != nullptr) device_->ClearGradients();
  if (newest_ != Newest::kHost) return absl::OkStatus();
  // Servers have the moments; those here are for checkpoints.
  ArenaSpans<const float> arenas = {ElemsOf(parameters_), {}, {}};
  if (!has_servers()) {
    arenas.first_moment = first_moment();
    arenas.second_moment = second_moment();
  }
  RETURN_IF_ERROR(device_->CopyFromHost(arenas));
  newest_ = Newest::kBoth;
  return absl::OkStatus();
}

StateArenas::DeviceViews StateArenas::device_views() const {
  const auto view_of = [](absl::Span<float> elems) {
    BufferView view =
        BufferView::Of(std::span<float>(elems.data(), elems.size()));
    view.memory = MemoryKind::kCuda;
    return view;
  };
  DeviceViews views;
  const ArenaSpans<float> state = device_->state();
  for (const absl::Span<float> arena :
       {state.parameters, state.first_moment, state.second_moment}) {
    if (!arena.empty()) views.state.push_back(view_of(arena));
  }
  views.scratch = view_of(device_->gradients());
  return views;
}

absl::Span<float> StateArenas::next_parameters() {
  return ElemsOf(next_parameters_);
}

absl::Status StateArenas::TakeNext() {
  if (device_ != nullptr) RETURN_IF_ERROR(server_copies()->TakeParameters());
  std::swap(parameters_, next_parameters_);
  return absl::OkStatus();
}

BufferView StateArenas::GradientsOf(ElemRange range) const {
  BufferView view;
  view.count = range.count;
  view.memory = device_ == nullptr ? MemoryKind::kHost : MemoryKind::kCuda;
  view.ptr =
      (device_ == nullptr ? gradients_->Elems<float>() : device_->gradients())
          .subspan(static_cast<size_t>(range.begin),
                   static_cast<size_t>(range.count))
          .data();
  return view;
}

const SharedSegment* StateArenas::shared_gradients() const {
  if (gradients_ == nullptr) return nullptr;
  return shared_allocator_.SegmentOf(gradients_->data());
}

absl::Status StateArenas::Bind(Model<float>& model) const {
  if (device_ != nullptr) {
    return model.Bind(options_.plan, device_->parameters(),
                      device_->gradients());
  }
  return model.Bind(options_.plan, parameters_->Elems<float>(),
                    gradients_->Elems<float>());
}

void StateArenas::MakeNormPieces(absl::Span<const MomentPart> parts) {
  norm_ = {.parts = {parts.begin(), parts.end()}};
  int64_t count = 0;
  for (const MomentPart& part : parts) {
    for (const ElemRange& range : RangesOf({part}, options_.plan)) {
      count += range.count;
      ForEachPiece(range,
                   [&](ElemRange piece) { norm_.pieces.push_back(piece); });
    }
    norm_.ends.push_back(norm_.pieces.size());
  }
  norm_.sums.resize(norm_.pieces.size());
  const auto pieces = static_cast<int64_t>(norm_.pieces.size());
  norm_.grain =
      std::max<int64_t>(1, pieces * kPieceElems / std::max<int64_t>(1, count));
}

absl::StatusOr<std::vector<double>> StateArenas::GradientNormsSquared(
    absl::Span<const MomentPart> parts) {
  const int64_t statistics = options_.plan.statistic_elems();
  if (device_ != nullptr) {
    ASSIGN_OR_RETURN(const double norm_squared,
                     device_->GradientNormSquared(statistics));
    return std::vector<double>{norm_squared};
  }
  if (!std::ranges::equal(norm_.parts, parts)) MakeNormPieces(parts);
  options_.pool.ParallelFor(
      static_cast<int64_t>(norm_.pieces.size()), norm_.grain,
      [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end);
             ++i) {
          const ElemRange piece = norm_.pieces[i];
          norm_.sums[i] = SumOfGradientSquares(
              absl::Span<const float>(gradients_->Slice<float>(piece)),
              std::clamp<int64_t>(statistics - piece.begin, 0, piece.count));
        }
      });
  std::vector<double> norms;
  auto begin = norm_.sums.begin();
  for (const size_t end : norm_.ends) {
    const auto next = norm_.sums.begin() + static_cast<int64_t>(end);
    norms.push_back(std::accumulate(begin, next, 0.0));
    begin = next;
  }
  return norms;
}

absl::Status StateArenas::Apply(const Update& update) {
  const OptimizerConfig& optimizer = options_.config.optimizer;
  if (device_ != nullptr) {
    RM_CHECK(newest_ != Newest::kHost, "an update is of what was sent");
    RETURN_IF_ERROR(device_->Apply(optimizer, update, update_stretches_));
    newest_ = Newest::kDevice;
    return absl::OkStatus();
  }
  const auto apply = [&](const UpdateStretch& piece) {
    const auto slice = [&piece](const std::unique_ptr<Arena>& arena) {
      return arena == nullptr ? absl::Span<float>()
                              : arena->Slice<float>(piece.range);
    };
    Update of_piece = update;
    of_piece.decays = piece.decays;
    of_piece.learning_rate *= piece.rate;
    of_piece.tracking_rate = piece.tracking_rate;
    ApplyOptimizer<float>(optimizer, of_piece,
                          {slice(parameters_), slice(gradients_),
                           slice(first_moment_), slice(second_moment_)});
  };
  options_.pool.ParallelFor(static_cast<int64_t>(update_pieces_.size()), 1,
                            [&](int64_t begin, int64_t end) {
                              for (int64_t i = begin; i < end; ++i)
                                apply(update_pieces_[static_cast<size_t>(i)]);
                            });
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> StateArenas::TakeUpdateTime() {
  return device_ == nullptr ? absl::ZeroDuration() : device_->TakeUpdateTime();
}

}  // namespace ringmaster
