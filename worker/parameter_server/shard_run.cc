#include "worker/parameter_server/shard_run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

MessageElements ElementsOf(absl::Span<const float> elems) {
  return {.data = reinterpret_cast<const std::byte*>(elems.data()),
          .count = static_cast<int64_t>(elems.size())};
}

}  // namespace

ShardRun::ShardRun(const HostContext& context, int shard, bool is_primary,
                   int backup_peer)
    : context_(context),
      shard_(shard),
      is_primary_(is_primary),
      backup_peer_(backup_peer),
      seen_(static_cast<size_t>(context.workers())),
      is_alone_(static_cast<size_t>(context.workers())) {}

void ShardRun::SetState(ShardState* state) {
  state_ = state;
  state_->EndGradients();
  Gathering empty;
  empty.has_pushed.resize(static_cast<size_t>(context_.workers()));
  gatherings_.assign(static_cast<size_t>(state->buckets()), empty);
  if (is_loaded()) Begin(/*is_given_anew=*/false);
}

void ShardRun::Begin(bool is_given_anew) {
  if (context_.rules.is_synchronous) return;
  const int64_t step =
      is_given_anew ? state_->complete_step() : context_.resume_step;
  gate_.emplace(context_.workers(), state_->buckets(), context_.rules.staleness,
                step);
  // Some buckets of a copy may have had newer updates.
  state_->MarkComplete(step);
}

absl::StatusOr<int> ShardRun::BucketOf(const ShardMessage& message,
                                       bool has_elements) const {
  const int bucket = message.bucket - state_->description().first_bucket;
  if (bucket >= 0 && bucket < state_->buckets() && state_->Has(message.part) &&
      message.count == (has_elements ? state_->BucketElems(bucket) : 0))
    return bucket;
  return absl::FailedPreconditionError(absl::StrCat(
      "it sent a ", DescribeShardMessage(message), ", part ",
      static_cast<int>(message.part), "; the shard has ", state_->buckets(),
      " buckets from ", state_->description().first_bucket, " on, of ",
      state_->parts(), " parts",
      bucket >= 0 && bucket < state_->buckets()
          ? absl::StrCat(", this one of ", state_->BucketElems(bucket),
                         " elements")
          : ""));
}

ShardMessage ShardRun::About(ShardOp op, int bucket, int64_t step) const {
  ShardMessage message;
  message.op = op;
  message.shard = shard_;
  message.bucket =
      bucket < 0 ? -1 : state_->description().first_bucket + bucket;
  message.step = step;
  return message;
}

ShardRun::Sink ShardRun::BeginPull(const ShardMessage& message) const {
  if (state_ == nullptr) return std::nullopt;
  ASSIGN_OR_RETURN(const int bucket, BucketOf(message, false));
  if (!is_loaded()) return std::nullopt;
  if (context_.rules.is_synchronous &&
      message.step != state_->VersionOf(bucket)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it sent a ", DescribeShardMessage(message),
        ", but that is here as of step ", state_->VersionOf(bucket)));
  }
  return MessageSink();
}

absl::Status ShardRun::Pulled(int peer, const ShardMessage& message) {
  ASSIGN_OR_RETURN(const int bucket, BucketOf(message, false));
  Gathering none;
  none.step = state_->VersionOf(bucket);
  SendValues(peer, bucket, message.part, none);
  return absl::OkStatus();
}

absl::StatusOr<bool> ShardRun::MayGather(int worker, int bucket,
                                         const ShardMessage& message) {
  Gathering& gathering = GatheringOf(bucket);
  if (gate_.has_value()) {
    RETURN_IF_ERROR(gate_->Check(worker, bucket, message.step));
    return gathering.receiving_count == 0 && !gathering.awaits_backup;
  }
  const int64_t due = state_->VersionOf(bucket) + 1;
  if (message.step != due ||
      gathering.has_pushed[static_cast<size_t>(worker)]) {
    return absl::FailedPreconditionError(
        absl::StrCat("it sent a ", DescribeShardMessage(message),
                     ", where step ", due, " is due, once"));
  }
  if (context_.rules.is_deterministic)
    return gathering.pushed_count == worker && gathering.receiving_count == 0;
  // The first one is copied, which the others are added to.
  return gathering.pushed_count > 0 || gathering.receiving_count == 0;
}

