#include "worker/torch/operation_log.h"

#include <algorithm>
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
  const bool is_of_gradients = std::ranges::any_of(
      entries,
      [](const Entry& entry) { return entry.operation.is_of_gradients; });
  if (is_of_gradients || !has_gradients_) contributors_ = running_with_;
  has_gradients_ = has_gradients_ || is_of_gradients;
  for (const Entry& entry : entries) {
    entry.operation.finish(entry.status.ok() ? failure_ : entry.status);
  }
}

void OperationLog::CatchUp() {
  if (!failure_.ok() || commits_ == kNotJoined || !group_.is_outdated()) return;
  const absl::StatusOr<bool> is_committed =
      RunAgain(absl::AbortedError("a rank is lost"));
  if (!is_committed.ok()) Fail(is_committed.status());
}

absl::Status OperationLog::Agree() {
  while (true) {
    newest_ = group_.newest();
    const absl::Status passed = group_.RunCollective(Barrier(), timeout_);
    if (passed.ok() || !group_.IsLoss(passed)) return passed;
    ASSIGN_OR_RETURN(const bool is_committed, RunAgain(passed));
    if (is_committed) return absl::OkStatus();
  }
}

absl::Status OperationLog::Meet(absl::Duration timeout) {
  std::array<int64_t, 3> all = {commits_, group_.admitted(), group_.settled()};
  CollectiveRequest request = AllReduceSum(BufferView::Of(all));
  request.reduction = Reduction::kMax;
  RETURN_IF_ERROR(group_.Meet(request, timeout));
  group_.Settle(all[2]);
  RETURN_IF_ERROR(group_.ConnectMembers(all[1]));
  newest_commit_ = all[0];
  return absl::OkStatus();
}

absl::Status OperationLog::Join() {
  absl::Status failure = absl::AbortedError("it has not joined any view");
  while (true) {
    RETURN_IF_ERROR(group_.JoinView(failure));
    failure = Meet(timeout_);
    // They meet once more when they have admitted it.
    if (failure.ok() && group_.is_waiting() && group_.LowestSettled() >= 0)
      failure = Meet(absl::InfiniteDuration());
    if (failure.ok()) break;
    if (!group_.IsLoss(failure)) return failure;
  }
  commits_ = newest_commit_;
  if (group_.LowestSettled() >= 0) return absl::OkStatus();
  failure_ = absl::DataLossError("all ranks that were to take it in are lost");
  return failure_;
}

absl::StatusOr<bool> OperationLog::Admit() {
  RETURN_IF_ERROR(failure_);
  if (newest_ <= group_.admitted()) return false;
  is_committing_ = true;
  absl::Status failure = Agree();
  is_committing_ = false;
  ++commits_;
  // Who has heard it from others, in another view, has met them there.
  if (failure.ok() && group_.admitted() < newest_) {
    group_.Admit();
    failure = Meet(timeout_);
    if (!failure.ok() && group_.IsLoss(failure))
      failure = RunAgain(failure).status();
  }
  if (failure.ok()) return true;
  Fail(failure);
  return failure;
}

absl::StatusOr<bool> OperationLog::JoinView(absl::Status failure) {
  while (true) {
    RETURN_IF_ERROR(group_.JoinView(failure));
    failure = Meet(timeout_);
    if (!failure.ok()) {
      if (group_.IsLoss(failure)) continue;
      return failure;
    }
    if (newest_commit_ == commits_) return false;
    if (is_committing_ && newest_commit_ == commits_ + 1) return true;
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
  running_with_ = group_.members();
  return absl::IsDataLoss(entry.status) ? absl::OkStatus() : entry.status;
}

void OperationLog::Fail(const absl::Status& failure) {
  failure_ = failure;
  // The others may have done more of it than this rank: what comes next would
  // not fit.
  group_.Abort(std::string(failure.message()));
}

}  // namespace ringmaster
