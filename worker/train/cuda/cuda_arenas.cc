#include "worker/train/cuda/cuda_arenas.h"

#include <utility>

#include "common/optimizer/optimizer.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "worker/train/cuda/optimizer.h"
#include "worker/train/cuda/sum_of_squares.h"

namespace ringmaster {
namespace {

// Of the gradients' squares: those of parameters, and of running statistics.
constexpr int64_t kSums = 2;

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

int64_t BytesOf(size_t elems) {
  return static_cast<int64_t>(elems) * kFloatBytes;
}

// A moment that is not there is nowhere to copy, on either side.
absl::Span<float> ElemsOf(const std::optional<Arena>& arena) {
  return arena.has_value() ? arena->Elems<float>() : absl::Span<float>();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaArenas>> CudaArenas::Create(
    CudaDevice& device, CudaStream& stream, const Plan& plan,
    const Accelerator::ArenaOptions& options,
    std::function<void()> before_free) {
  RETURN_IF_ERROR(device.MakeCurrent());
  std::unique_ptr<CudaArenas> arenas(
      new CudaArenas(device, stream, std::move(before_free)));
  RETURN_IF_ERROR(arenas->Allocate(plan.total_elems(), options.moments));
  if (options.has_servers) {
    ASSIGN_OR_RETURN(
        arenas->server_copies_,
        CudaServerCopies::Create(device, stream, plan, *arenas->gradients_,
                                 *arenas->parameters_));
  }
  return arenas;
}

absl::Status CudaArenas::Allocate(int64_t num_elems, int moments) {
  Allocator& memory = device_.allocator();
  const auto make = [&](ArenaRole role) {
    return Arena::Create(role, DType::kFloat32, num_elems, memory);
  };
  ASSIGN_OR_RETURN(parameters_, make(ArenaRole::kParameters));
  ASSIGN_OR_RETURN(gradients_, make(ArenaRole::kGradients));
  if (moments >= 1) {
    ASSIGN_OR_RETURN(first_moment_, make(ArenaRole::kFirstMoment));
  }
  if (moments >= 2) {
    ASSIGN_OR_RETURN(second_moment_, make(ArenaRole::kSecondMoment));
  }
  ASSIGN_OR_RETURN(
      norm_scratch_,
      memory.Allocate(static_cast<int64_t>(sizeof(double)) *
                      (kSums + cuda::SumOfSquaresScratchElems(num_elems))));
  ASSIGN_OR_RETURN(host_norm_,
                   device_.pinned_allocator().Allocate(kSums * sizeof(double)));
  ASSIGN_OR_RETURN(update_begins_, CudaEvent::Create(CudaEvent::Timing::kOn));
  ASSIGN_OR_RETURN(update_ends_, CudaEvent::Create(CudaEvent::Timing::kOn));
  return absl::OkStatus();
}

ArenaSpans<float> CudaArenas::state() {
  return {parameters_->Elems<float>(), ElemsOf(first_moment_),
          ElemsOf(second_moment_)};
}

void CudaArenas::ClearGradients() {
  stream_.FillZero(gradients_->data(), gradients_->size_bytes());
}

absl::Status CudaArenas::CopyFromHost(const ArenaSpans<const float>& host) {
  const std::pair<absl::Span<float>, absl::Span<const float>> copies[] = {
      {parameters_->Elems<float>(), host.parameters},
      {ElemsOf(first_moment_), host.first_moment},
      {ElemsOf(second_moment_), host.second_moment}};
  for (const auto& [to, from] : copies) {
    RM_CHECK(to.size() == from.size(), "both sides have the same arenas");
    stream_.CopyToDevice(to.data(), from.data(), BytesOf(from.size()));
  }
  return stream_.Synchronize();
}

absl::Status CudaArenas::CopyToHost(const ArenaSpans<float>& host) {
  const std::pair<absl::Span<float>, absl::Span<const float>> copies[] = {
      {host.parameters, parameters_->Elems<float>()},
      {host.first_moment, ElemsOf(first_moment_)},
      {host.second_moment, ElemsOf(second_moment_)}};
  for (const auto& [to, from] : copies) {
    RM_CHECK(to.empty() || to.size() == from.size(),
             "both sides have the same arenas");
    stream_.CopyToHost(to.data(), from.data(), BytesOf(to.size()));
  }
  return stream_.Synchronize();
}

absl::StatusOr<double> CudaArenas::GradientNormSquared(int64_t statistics) {
  auto* const sums = static_cast<double*>(norm_scratch_.data());
  auto* const host_sums = static_cast<double*>(host_norm_.data());
  const absl::Span<const float> gradients = gradients_->Elems<float>();
  const auto all = static_cast<int64_t>(gradients.size());
  cuda::SumOfSquares(stream_, all - statistics, gradients.data() + statistics,
                     /*scratch=*/sums + kSums, &sums[0]);
  cuda::SumOfSquares(stream_, statistics, gradients.data(),
                     /*scratch=*/sums + kSums, &sums[1]);
  stream_.CopyToHost(host_sums, sums, kSums * sizeof(double));
  RETURN_IF_ERROR(stream_.Synchronize());
  return statistics == 0 ? host_sums[0] : host_sums[0] + 0 * host_sums[1];
}

absl::Status CudaArenas::Apply(const OptimizerConfig& config,
                               const Update& update,
                               std::span<const UpdateStretch> stretches) {
  stream_.Record(*update_begins_);
  for (const UpdateStretch& stretch : stretches) {
    const auto slice = [&stretch](const std::optional<Arena>& arena) {
      return arena.has_value() ? arena->Slice<float>(stretch.range)
                               : absl::Span<float>();
    };
    Update own = update;
    own.decays = stretch.decays;
    own.learning_rate *= stretch.rate;
    own.tracking_rate = stretch.tracking_rate;
    cuda::ApplyOptimizer(stream_, config, own,
                         {slice(parameters_), slice(gradients_),
                          slice(first_moment_), slice(second_moment_)});
  }
  stream_.Record(*update_ends_);
  is_update_told_ = false;
  return stream_.status();
}

absl::StatusOr<absl::Duration> CudaArenas::TakeUpdateTime() {
  if (is_update_told_) return absl::ZeroDuration();
  ASSIGN_OR_RETURN(const bool is_done, update_ends_->IsDone());
  if (!is_done) return absl::ZeroDuration();
  is_update_told_ = true;
  return CudaEvent::Between(*update_begins_, *update_ends_);
}

}  // namespace ringmaster
