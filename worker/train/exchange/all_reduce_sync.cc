#include "worker/train/exchange/all_reduce_sync.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/fail_point/fail_point.h"
#include "common/status/check.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "worker/collective/gather_words.h"
#include "worker/figures/step_record.h"
#include "worker/train/exchange/non_finite_ranks.h"
#include "worker/train/state/move_elements.h"

namespace ringmaster {
namespace {

// Enough to keep a communicator busy, and less than it takes: the buckets of a
// large model are more.
constexpr size_t kMostQueued = 1024;

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
  const BufferView gradients = state_.GradientsOf(
      state_.plan().buckets()[static_cast<size_t>(bucket)].range);
  CollectiveRequest request =
      state_.is_sharded()
          ? MirroredReduceScatterSum(gradients, state_.config().mirrors())
          : AllReduceSum(gradients);
  request.wire = state_.config().collective.wire;
  request.trace_label = bucket;
  request.trace_step = state_.applied_step() + 1;
  start_error_ = Start(request, tickets_);
  if (start_error_.ok() && tickets_.size() == 1)
    first_sequence_ = tickets_.front().sequence;
}

absl::Status AllReduceSync::Start(const CollectiveRequest& request,
                                  std::vector<Ticket>& started) {
  if (started.size() >= kMostQueued) {
    RETURN_IF_ERROR(
        communicator_.Wait(started[started.size() - kMostQueued], Deadline()));
  }
  ASSIGN_OR_RETURN(const Ticket ticket, communicator_.Start(request));
  started.push_back(ticket);
  return absl::OkStatus();
}

absl::StatusOr<CommittedStep> AllReduceSync::Commit(const LocalStep& local) {
  const MonotonicTime begin = clock_.Now();
  RETURN_IF_ERROR(AwaitBuckets());
  const MonotonicTime reduced = clock_.Now();
  RETURN_IF_ERROR(FAIL_POINT("train.reduced"));
  // Before the record goes out: a rank that has applied the step relies on
  // every sender of a record to report it as complete (docs/decisions/0008).
  RETURN_IF_ERROR(state_.MarkComplete(local.step, communicator_.world_size()));
  if (local.compare_parameters) RETURN_IF_ERROR(state_.FetchParameters());

  const CommitRecord record =
      MakeCommitRecord(generation_, local,
                       state_.is_sharded() ? state_.part_norms_squared().front()
                                           : state_.complete_norm_squared(),
                       local.compare_parameters ? state_.ParametersHash() : 0,
                       payload_sent_bytes());
  const MonotonicTime ready = clock_.Now();
  RETURN_IF_ERROR(FAIL_POINT("train.commit_send"));
  ASSIGN_OR_RETURN(
      const std::vector<CommitRecord> records,
      ExchangeCommit(communicator_, record, Deadline(), record_words_));
  RETURN_IF_ERROR(FAIL_POINT("train.commit_received"));
  const MonotonicTime agreed = clock_.Now();
  trace_.Record({"commit", "compute", local.step, -1, 0, begin, begin, agreed});

  CommittedStep committed;
  committed.commit = agreed - ready;
  committed.communication_wait = (reduced - begin) + committed.commit;
  ASSIGN_OR_RETURN(committed.summary, CombineCommits(records, Expected(local)));
  committed.learning_rate = state_.learning_rate();
  RETURN_IF_ERROR(FAIL_POINT("train.before_apply"));
  if (state_.is_sharded())
    RETURN_IF_ERROR(UpdateParts(records, committed.summary));
  RETURN_IF_ERROR(state_.ApplyComplete());
  RETURN_IF_ERROR(FAIL_POINT("train.after_apply"));
  if (!committed.summary.is_finite && state_.accelerator() != nullptr) {
    // NCCL does not check contributions, but the ranks' losses usually show the
    // origin.
    committed.non_finite_ranks = RanksWithoutALoss(records);
    committed.is_origin_known = !committed.non_finite_ranks.empty();
  } else if (!committed.summary.is_finite) {
    // All ranks know that it is not, so all take part.
    ASSIGN_OR_RETURN(
        committed.non_finite_ranks,
        FindNonFiniteRanks(communicator_, first_sequence_, Deadline()));
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
    RETURN_IF_ERROR(communicator_.Wait(ticket, Deadline()));
  }
  tickets_.clear();
  return absl::OkStatus();
}

CommitExpectation AllReduceSync::Expected(const LocalStep& local) const {
  return {.generation = generation_,
          .step = local.step,
          .global_batch = state_.config().program.global_batch(),
          .sample_hash = local.global_sample_hash,
          .targets_per_sample = state_.targets(),
          .are_norms_of_parts = state_.is_sharded()};
}

// Everybody has the reduced gradient of its parts: so from here on a part's
// update is lost only with its owner and all mirrors (docs/decisions/0066).
absl::Status AllReduceSync::UpdateParts(std::span<const CommitRecord> records,
                                        const CommitSummary& summary) {
  RETURN_IF_ERROR(CheckMirrored(records));
  state_.SetCompleteNorm(summary.norm_squared);
  RETURN_IF_ERROR(state_.UpdateHeld());
  RETURN_IF_ERROR(FAIL_POINT("train.parts_updated"));
  if (summary.is_finite) RETURN_IF_ERROR(GatherParameters());
  return FAIL_POINT("train.parameters_gathered");
}

absl::Status AllReduceSync::CheckMirrored(
    std::span<const CommitRecord> records) const {
  for (size_t i = 1; i < state_.held_parts().size(); ++i) {
    const auto owner = static_cast<size_t>(state_.held_parts()[i].index);
    const double own = state_.part_norms_squared()[i];
    // By bits: a NaN equals itself.
    if (std::bit_cast<uint64_t>(records[owner].norm_squared) ==
        std::bit_cast<uint64_t>(own)) {
      continue;
    }
    return WithExitCode(
        absl::FailedPreconditionError(absl::StrFormat(
            "at step %d, ranks %d and %d hold different reduced gradients of "
            "part %d: norms %.17g and %.17g",
            state_.complete_step(), owner, communicator_.rank(), owner,
            std::sqrt(records[owner].norm_squared), std::sqrt(own))),
        ExitCode::kPlanMismatch);
  }
  return absl::OkStatus();
}

absl::Status AllReduceSync::GatherParameters() {
  std::vector<Ticket> gathers;
  const absl::Span<float> parameters = state_.MutableParameters();
  for (size_t i = 0; i < state_.plan().buckets().size(); ++i) {
    const ElemRange range = state_.plan().buckets()[i].range;
    CollectiveRequest request = AllGather(BufferView::Of(std::span<float>(
        parameters.data() + range.begin, static_cast<size_t>(range.count))));
    request.trace_label = static_cast<int64_t>(i);
    request.trace_step = state_.complete_step();
    RETURN_IF_ERROR(Start(request, gathers));
  }
  for (const Ticket gather : gathers)
    RETURN_IF_ERROR(communicator_.Wait(gather, Deadline()));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> AllReduceSync::RanksThat(bool own) {
  const std::array<int64_t, 1> flag = {own ? 1 : 0};
  ASSIGN_OR_RETURN(const std::vector<int64_t> flags,
                   GatherWords(flag, communicator_, Deadline()));
  std::vector<int> ranks;
  for (size_t rank = 0; rank < flags.size(); ++rank) {
    if (flags[rank] != 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

absl::Status AllReduceSync::SendMoments(std::vector<ElemRanges> wanted) {
  std::vector<Possession> ranks;
  for (ElemRanges& ranges : wanted) {
    ranks.push_back(
        {.held = RangesOf(state_.PartsOfRank(static_cast<int>(ranks.size())),
                          state_.plan()),
         .wanted = std::move(ranges)});
  }
  const int64_t total = state_.plan().total_elems();
  const auto transfers = PlanTransfers(ranks, total);
  RM_CHECK(transfers.has_value(), "all ranks together have all moments");
  const Possession& own = ranks[static_cast<size_t>(communicator_.rank())];
  const ElemRanges lacked =
      Intersection(own.wanted, Complement(own.held, total));
  const ArenaSpans<float> arenas = state_.MutableMoments();
  for (const absl::Span<float> moment :
       {arenas.first_moment, arenas.second_moment}) {
    if (moment.empty()) continue;
    RETURN_IF_ERROR(MoveElements(*transfers, moment, lacked,
                                 {.wait_timeout = wait_timeout_}, communicator_,
                                 clock_));
  }
  return absl::OkStatus();
}

absl::Status AllReduceSync::FetchMoments(bool is_wanted) {
  if (!state_.is_sharded()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int> writers, RanksThat(is_wanted));
  if (writers.empty()) return absl::OkStatus();
  std::vector<ElemRanges> wanted(
      static_cast<size_t>(communicator_.world_size()));
  for (const int writer : writers)
    wanted[static_cast<size_t>(writer)] = {{0, state_.plan().total_elems()}};
  return SendMoments(std::move(wanted));
}

// A part whose owner and mirrors all leave goes to the next rank that stays.
absl::Status AllReduceSync::Leave(DoneKind how, bool is_leaver) {
  if (!state_.is_sharded() || how == DoneKind::kFinished)
    return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int> leavers, RanksThat(is_leaver));
  const int n = communicator_.world_size();
  if (leavers.empty() || static_cast<int>(leavers.size()) == n)
    return absl::OkStatus();
  std::vector<std::vector<MomentPart>> taken = PartsOfLeavers(leavers, n);
  std::vector<ElemRanges> wanted;
  for (const std::vector<MomentPart>& parts : taken)
    wanted.push_back(RangesOf(parts, state_.plan()));
  RETURN_IF_ERROR(SendMoments(std::move(wanted)));
  state_.AddParts(taken[static_cast<size_t>(communicator_.rank())]);
  // A leaver that closed its connections would interrupt those that still
  // receive.
  return communicator_.Run(Barrier(), Deadline());
}

std::vector<std::vector<MomentPart>> AllReduceSync::PartsOfLeavers(
    const std::vector<int>& leavers, int n) const {
  const auto leaves = [&leavers](int rank) {
    return std::ranges::binary_search(leavers, rank);
  };
  std::vector<bool> stays(static_cast<size_t>(n), false);  // by part
  for (int rank = 0; rank < n; ++rank) {
    if (leaves(rank)) continue;
    for (const MomentPart& part : state_.PartsOfRank(rank))
      stays[static_cast<size_t>(part.index)] = true;
  }
  std::vector<std::vector<MomentPart>> taken(static_cast<size_t>(n));
  for (int part = 0; part < n; ++part) {
    if (stays[static_cast<size_t>(part)]) continue;
    int taker = part;
    while (leaves(taker)) taker = (taker + 1) % n;
    taken[static_cast<size_t>(taker)].push_back({n, part});
  }
  return taken;
}

int64_t AllReduceSync::payload_sent_bytes() const {
  return communicator_.counters().payload_sent_bytes;
}

int64_t AllReduceSync::theory_bytes_per_step() const {
  const int n = communicator_.world_size();
  const int64_t bytes =
      state_.plan().total_elems() * static_cast<int64_t>(sizeof(float));
  const int64_t of_mirrors =
      state_.is_sharded()
          ? bytes / n * std::min(state_.config().mirrors(), n - 1)
          : 0;
  return AllReduceWireBytes(bytes, n) + of_mirrors;
}

absl::Duration AllReduceSync::AllReduceTime() const {
  return communicator_.AllReduceTime();
}

absl::Duration AllReduceSync::WaitedFor(int rank) const {
  return communicator_.WaitedFor(rank);
}

int AllReduceSync::peer_ranks() const { return communicator_.world_size(); }

}  // namespace ringmaster
