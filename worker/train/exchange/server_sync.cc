#include "worker/train/exchange/server_sync.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/strings/str_format.h"
#include "common/fail_point/fail_point.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

bool IsMultiple(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

}  // namespace

bool IsAgreementStep(const ProgramConfig& config, int64_t step) {
  return step == config.program.steps() || IsMultiple(step, kMostStepsApart) ||
         IsMultiple(step, config.program.evaluate_every()) ||
         IsMultiple(step, config.program.hash_every()) ||
         (!config.program.checkpoint().directory().empty() &&
          IsMultiple(step, config.program.checkpoint().every_steps()));
}

ServerSync::ServerSync(int64_t generation, absl::Duration wait_timeout,
                       TrainingState& state, Communicator& communicator,
                       ShardClient& client, Clock& clock, Trace& trace)
    : generation_(generation),
      wait_timeout_(wait_timeout),
      state_(state),
      communicator_(communicator),
      client_(client),
      clock_(clock),
      trace_(trace),
      peer_ranks_(
          std::max(communicator.world_size(), client.highest_rank() + 1)) {
  if (ServerCopies* const copies = state.server_copies())
    feed_ = std::make_unique<GradientFeed>(*copies, clock);
}

absl::Status ServerSync::Begin() {
  // Only workers that took part know how many updates were skipped in a row.
  int64_t skipped = state_.skipped_in_a_row();
  CollectiveRequest request =
      AllReduceSum(BufferView::Of(std::span<int64_t>(&skipped, 1)));
  request.reduction = Reduction::kMax;
  RETURN_IF_ERROR(communicator_.Run(request, Deadline()));
  state_.SetSkippedInARow(skipped);

  client_.Open(state_.update_stretches());
  if (communicator_.rank() == 0 && client_.has_to_load())
    RETURN_IF_ERROR(GiveState());
  client_.Pull(StatePart::kParameters, state_.applied_step(),
               state_.MutableArenas().parameters);
  return client_.Await(Deadline());
}

absl::Status ServerSync::GiveState() {
  RETURN_IF_ERROR(FAIL_POINT("train.load"));
  RETURN_IF_ERROR(state_.ReserveMoments());
  const ArenaSpans<float> arenas = state_.MutableArenas();
  const int64_t step = state_.applied_step();
  client_.Load(StatePart::kParameters, step, arenas.parameters);
  if (!arenas.first_moment.empty())
    client_.Load(StatePart::kFirstMoment, step, arenas.first_moment);
  if (!arenas.second_moment.empty())
    client_.Load(StatePart::kSecondMoment, step, arenas.second_moment);
  return absl::OkStatus();
}

absl::Status ServerSync::Leave(DoneKind how, bool /*is_leaver*/) {
  client_.Finish(how);
  return client_.Await(Deadline());
}

absl::Status ServerSync::BeginStep() {
  if (!has_agreed_) return absl::OkStatus();
  has_agreed_ = false;
  return communicator_.Run(Barrier(), Deadline());
}

void ServerSync::BucketReady(int bucket) {
  if (!start_error_.ok()) return;
  start_error_ = FAIL_POINT("train.bucket_ready");
  if (start_error_.ok()) start_error_ = Push(bucket);
}

absl::Status ServerSync::Push(int bucket) {
  const int64_t step = state_.applied_step() + 1;
  const absl::Span<float> gradients = state_.gradients().Elems<float>();
  const absl::Span<float> parameters = state_.next_parameters();
  if (feed_ == nullptr) {
    client_.Push(bucket, step, gradients, parameters);
    return absl::OkStatus();
  }
  const ElemRange range =
      state_.plan().buckets()[static_cast<size_t>(bucket)].range;
  return feed_->Add(bucket,
                    gradients.subspan(static_cast<size_t>(range.begin),
                                      static_cast<size_t>(range.count)),
                    [this, bucket, step, gradients, parameters] {
                      client_.Push(bucket, step, gradients, parameters);
                    });
}

absl::Status ServerSync::AwaitAnswers() {
  if (feed_ != nullptr) RETURN_IF_ERROR(feed_->Await(Deadline()));
  return client_.Await(Deadline());
}

absl::StatusOr<CommittedStep> ServerSync::Commit(const LocalStep& local) {
  const MonotonicTime begin = clock_.Now();
  RETURN_IF_ERROR(start_error_);
  RETURN_IF_ERROR(AwaitAnswers());
  const MonotonicTime fetched = clock_.Now();
  RETURN_IF_ERROR(FAIL_POINT("train.reduced"));
  const ShardClient::Updates updates = client_.TakeUpdates();
  LocalStep own = local;
  own.wants_drain |= client_.wants_drain();

  CommittedStep committed;
  committed.learning_rate = state_.learning_rate();
  committed.non_finite_ranks = updates.non_finite_ranks;
  state_.MarkFetched(local.step, updates.norm_squared);
  ASSIGN_OR_RETURN(committed.summary,
                   state_.config().is_synchronous()
                       ? CommitTogether(own, updates.norm_squared)
                       : CommitAlone(own, updates.norm_squared));
  RETURN_IF_ERROR(FAIL_POINT("train.after_apply"));
  const MonotonicTime end = clock_.Now();
  committed.commit = end - fetched;
  committed.communication_wait = end - begin;
  trace_.Record({"commit", "compute", local.step, -1, 0, begin, begin, end});
  return committed;
}