ShardRun::Sink ShardRun::BeginPush(int worker, const ShardMessage& message) {
  if (!is_loaded() || awaits_backup_begin()) return std::nullopt;
  ASSIGN_OR_RETURN(const int bucket, BucketOf(message, true));
  ASSIGN_OR_RETURN(const bool may_gather, MayGather(worker, bucket, message));
  if (!may_gather) return std::nullopt;
  RETURN_IF_ERROR(FAIL_POINT("shard_host.push"));
  Gathering& gathering = GatheringOf(bucket);
  const auto rank = static_cast<size_t>(worker);
  seen_[rank] = NonFinite();
  is_alone_[rank] = gathering.receiving_count == 0;
  ++gathering.receiving_count;
  ASSIGN_OR_RETURN(const absl::Span<float> gradient,
                   state_->BeginGradient(bucket));
  return MessageSink{reinterpret_cast<std::byte*>(gradient.data()),
                     !gate_.has_value() && gathering.pushed_count > 0,
                     &seen_[rank]};
}

void ShardRun::NoteNonFinite(Gathering& gathering, int worker) {
  const auto note = [&](int rank) {
    int& lowest = gathering.non_finite_rank;
    lowest = lowest < 0 ? rank : std::min(lowest, rank);
  };
  const NonFinite& seen = seen_[static_cast<size_t>(worker)];
  if (seen.in_wire) note(worker);
  // Elements from before are the first worker's, if they are nobody else's.
  if (seen.in_elements && gathering.pushed_count == 1 &&
      is_alone_[static_cast<size_t>(worker)])
    note(gathering.first_rank);
}

absl::Status ShardRun::Pushed(int worker, const ShardMessage& message) {
  ASSIGN_OR_RETURN(const int bucket, BucketOf(message, true));
  Gathering& gathering = GatheringOf(bucket);
  --gathering.receiving_count;
  gathering.step = message.step;
  if (gate_.has_value()) return MakePart(bucket, worker);
  NoteNonFinite(gathering, worker);
  gathering.has_pushed[static_cast<size_t>(worker)] = true;
  if (++gathering.pushed_count == 1) gathering.first_rank = worker;
  if (gathering.pushed_count < context_.workers()) return absl::OkStatus();
  return Summed(bucket);
}

absl::Status ShardRun::Summed(int bucket) {
  if (!context_.rules.clips) return MakeUpdate(bucket, 1);
  GatheringOf(bucket).norm_squared = state_->SquaresOf(context_.pool, bucket);
  if (++summed_count_ < state_->buckets()) return absl::OkStatus();
  ShardMessage norm = About(ShardOp::kNorm, -1, GatheringOf(bucket).step);
  for (const Gathering& each : gatherings_) norm.value += each.norm_squared;
  for (const int peer : context_.worker_peers) context_.loop.Send(peer, norm);
  return absl::OkStatus();
}

absl::Status ShardRun::Scaled(const ShardMessage& message) {
  const bool is_same =
      std::bit_cast<uint64_t>(message.value) == std::bit_cast<uint64_t>(scale_);
  // All workers send it; the first one's is used.
  if (message.step == scaled_step_ && is_same) return absl::OkStatus();
  const bool is_due = state_ != nullptr && context_.rules.clips &&
                      summed_count_ == state_->buckets() &&
                      message.step == state_->complete_step() + 1;
  if (!is_due) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it sent a ", DescribeShardMessage(message), " of ", message.value,
        message.step == scaled_step_
            ? absl::StrCat(", where others said ", scale_)
            : ", which was not asked for"));
  }
  scaled_step_ = message.step;
  scale_ = message.value;
  summed_count_ = 0;
  // The forward pass needs the last ones first.
  for (int bucket = state_->buckets() - 1; bucket >= 0; --bucket)
    RETURN_IF_ERROR(MakeUpdate(bucket, scale_));
  return absl::OkStatus();
}

