#include "tests/gpu/overlap/simulated_link.h"

#include <algorithm>
#include <utility>

#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

// One copy; large enough for the way to the host to be at its best.
constexpr int64_t kPieceBytes = int64_t{4} << 20;
constexpr int kMeasuredPieces = 32;

absl::Status Create(CudaEvent::Timing timing,
                    std::unique_ptr<CudaEvent>& event) {
  ASSIGN_OR_RETURN(event, CudaEvent::Create(timing));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SimulatedLink>> SimulatedLink::Create(
    CudaDevice& device, const Options& options) {
  std::unique_ptr<SimulatedLink> link(new SimulatedLink(options));
  RETURN_IF_ERROR(link->Open(device));
  return link;
}

absl::Status SimulatedLink::Open(CudaDevice& device) {
  ASSIGN_OR_RETURN(source_, device.allocator().Allocate(kPieceBytes));
  ASSIGN_OR_RETURN(target_, device.pinned_allocator().Allocate(kPieceBytes));
  // As NCCL's.
  ASSIGN_OR_RETURN(link_,
                   CudaStream::Create("link", CudaStream::Priority::kHigh));
  ASSIGN_OR_RETURN(marks_,
                   CudaStream::Create("marks", CudaStream::Priority::kHigh));
  RETURN_IF_ERROR(ringmaster::Create(CudaEvent::Timing::kOn, last_ready_));
  return MeasureCopies();
}

// Copies that are queued use the memory.
SimulatedLink::~SimulatedLink() {
  if (link_ != nullptr) static_cast<void>(link_->Synchronize());
}

absl::Status SimulatedLink::MeasureCopies() {
  ASSIGN_OR_RETURN(Transfer* const measured, NextTransfer());
  Copy(kPieceBytes);  // warms up
  link_->Record(*measured->begin);
  Copy(kMeasuredPieces * kPieceBytes);
  link_->Record(*measured->end);
  RETURN_IF_ERROR(link_->Synchronize());
  ASSIGN_OR_RETURN(const absl::Duration took,
                   CudaEvent::Between(*measured->begin, *measured->end));
  copied_per_second_ = static_cast<double>(kMeasuredPieces * kPieceBytes) /
                       std::max(absl::ToDoubleSeconds(took), 1e-9);
  started_ = 0;
  return absl::OkStatus();
}

absl::Duration SimulatedLink::TransferTime(int64_t bytes) const {
  const double sent =
      static_cast<double>(bytes) * 2 * (options_.ranks - 1) / options_.ranks;
  return absl::Seconds(sent / options_.bytes_per_second);
}

void SimulatedLink::Copy(int64_t bytes) {
  for (int64_t left = bytes; left > 0; left -= kPieceBytes) {
    link_->CopyToHost(target_.data(), source_.data(),
                      std::min(left, kPieceBytes));
  }
}

void SimulatedLink::Queue(const Transfer& transfer) {
  link_->Record(*transfer.begin);
  Copy(
      static_cast<int64_t>(absl::ToDoubleSeconds(TransferTime(transfer.bytes)) *
                           copied_per_second_));
  link_->Record(*transfer.end);
}

absl::StatusOr<SimulatedLink::Transfer*> SimulatedLink::NextTransfer() {
  if (started_ == transfers_.size()) {
    Transfer made;
    RETURN_IF_ERROR(ringmaster::Create(CudaEvent::Timing::kOn, made.begin));
    RETURN_IF_ERROR(ringmaster::Create(CudaEvent::Timing::kOn, made.end));
    transfers_.push_back(std::move(made));
  }
  return &transfers_[started_++];
}

absl::Status SimulatedLink::Start(int64_t bytes, const WaitUntilReady& ready) {
  if (mode_ == Mode::kOff) return absl::OkStatus();
  RETURN_IF_ERROR(ready(*marks_));
  marks_->Record(*last_ready_);
  ASSIGN_OR_RETURN(Transfer* const transfer, NextTransfer());
  transfer->bytes = bytes;
  if (mode_ == Mode::kOverlapped) {
    RETURN_IF_ERROR(ready(*link_));
    Queue(*transfer);
  }
  return link_->status().ok() ? marks_->status() : link_->status();
}

absl::Status SimulatedLink::Await() {
  if (started_ == 0) return absl::OkStatus();
  if (mode_ == Mode::kAfter) {
    link_->WaitFor(*last_ready_);
    for (size_t i = 0; i < started_; ++i) Queue(transfers_[i]);
  }
  RETURN_IF_ERROR(link_->Synchronize());
  ASSIGN_OR_RETURN(const Step step, Measured());
  steps_.push_back(step);
  started_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<SimulatedLink::Step> SimulatedLink::Measured() const {
  Step step;
  for (size_t i = 0; i < started_; ++i) {
    ASSIGN_OR_RETURN(
        const absl::Duration took,
        CudaEvent::Between(*transfers_[i].begin, *transfers_[i].end));
    step.busy += took;
  }
  // Its stream was not waited for, so its event may come a little late.
  RETURN_IF_ERROR(last_ready_->Wait());
  ASSIGN_OR_RETURN(
      const absl::Duration exposed,
      CudaEvent::Between(*last_ready_, *transfers_[started_ - 1].end));
  step.exposed = std::max(exposed, absl::ZeroDuration());
  return step;
}

std::vector<SimulatedLink::Step> SimulatedLink::TakeSteps() {
  return std::exchange(steps_, {});
}

}  // namespace ringmaster