absl::StatusOr<CommitSummary> ServerSync::CommitTogether(const LocalStep& local,
                                                         double norm_squared) {
  ASSIGN_OR_RETURN(CommitSummary summary, Exchange(local, 1, norm_squared));
  RETURN_IF_ERROR(FAIL_POINT("train.before_apply"));
  RETURN_IF_ERROR(state_.ApplyComplete());
  return summary;
}

absl::StatusOr<CommitSummary> ServerSync::CommitAlone(const LocalStep& local,
                                                      double norm_squared) {
  RETURN_IF_ERROR(state_.ApplyComplete());
  since_.steps += 1;
  since_.sum.loss_sum += local.loss_sum;
  since_.sum.sample_count += local.sample_count;
  since_.sum.sample_hash += local.sample_hash;
  since_.sum.global_sample_hash += local.global_sample_hash;
  CommitSummary summary;
  if (IsAgreementStep(state_.config(), local.step)) {
    LocalStep sum = local;
    sum.loss_sum = since_.sum.loss_sum;
    sum.sample_count = since_.sum.sample_count;
    sum.sample_hash = since_.sum.sample_hash;
    sum.global_sample_hash = since_.sum.global_sample_hash;
    sum.compare_parameters = false;  // they are equal only after it
    ASSIGN_OR_RETURN(summary, Exchange(sum, since_.steps, /*norm_squared=*/0));
    since_ = Since();
    RETURN_IF_ERROR(FetchParameters(local));
    has_agreed_ = true;
  } else if (local.sample_count > 0) {
    summary.mean_loss =
        local.loss_sum /
        static_cast<double>(local.sample_count * state_.targets());
  }
  summary.norm_squared = norm_squared;
  summary.is_finite = std::isfinite(norm_squared);
  return summary;
}

absl::StatusOr<CommitSummary> ServerSync::Exchange(const LocalStep& local,
                                                   int64_t steps,
                                                   double norm_squared) {
  const CommitRecord record =
      MakeCommitRecord(generation_, local, norm_squared,
                       local.compare_parameters ? state_.ParametersHash() : 0,
                       payload_sent_bytes());
  RETURN_IF_ERROR(FAIL_POINT("train.commit_send"));
  ASSIGN_OR_RETURN(
      const std::vector<CommitRecord> records,
      ExchangeCommit(communicator_, record, Deadline(), record_words_));
  RETURN_IF_ERROR(FAIL_POINT("train.commit_received"));
  return CombineCommits(
      records,
      {generation_, local.step, steps * state_.config().program.global_batch(),
       local.global_sample_hash, state_.targets()});
}

// All workers' pushes are answered, and no worker pushes before all are here.
absl::Status ServerSync::FetchParameters(const LocalStep& local) {
  client_.Pull(StatePart::kParameters, local.step,
               state_.MutableArenas().parameters);
  RETURN_IF_ERROR(client_.Await(Deadline()));
  RETURN_IF_ERROR(state_.SendToDevice());
  if (!local.compare_parameters) return absl::OkStatus();
  std::vector<int64_t> hashes(static_cast<size_t>(communicator_.world_size()));
  hashes[static_cast<size_t>(communicator_.rank())] =
      static_cast<int64_t>(state_.ParametersHash());
  RETURN_IF_ERROR(communicator_.Run(
      AllGather(BufferView::Of(std::span<int64_t>(hashes))), Deadline()));
  for (size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    return WithExitCode(
        absl::FailedPreconditionError(absl::StrFormat(
            "after step %d, ranks 0 and %d hold different parameters: hashes "
            "%016x and %016x",
            local.step, rank, static_cast<uint64_t>(hashes[0]),
            static_cast<uint64_t>(hashes[rank]))),
        ExitCode::kPlanMismatch);
  }
  return absl::OkStatus();
}

absl::Status ServerSync::FetchMoments(bool is_wanted) {
  const int64_t step = state_.applied_step();
  if (!is_wanted || moments_step_ == step) return absl::OkStatus();
  RETURN_IF_ERROR(state_.ReserveMoments());
  const ArenaSpans<float> arenas = state_.MutableArenas();
  if (!arenas.first_moment.empty())
    client_.Pull(StatePart::kFirstMoment, step, arenas.first_moment);
  if (!arenas.second_moment.empty())
    client_.Pull(StatePart::kSecondMoment, step, arenas.second_moment);
  RETURN_IF_ERROR(client_.Await(Deadline()));
  moments_step_ = step;
  return absl::OkStatus();
}

int64_t ServerSync::payload_sent_bytes() const {
  return communicator_.counters().payload_sent_bytes +
         client_.payload_sent_bytes();
}

int64_t ServerSync::theory_bytes_per_step() const {
  return state_.plan().total_elems() * static_cast<int64_t>(sizeof(float));
}

absl::Duration ServerSync::WaitedFor(int rank) const {
  absl::Duration waited = client_.WaitedFor(rank);
  if (rank < communicator_.world_size())
    waited += communicator_.WaitedFor(rank);
  return waited;
}

}  // namespace ringmaster