void ShardRun::TellBackup(int bucket, int64_t step, int rank, double scale) {
  if (backup_peer_ < 0) return;
  ShardMessage update = About(ShardOp::kUpdate, bucket, step);
  update.rank = rank;
  update.value = scale;
  context_.loop.Send(backup_peer_, update,
                     ElementsOf(state_->Gradient(bucket)));
  GatheringOf(bucket).awaits_backup = true;
  ++awaited_updates_;
}

absl::Status ShardRun::MakeUpdate(int bucket, double scale) {
  RETURN_IF_ERROR(FAIL_POINT("shard_host.update"));
  Gathering& gathering = GatheringOf(bucket);
  TellBackup(bucket, gathering.step, -1, scale);
  const ShardState::Made made =
      state_->Apply(context_.pool, bucket, gathering.step, scale);
  gathering.norm_squared = made.norm_squared;
  if (context_.workers() == 1 && !std::isfinite(made.norm_squared))
    gathering.non_finite_rank = 0;
  return gathering.awaits_backup ? absl::OkStatus() : Answer(bucket);
}

absl::Status ShardRun::MakePart(int bucket, int worker) {
  RETURN_IF_ERROR(FAIL_POINT("shard_host.update"));
  Gathering& gathering = GatheringOf(bucket);
  RETURN_IF_ERROR(gate_->Push(worker, bucket, gathering.step));
  gathering.first_rank = worker;
  // The gradient is a part of the mean over all samples of a step: as many
  // times as there are workers, it is about the mean over its own.
  const double scale = context_.workers();
  TellBackup(bucket, gathering.step, worker, scale);
  const ShardState::Made made = state_->ApplyPart(
      context_.pool, bucket, gathering.step, scale, context_.workers());
  gathering.norm_squared = made.norm_squared;
  gathering.non_finite_rank = made.is_left_out ? worker : -1;
  state_->MarkComplete(gate_->slowest());
  if (!gathering.awaits_backup) RETURN_IF_ERROR(Answer(bucket));
  AnswerWaiting();
  return absl::OkStatus();
}

absl::Status ShardRun::BackupUpdated(const ShardMessage& message) {
  if (message.bucket < 0) {
    SetBackupReady();
    return absl::OkStatus();
  }
  if (state_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("it sent an ", DescribeShardMessage(message),
                     ", which was not asked for"));
  }
  ASSIGN_OR_RETURN(const int bucket, BucketOf(message, false));
  Gathering& gathering = GatheringOf(bucket);
  if (!gathering.awaits_backup || message.step != gathering.step) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it sent an ", DescribeShardMessage(message), ", where ",
        gathering.awaits_backup ? absl::StrCat("step ", gathering.step)
                                : "nothing",
        " was waited for"));
  }
  gathering.awaits_backup = false;
  --awaited_updates_;
  RETURN_IF_ERROR(Answer(bucket));
  AnswerWaiting();
  return absl::OkStatus();
}

absl::Status ShardRun::Answer(int bucket) {
  RETURN_IF_ERROR(FAIL_POINT("shard_host.answer"));
  Gathering& gathering = GatheringOf(bucket);
  state_->EndGradient(bucket);
  if (gate_.has_value()) {
    if (gathering.first_rank >= 0) waiting_.push_back({bucket, gathering});
    return absl::OkStatus();
  }
  for (const int peer : context_.worker_peers)
    SendValues(peer, bucket, StatePart::kParameters, gathering);
  Gathering next;
  next.has_pushed.resize(static_cast<size_t>(context_.workers()));
  gathering = std::move(next);
  return absl::OkStatus();
}

