#include "worker/train/cuda/cuda_server_copies.h"

#include <utility>

#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

int64_t BytesOf(size_t elems) {
  return static_cast<int64_t>(elems * sizeof(float));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaServerCopies>> CudaServerCopies::Create(
    CudaDevice& device, CudaStream& compute, const Plan& plan,
    const Arena& gradients, Arena& parameters) {
  std::unique_ptr<CudaServerCopies> copies(
      new CudaServerCopies(device, compute, plan, gradients, parameters));
  RETURN_IF_ERROR(copies->Open());
  return copies;
}

absl::Status CudaServerCopies::Open() {
  ASSIGN_OR_RETURN(Arena next,
                   Arena::Create(ArenaRole::kParameters, DType::kFloat32,
                                 plan_.total_elems(), device_.allocator()));
  next_parameters_ = std::make_unique<Arena>(std::move(next));
  ASSIGN_OR_RETURN(
      out_, CudaStream::Create("gradients", CudaStream::Priority::kHigh));
  ASSIGN_OR_RETURN(
      in_, CudaStream::Create("parameters", CudaStream::Priority::kHigh));
  ASSIGN_OR_RETURN(are_in_, CudaEvent::Create());
  marks_.resize(plan_.buckets().size());
  for (Marks& marks : marks_) {
    ASSIGN_OR_RETURN(marks.is_final, CudaEvent::Create());
    ASSIGN_OR_RETURN(marks.is_on_host, CudaEvent::Create());
  }
  return absl::OkStatus();
}

// The copies that a broken generation left queued end by themselves. Callers
// that look for errors did so before.
CudaServerCopies::~CudaServerCopies() {
  for (CudaStream* const stream : {out_.get(), in_.get()}) {
    if (stream != nullptr) static_cast<void>(stream->Synchronize());
  }
}

absl::Status CudaServerCopies::StartGradients(int bucket,
                                              absl::Span<float> host) {
  const Marks& marks = marks_[static_cast<size_t>(bucket)];
  out_->WaitFor(compute_.MarkReady(*marks.is_final));
  RETURN_IF_ERROR(compute_.status());
  out_->CopyToHost(host.data(), gradients_.Slice<float>(RangeOf(bucket)).data(),
                   BytesOf(host.size()));
  out_->Record(*marks.is_on_host);
  return out_->status();
}

absl::StatusOr<bool> CudaServerCopies::HasGradients(int bucket) {
  RETURN_IF_ERROR(device_.MakeCurrent());  // for a thread that is new
  return marks_[static_cast<size_t>(bucket)].is_on_host->IsDone();
}

void CudaServerCopies::StartParameters(int bucket,
                                       absl::Span<const float> host) {
  in_->Note(device_.MakeCurrent());  // likewise
  in_->CopyToDevice(next_parameters_->Slice<float>(RangeOf(bucket)).data(),
                    host.data(), BytesOf(host.size()));
}

absl::Status CudaServerCopies::TakeParameters() {
  in_->Record(*are_in_);
  RETURN_IF_ERROR(in_->status());
  compute_.WaitFor(*are_in_);
  compute_.CopyOnDevice(parameters_.data(), next_parameters_->data(),
                        parameters_.size_bytes());
  return compute_.status();
}

void CudaServerCopies::AwaitParameters() {
  static_cast<void>(in_->Synchronize());  // which remembers its error
}

}  // namespace ringmaster
