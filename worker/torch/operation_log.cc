#include "worker/torch/operation_log.h"

#include <array>
#include <string>
#include <utility>

#include "common/status/status_macros.h"
#include "worker/collective/communicator.h"

namespace ringmaster {

void OperationLog::Run(Operation operation) {
  entries_.push_back({std::move(operation), failure_});
  if (!failure_.ok()) return;
  Entry& entry = entries_.back();
  absl::Status failure = RunEntry(entry);
  if (!failure.ok() && group_.IsLoss(failure)) {
    const absl::StatusOr<bool> is_committed = RunAgain(failure);
    failure = is_committed.status();
  }
  if (!failure.ok()) Fail(failure);
}

void OperationLog::Commit() {
  if (failure_.ok() && group_.follows_views()) {
    is_committing_ = true;
    if (const absl::Status agreed = Agree(); !agreed.ok()) Fail(agreed);
    is_committing_ = false;
  }
  ++commits_;
  std::vector<Entry> entries = std::exchange(entries_, {});
  for (const Entry& entry : entries) {
    entry.operation.finish(entry.status.ok() ? failure_ : entry.status);
  }
}

void OperationLog::CatchUp() {
  if (!failure_.ok() || !group_.is_outdated()) return;
  const absl::StatusOr<bool> is_committed =
      RunAgain(absl::AbortedError("a rank is lost"));
  if (!is_committed.ok()) Fail(is_committed.status());
}

absl::Status OperationLog::Agree() {
  while (true) {
    const absl::Status passed = group_.RunCollective(Barrier(), timeout_);
    if (passed.ok() || !group_.IsLoss(passed)) return passed;
    ASSIGN_OR_RETURN(const bool is_committed, RunAgain(passed));
    if (is_committed) return absl::OkStatus();
  }
}

absl::StatusOr<bool> OperationLog::JoinView(absl::Status failure) {
  while (true) {
    RETURN_IF_ERROR(group_.JoinView(failure));
    std::array<int64_t, 1> newest = {commits_};
    CollectiveRequest request = AllReduceSum(BufferView::Of(newest));
    request.reduction = Reduction::kMax;
    failure = group_.RunCollective(request, timeout_);
    if (!failure.ok()) {
      if (group_.IsLoss(failure)) continue;
      return failure;
    }
    if (newest[0] == commits_) return false;
    if (is_committing_ && newest[0] == commits_ + 1) return true;
    return absl::InternalError(
        "other ranks are ahead of this one by more than they can be");
  }
}

absl::StatusOr<bool> OperationLog::RunAgain(absl::Status failure) {
  while (true) {
    ASSIGN_OR_RETURN(const bool is_committed, JoinView(failure));
    if (is_committed) return true;
    // Several may be of one buffer: so back to what it was at first.
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry)
      RETURN_IF_ERROR(entry->operation.restore());
    failure = absl::OkStatus();
    for (Entry& entry : entries_) {
      failure = RunEntry(entry);
      if (!failure.ok()) break;
    }
    if (failure.ok()) return false;
    if (!group_.IsLoss(failure)) return failure;
  }
}

absl::Status OperationLog::RunEntry(Entry& entry) {
  if (group_.follows_views()) {
    entry.status = entry.operation.keep();
    RETURN_IF_ERROR(entry.status);
  }
  entry.status = entry.operation.run();
  return absl::IsDataLoss(entry.status) ? absl::OkStatus() : entry.status;
}

void OperationLog::Fail(const absl::Status& failure) {
  failure_ = failure;
  // The others may have done more of it than this rank: what comes next would
  // not fit.
  group_.Abort(std::string(failure.message()));
}

}  // namespace ringmaster