void ShardRun::AnswerWaiting() {
  std::erase_if(waiting_, [this](const Waiting& waiting) {
    if (!gate_->MayAnswer(waiting.update.step)) return false;
    gate_->NoteAnswer(waiting.bucket, waiting.update.step);
    const auto worker = static_cast<size_t>(waiting.update.first_rank);
    SendValues(context_.worker_peers[worker], waiting.bucket,
               StatePart::kParameters, waiting.update);
    return true;
  });
}

void ShardRun::SendValues(int peer, int bucket, StatePart part,
                          const Gathering& update) {
  ShardMessage values = About(ShardOp::kValues, bucket, update.step);
  values.part = part;
  values.rank = update.non_finite_rank;
  values.value = update.norm_squared;
  values.wants_drain = context_.wants_drain.load(std::memory_order_relaxed);
  const MessageElements elements = ElementsOf(state_->Values(bucket, part));
  // The forward pass needs the last ones first.
  if (context_.rules.is_synchronous) {
    context_.loop.Send(peer, values, elements, values.bucket);
  } else {
    context_.loop.SendCopy(peer, values, elements, values.bucket);
  }
}

void ShardRun::Leave(int worker) {
  if (!gate_.has_value()) return;
  gate_->Leave(worker);
  // Those who are left may all have been faster.
  state_->MarkComplete(gate_->slowest());
  AnswerWaiting();
}

bool ShardRun::IsFree(int bucket) const {
  const Gathering& gathering = gatherings_[static_cast<size_t>(bucket)];
  return is_loaded() && !awaits_backup_begin() &&
         gathering.receiving_count == 0 && !gathering.awaits_backup;
}

absl::Status ShardRun::PushOutside(int bucket,
                                   absl::Span<const float> gradient) {
  ASSIGN_OR_RETURN(const absl::Span<float> own, state_->BeginGradient(bucket));
  std::copy(gradient.begin(), gradient.end(), own.begin());
  Gathering& gathering = GatheringOf(bucket);
  gathering.first_rank = -1;
  // It counts for no step; the slowest worker's next one has its learning rate.
  gathering.step = gate_->slowest() + 1;
  TellBackup(bucket, gathering.step, context_.workers(), 1);
  (void)state_->ApplyPart(context_.pool, bucket, gathering.step, 1,
                          context_.workers());
  return gathering.awaits_backup ? absl::OkStatus() : Answer(bucket);
}

ShardRun::Sink ShardRun::BeginUpdate(const ShardMessage& message) {
  if (!is_loaded()) return std::nullopt;
  ASSIGN_OR_RETURN(const int bucket, BucketOf(message, true));
  const bool is_part = gate_.has_value();
  if (is_part != (message.rank >= 0) || message.rank > context_.workers() ||
      (!is_part && message.step != state_->VersionOf(bucket) + 1)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it sent an ", DescribeShardMessage(message), " of rank ", message.rank,
        ", where step ", state_->VersionOf(bucket) + 1, " of ",
        is_part ? "a rank" : "all", " is due"));
  }
  ASSIGN_OR_RETURN(const absl::Span<float> gradient,
                   state_->BeginGradient(bucket));
  return MessageSink{reinterpret_cast<std::byte*>(gradient.data())};
}

absl::Status ShardRun::Updated(int peer, const ShardMessage& message) {
  ASSIGN_OR_RETURN(const int bucket, BucketOf(message, true));
  RETURN_IF_ERROR(FAIL_POINT("shard_host.copy_update"));
  if (gate_.has_value()) {
    if (message.rank < context_.workers())
      RETURN_IF_ERROR(gate_->Push(message.rank, bucket, message.step));
    (void)state_->ApplyPart(context_.pool, bucket, message.step, message.value,
                            context_.workers());
    state_->MarkComplete(gate_->slowest());
  } else {
    (void)state_->Apply(context_.pool, bucket, message.step, message.value);
  }
  state_->EndGradient(bucket);
  context_.loop.Send(peer, About(ShardOp::kUpdated, bucket, message.step));
  return absl::OkStatus();
}

}  // namespace ringmaster
