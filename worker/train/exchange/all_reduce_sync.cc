#include "worker/train/exchange/all_reduce_sync.h"

#include <cmath>
#include <span>

#include "common/fail_point/fail_point.h"
#include "common/status/status_macros.h"
#include "worker/figures/step_record.h"
#include "worker/train/exchange/non_finite_ranks.h"

namespace ringmaster {
namespace {

// Returns the ranks whose loss was not finite.
std::vector<int> RanksWithoutALoss(std::span<const CommitRecord> records) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    if (!std::isfinite(records[rank].loss_sum))
      ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace

AllReduceSync::AllReduceSync(int64_t generation, absl::Duration wait_timeout,
                             TrainingState& state, Communicator& communicator,
                             Clock& clock, Trace& trace)
    : generation_(generation),
      wait_timeout_(wait_timeout),
      state_(state),
      communicator_(communicator),
      clock_(clock),
      trace_(trace) {
  tickets_.reserve(state.plan().buckets().size());
}

void AllReduceSync::BucketReady(int bucket) {
  if (!start_error_.ok()) return;
  start_error_ = FAIL_POINT("train.bucket_ready");
  if (!start_error_.ok()) return;
  CollectiveRequest request = AllReduceSum(state_.GradientsOf(
      state_.plan().buckets()[static_cast<size_t>(bucket)].range));
  request.wire = state_.config().collective.wire;
  request.trace_label = bucket;
  request.trace_step = state_.applied_step() + 1;
  absl::StatusOr<Ticket> ticket = communicator_.Start(request);
  if (ticket.ok()) {
    if (tickets_.empty()) first_sequence_ = ticket->sequence;
    tickets_.push_back(*ticket);
  } else {
    start_error_ = ticket.status();
  }
}

absl::StatusOr<CommittedStep> AllReduceSync::Commit(const LocalStep& local) {
  const MonotonicTime begin = clock_.Now();
  RETURN_IF_ERROR(AwaitBuckets());
  const MonotonicTime reduced = clock_.Now();
  RETURN_IF_ERROR(FAIL_POINT("train.reduced"));
  // Before the record goes out: a rank that has applied the step relies on
  // every sender of a record to report it as complete (docs/decisions/0008).
  RETURN_IF_ERROR(state_.MarkComplete(local.step));
  if (local.compare_parameters) RETURN_IF_ERROR(state_.FetchParameters());

  const CommitRecord record =
      MakeCommitRecord(generation_, local, state_.complete_norm_squared(),
                       local.compare_parameters ? state_.ParametersHash() : 0,
                       payload_sent_bytes());
  const MonotonicTime ready = clock_.Now();
  RETURN_IF_ERROR(FAIL_POINT("train.commit_send"));
  ASSIGN_OR_RETURN(const std::vector<CommitRecord> records,
                   ExchangeCommit(communicator_, record,
                                  clock_.Now() + wait_timeout_, record_words_));
  RETURN_IF_ERROR(FAIL_POINT("train.commit_received"));
  const MonotonicTime agreed = clock_.Now();
  trace_.Record({"commit", "compute", local.step, -1, 0, begin, begin, agreed});

  CommittedStep committed;
  committed.commit = agreed - ready;
  committed.communication_wait = (reduced - begin) + committed.commit;
  ASSIGN_OR_RETURN(
      committed.summary,
      CombineCommits(records, {generation_, local.step,
                               state_.config().program.global_batch(),
                               local.global_sample_hash, state_.targets()}));
  committed.learning_rate = state_.learning_rate();
  RETURN_IF_ERROR(FAIL_POINT("train.before_apply"));
  RETURN_IF_ERROR(state_.ApplyComplete());
  RETURN_IF_ERROR(FAIL_POINT("train.after_apply"));
  if (!committed.summary.is_finite && state_.accelerator() != nullptr) {
    // NCCL does not check contributions, but the ranks' losses usually show the
    // origin.
    committed.non_finite_ranks = RanksWithoutALoss(records);
    committed.is_origin_known = !committed.non_finite_ranks.empty();
  } else if (!committed.summary.is_finite) {
    // All ranks know that it is not, so all take part.
    ASSIGN_OR_RETURN(committed.non_finite_ranks,
                     FindNonFiniteRanks(communicator_, first_sequence_,
                                        clock_.Now() + wait_timeout_));
  }
  const MonotonicTime updated = clock_.Now();
  committed.update = (ready - reduced) + (updated - agreed);
  trace_.Record(
      {"optimizer", "compute", local.step, -1, 0, agreed, agreed, updated});
  return committed;
}

absl::Status AllReduceSync::AwaitBuckets() {
  RETURN_IF_ERROR(start_error_);
  for (const Ticket ticket : tickets_) {
    RETURN_IF_ERROR(communicator_.Wait(ticket, clock_.Now() + wait_timeout_));
  }
  tickets_.clear();
  return absl::OkStatus();
}

int64_t AllReduceSync::payload_sent_bytes() const {
  return communicator_.counters().payload_sent_bytes;
}

int64_t AllReduceSync::theory_bytes_per_step() const {
  return AllReduceWireBytes(
      state_.plan().total_elems() * static_cast<int64_t>(sizeof(float)),
      communicator_.world_size());
}

absl::Duration AllReduceSync::AllReduceTime() const {
  return communicator_.AllReduceTime();
}

absl::Duration AllReduceSync::WaitedFor(int rank) const {
  return communicator_.WaitedFor(rank);
}

int AllReduceSync::peer_ranks() const { return communicator_.world_size(); }

}  // namespace ringmaster
