#include "worker/train/step/generation_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/fail_point/fail_point.h"
#include "common/logging/logging.h"
#include "common/plan/counter_random.h"
#include "common/status/status_macros.h"
#include "common/text/utf8.h"
#include "worker/collective/gather_words.h"
#include "worker/train/exchange/non_finite_ranks.h"
#include "worker/train/step/evaluation.h"

namespace ringmaster {
namespace {

// Starts the reduction of each bucket whose last gradient was just written.
class BucketStarter final : public GradientObserver {
 public:
  BucketStarter(const Plan& plan, ParameterSync& sync, Clock& clock)
      : plan_(plan), sync_(sync), clock_(clock) {}

  // Sets whether gradients that become final are those of the whole step.
  void set_active(bool is_active) { is_active_ = is_active; }
  MonotonicTime forward_done() const { return forward_done_; }

  void OnForwardDone() override { forward_done_ = clock_.Now(); }
  void OnTensorDone(int tensor_index) override {
    if (!is_active_) return;
    for (size_t i = plan_.BucketsCompletedBy(tensor_index).size(); i > 0; --i)
      sync_.BucketReady(next_bucket_++);
  }

 private:
  const Plan& plan_;
  ParameterSync& sync_;
  Clock& clock_;
  MonotonicTime forward_done_;
  bool is_active_ = true;
  int next_bucket_ = 0;
};

// Part the key space of a job's seed.
constexpr uint64_t kDropoutStream = 0x64726f706f7574;  // "dropout"
constexpr uint64_t kSampleStream = 0x73616d706c65;     // "sample"

// A shutdown tells all ranks to leave, but not in the same step: within this time
// they leave together.
constexpr absl::Duration kLeaveTogether = absl::Milliseconds(500);

// How long ranks that pause wait for those that are let go to hear of it, and how often
// they ask each other. The coordinator sends it to all at once.
constexpr absl::Duration kLetGoPatience = absl::Seconds(1);
constexpr absl::Duration kLetGoPoll = absl::Microseconds(500);

uint64_t SumOfSampleHashes(absl::Span<const int64_t> ids) {
  uint64_t sum = 0;
  for (const int64_t id : ids) sum += HashSampleId(id);
  return sum;
}

}  // namespace

GenerationRun::GenerationRun(absl::Duration wait_timeout, const Parts& parts)
    : wait_timeout_(wait_timeout),
      parts_(parts),
      global_ids_(
          static_cast<size_t>(parts.state.config().program.global_batch())),
      micro_batch_(parts.state.model().max_batch(),
                   parts.state.dataset().shape()) {}

absl::StatusOr<GenerationRun::End> GenerationRun::Run() {
  if (parts_.no_step != NoStep::kNone) return RunWithoutStep();
  const ProgramConfig& config = parts_.state.config();
  // Whoever was halted before it could say so says it now.
  RETURN_IF_ERROR(CheckSkippedSteps(parts_.state.applied_step()));
  RETURN_IF_ERROR(MakeUpFor(parts_.state.applied_step()));
  while (!IsDone()) {
    const int64_t step = parts_.state.applied_step() + 1;
    ASSIGN_OR_RETURN(const CommitSummary summary, RunStep(step));
    RETURN_IF_ERROR(CheckSkippedSteps(step));
    // All ranks have the same records, so all come to the same `is_stop`.
    const bool is_stop = summary.stop && step < config.program.steps();
    const bool is_evaluated = IsEvaluationDue(step) && !is_stop;
    if (is_evaluated && config.follows_evaluations())
      RETURN_IF_ERROR(EvaluateAfter(step));
    RETURN_IF_ERROR(SnapshotAfter(step, IsDone() || is_stop));
    if (is_stop) {
      RETURN_IF_ERROR(Finish(step, End::kStopped));
      if (summary.all_leave) ShareSavedStep(step);
      return End::kStopped;
    }
    if (is_evaluated && !config.follows_evaluations())
      RETURN_IF_ERROR(EvaluateAfter(step));
    if (summary.drain && !IsDone()) {
      RETURN_IF_ERROR(AwaitLetGo());
      RETURN_IF_ERROR(parts_.sync.Leave(End::kDrained, IsLeaver()));
      return End::kDrained;
    }
  }
  const int64_t last = parts_.state.applied_step();
  if (last < config.program.steps() && parts_.communicator.rank() == 0) {
    LogEvent(LogLevel::kInfo, "train.early_stop",
             {{"step", last},
              {"best_step", parts_.state.evaluations().best_step},
              {"message", "the evaluations did not get better"}});
  }
  RETURN_IF_ERROR(Finish(last, End::kFinished));
  return End::kFinished;
}

bool GenerationRun::IsLeaver() const {
  return parts_.wishes.leave.load(std::memory_order_relaxed) ||
         parts_.wishes.let_go.load(std::memory_order_relaxed);
}

// The first rank that hears of the pause has all end after its step, while the message
// may still be on its way to others. What those alone hold would go with them.
absl::Status GenerationRun::AwaitLetGo() {
  if (!parts_.state.is_sharded()) return absl::OkStatus();
  const MonotonicTime latest = parts_.clock.Now() + kLetGoPatience;
  while (true) {
    // Has this rank been told, how many have, and is it late? Rank 0's clock decides.
    const MonotonicTime now = parts_.clock.Now();
    const std::array<int64_t, 3> own = {
        parts_.wishes.let_go.load(std::memory_order_relaxed),
        parts_.wishes.let_go_count.load(std::memory_order_relaxed),
        now >= latest};
    ASSIGN_OR_RETURN(
        const std::vector<int64_t> words,
        GatherWords(own, parts_.communicator, now + wait_timeout_));
    int64_t told = 0;
    int64_t let_go = 0;
    for (size_t at = 0; at < words.size(); at += own.size()) {
      told += words[at];
      let_go = std::max(let_go, words[at + 1]);
    }
    if (told >= let_go || words[2] != 0) return absl::OkStatus();
    absl::SleepFor(kLetGoPoll);
  }
}

bool GenerationRun::IsEvaluationDue(int64_t step) const {
  const v1::TrainProgram& program = parts_.state.config().program;
  return step >= program.steps() ||
         (program.evaluate_every() > 0 && step % program.evaluate_every() == 0);
}

bool GenerationRun::IsDone() const {
  const v1::TrainProgram& program = parts_.state.config().program;
  return parts_.state.applied_step() >= program.steps() ||
         (program.has_early_stop() &&
          parts_.state.evaluations().without_progress >=
              program.early_stop().patience());
}

// A fault may have come between a step and what was due after it.
absl::Status GenerationRun::MakeUpFor(int64_t step) {
  if (step == 0) return absl::OkStatus();
  if (parts_.state.config().follows_evaluations())
    RETURN_IF_ERROR(MakeUpForEvaluation(step));
  if (!IsDone()) RETURN_IF_ERROR(SnapshotAfter(step, /*is_last=*/false));
  return parts_.state.config().follows_evaluations()
             ? absl::OkStatus()
             : MakeUpForEvaluation(step);
}

absl::Status GenerationRun::MakeUpForEvaluation(int64_t step) {
  if (!IsEvaluationDue(step)) return absl::OkStatus();
  // By what rank 0 knows, since it records evaluations. A job that was done when it
  // began has nothing else to show.
  int64_t evaluated_step = parts_.files.recorded().evaluation;
  if (IsDone())
    evaluated_step = std::min(evaluated_step, parts_.files.evaluated_step());
  // Its record may be of a process whose evaluations no checkpoint has.
  if (parts_.state.config().follows_evaluations()) {
    evaluated_step =
        std::min(evaluated_step, parts_.state.evaluations().last_step);
  }
  RETURN_IF_ERROR(parts_.communicator.Run(
      Broadcast(BufferView::Of(std::span<int64_t>(&evaluated_step, 1)),
                /*root=*/0),
      parts_.clock.Now() + wait_timeout_));
  if (evaluated_step < step) return EvaluateAfter(step);
  return parts_.files.recorded().sample < step ? WriteSample(step)
                                               : absl::OkStatus();
}

// Where a coordinator is away, only those that know it may leave. One that cannot be
// told stays for as long as it does, so an error here costs nothing else.
void GenerationRun::ShareSavedStep(int64_t step) {
  const std::array<int64_t, 1> own = {
      parts_.board.progress().figures.checkpoint_step()};
  const absl::StatusOr<std::vector<int64_t>> saved =
      GatherWords(own, parts_.communicator, parts_.clock.Now() + wait_timeout_);
  if (saved.ok() && *std::ranges::max_element(*saved) == step)
    parts_.board.RecordCheckpoint(step);
}

absl::StatusOr<GenerationRun::End> GenerationRun::RunWithoutStep() {
  if (parts_.no_step == NoStep::kSave) {
    RETURN_IF_ERROR(Finish(parts_.state.applied_step(), End::kStopped));
  } else {
    // Whoever had the state before hands it over in order to leave.
    RETURN_IF_ERROR(
        parts_.sync.Leave(End::kStopped, IsLeaver() || !parts_.is_newcomer));
  }
  return End::kStopped;
}

absl::Status GenerationRun::CheckSkippedSteps(int64_t step) const {
  const int64_t most = parts_.state.config().max_skipped_in_a_row();
  if (parts_.state.skipped_in_a_row() < most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the gradient was not finite ",
      most == 1
          ? absl::StrCat("at step ", step)
          : absl::StrCat("for ", most, " steps in a row, up to step ", step),
      non_finite_origin_.empty() ? "" : "; ", non_finite_origin_,
      "; lower the learning rate or set clip_norm"));
}

void GenerationRun::NoteSkippedStep(int64_t step,
                                    const CommittedStep& committed) {
  non_finite_origin_ = committed.is_origin_known
                           ? OriginOfNonFinite(committed.non_finite_ranks,
                                               parts_.communicator.world_size())
                           : "";
  if (parts_.communicator.rank() != 0) return;  // all know the same
  LogEvent(LogLevel::kWarning, "train.step_skipped",
           {{"step", step},
            {"message", absl::StrCat("the gradient was not finite",
                                     non_finite_origin_.empty() ? "" : "; ",
                                     non_finite_origin_)}});
}

absl::Status GenerationRun::SnapshotAfter(int64_t step, bool is_last) {
  if (!parts_.files.IsSnapshotStep(step, is_last)) {
    last_snapshot_ = parts_.files.SnapshotIfDue(step, is_last);
    return parts_.files.failure();
  }
  const MonotonicTime begin = parts_.clock.Now();
  RETURN_IF_ERROR(
      parts_.sync.FetchMoments(parts_.files.IsSnapshotDue(step, is_last)));
  const absl::Duration fetch = parts_.clock.Now() - begin;
  last_snapshot_ = fetch + parts_.files.SnapshotIfDue(step, is_last);
  if (parts_.state.is_sharded()) parts_.state.ReleaseOthers();
  return parts_.files.failure();
}

absl::Status GenerationRun::Finish(int64_t step, End how) {
  if (!parts_.state.config().program.checkpoint().directory().empty())
    parts_.board.EnterPhase(TrainPhase::kCheckpoint);
  if (parts_.files.IsSnapshotStep(step, /*is_last=*/true)) {
    RETURN_IF_ERROR(parts_.sync.FetchMoments(
        parts_.files.IsSnapshotDue(step, /*is_last=*/true)));
  }
  // Leaves first, so that no peer waits for this rank's disk.
  RETURN_IF_ERROR(parts_.sync.Leave(how, IsLeaver()));
  parts_.files.Finish(step, parts_.cancel);
  RETURN_IF_ERROR(parts_.files.failure());
  // A stop is the end that somebody asked for, with or without a checkpoint.
  return how == End::kFinished ? parts_.files.latest_failure()
                               : absl::OkStatus();
}

absl::StatusOr<CommitSummary> GenerationRun::RunStep(int64_t step) {
  const MonotonicTime begin = parts_.clock.Now();
  RETURN_IF_ERROR(FAIL_POINT("train.step"));
  RETURN_IF_ERROR(parts_.sync.BeginStep());
  LocalStep local;
  local.step = step;
  StepFigures figures;
  figures.phases.snapshot = std::exchange(last_snapshot_, absl::ZeroDuration());
  ASSIGN_OR_RETURN(const Batch* batch, NextBatch(step));
  figures.phases.data_wait = parts_.clock.Now() - begin;
  RETURN_IF_ERROR(ForwardBackward(step, *batch, local, figures.phases));
  ASSIGN_OR_RETURN(const CommittedStep committed, Commit(step, local));
  figures.duration = parts_.clock.Now() - begin + figures.phases.snapshot;
  Record(step, *batch, committed, figures);
  if (!committed.summary.is_finite) NoteSkippedStep(step, committed);
  return committed.summary;
}

absl::StatusOr<CommittedStep> GenerationRun::Commit(int64_t step,
                                                    LocalStep& local) {
  const int64_t hash_every = parts_.state.config().program.hash_every();
  local.compare_parameters = hash_every > 0 && step % hash_every == 0;
  local.wants_stop = parts_.wishes.stop.load(std::memory_order_relaxed);
  local.wants_drain = parts_.wishes.drain.load(std::memory_order_acquire);
  local.wants_leave = parts_.wishes.leave.load(std::memory_order_relaxed);
  if (local.wants_leave) {
    if (!leaves_since_) leaves_since_ = parts_.clock.Now();
    local.wants_drain |= parts_.clock.Now() - *leaves_since_ >= kLeaveTogether;
  }
  absl::StatusOr<CommittedStep> committed = parts_.sync.Commit(local);
  // Also after a failure: the answer to a halt reports these steps.
  parts_.board.SetSteps(parts_.state.applied_step(),
                        parts_.state.complete_step());
  return committed;
}

void GenerationRun::Record(int64_t step, const Batch& batch,
                           const CommittedStep& committed,
                           StepFigures& figures) {
  parts_.counters.steps.Increment();
  parts_.counters.samples.Add(batch.size());
  if (!committed.summary.is_finite) parts_.counters.skipped_updates.Increment();
  ++steps_run_;

  const TrainingState& state = parts_.state;
  figures.step = step;
  figures.loss = committed.summary.mean_loss;
  figures.gradient_norm = std::sqrt(committed.summary.norm_squared);
  figures.learning_rate = committed.learning_rate;
  figures.samples = state.config().program.global_batch();
  figures.targets = figures.samples * state.targets();
  figures.phases.communication_wait = committed.communication_wait;
  figures.phases.optimizer += committed.update;
  figures.commit = committed.commit;
  if (parts_.peak_flops > 0) {
    figures.peak_seconds = parts_.state.model().flops_per_sample() *
                           static_cast<double>(batch.size()) /
                           parts_.peak_flops;
  }
  figures.payload_sent_bytes = parts_.sync.payload_sent_bytes();
  figures.payload_theory_bytes =
      steps_run_ * parts_.sync.theory_bytes_per_step();
  const absl::Duration all_reduce_time = parts_.sync.AllReduceTime();
  figures.all_reduce =
      all_reduce_time - std::exchange(all_reduce_time_, all_reduce_time);
  awaited_.NoteStep(parts_.sync);
  figures.awaited_rank = awaited_.most().rank;
  figures.awaited = awaited_.most().per_step;
  parts_.board.RecordStep(figures);
  parts_.files.RecordStep(figures);
}

absl::StatusOr<const Batch*> GenerationRun::NextBatch(int64_t step) {
  const MonotonicTime begin = parts_.clock.Now();
  const absl::StatusOr<const Batch*> batch =
      parts_.prefetcher.Next(begin + wait_timeout_);
  if (absl::IsDeadlineExceeded(batch.status())) {
    // Not a peer's fault, which the caller concludes from this code.
    return absl::ResourceExhaustedError(absl::StrCat(
        "this host gave no data within ", absl::FormatDuration(wait_timeout_),
        ": ", batch.status().message()));
  }
  parts_.trace.Record(
      {"data_wait", "compute", step, -1, 0, begin, begin, parts_.clock.Now()});
  return batch;
}

absl::Status GenerationRun::ForwardBackward(int64_t step, const Batch& batch,
                                            LocalStep& local,
                                            PhaseFigures& phases) {
  TrainingState& state = parts_.state;
  const ProgramConfig& config = state.config();
  TrainOptions options;
  options.scale =
      state.loss_scale().value() /
      static_cast<double>(config.program.global_batch() * state.targets());
  options.label_smoothing = config.program.label_smoothing();
  options.dropout_key = CounterRandom(config.program.seed() ^ kDropoutStream,
                                      static_cast<uint64_t>(step));
  options.cancel = &parts_.cancel;
  BucketStarter starter(state.plan(), parts_.sync, parts_.clock);
  const int64_t micro = std::max<int64_t>(1, state.micro_batch(batch.size()));
  int64_t first = 0;
  do {
    const int64_t count = std::min(micro, batch.size() - first);
    const bool is_last = first + count == batch.size();
    const bool is_whole = count == batch.size();
    if (!is_whole) micro_batch_.CopyRange(batch, first, count);
    const MonotonicTime begin = parts_.clock.Now();
    starter.set_active(is_last);
    local.loss_sum += state.model().ForwardBackward(
        is_whole ? batch : micro_batch_, options, starter);
    // The results of a cancelled pass must not become a step.
    if (parts_.cancel.is_cancelled()) {
      // Queued work still uses the gradients that collectives are given.
      RETURN_IF_ERROR(state.model().AwaitDevice().status());
      return parts_.cancel.status();
    }
    if (!state.model().is_asynchronous())
      NotePass(step, {begin, starter.forward_done(), parts_.clock.Now()},
               phases);
    options.write = Write::kAdd;
    first += count;
  } while (first < batch.size());
  // While a device is at work.
  local.sample_count = batch.size();
  local.sample_hash = SumOfSampleHashes(batch.sample_ids());
  local.global_sample_hash = GlobalSampleHash(step);
  return state.model().is_asynchronous() ? AwaitDevice(step, local, phases)
                                         : absl::OkStatus();
}

absl::Status GenerationRun::AwaitDevice(int64_t step, LocalStep& local,
                                        PhaseFigures& phases) {
  ASSIGN_OR_RETURN(const DeviceReport report,
                   parts_.state.model().AwaitDevice());
  local.loss_sum += report.loss_sum;
  // That of the step before, with which the device began this one.
  ASSIGN_OR_RETURN(phases.optimizer, parts_.state.TakeUpdateTime());
  // The device tells how long it took, not when: the last pass ended just now.
  const MonotonicTime end = parts_.clock.Now();
  const MonotonicTime backward = end - report.backward;
  NotePass(step, {backward - report.forward, backward, end}, phases);
  return absl::OkStatus();
}

void GenerationRun::NotePass(int64_t step, const PassTimes& times,
                             PhaseFigures& phases) {
  parts_.trace.Record({"forward", "compute", step, -1, 0, times.begin,
                       times.begin, times.backward});
  parts_.trace.Record({"backward", "compute", step, -1, 0, times.backward,
                       times.backward, times.end});
  phases.forward += times.backward - times.begin;
  phases.backward += times.end - times.backward;
}

absl::Status GenerationRun::EvaluateAfter(int64_t step) {
  if (parts_.state.dataset().size(Split::kHeldOut) > 0) {
    parts_.board.EnterPhase(TrainPhase::kEvaluate);
    const MonotonicTime begin = parts_.clock.Now();
    RETURN_IF_ERROR(FAIL_POINT("train.evaluate"));
    ASSIGN_OR_RETURN(const EvaluationRecord evaluation,
                     Evaluate(parts_.state, parts_.communicator, wait_timeout_,
                              parts_.clock, parts_.cancel));
    parts_.trace.Record(
        {"evaluate", "compute", step, -1, 0, begin, begin, parts_.clock.Now()});
    RETURN_IF_ERROR(FAIL_POINT("train.evaluated"));
    parts_.board.RecordEvaluation(step, evaluation);
    parts_.files.RecordEvaluation(step, evaluation);
  }
  RETURN_IF_ERROR(WriteSample(step));
  parts_.board.EnterPhase(TrainPhase::kStep);
  return absl::OkStatus();
}

absl::Status GenerationRun::WriteSample(int64_t step) {
  // The other ranks go on to the next step and wait there, as for a slow rank;
  // the text's time limit ends it before they give this one up.
  if (parts_.sampler == nullptr || parts_.communicator.rank() != 0)
    return absl::OkStatus();
  const ProgramConfig& config = parts_.state.config();
  const MonotonicTime end = parts_.clock.Now() + wait_timeout_ / 2;
  const absl::StatusOr<std::string> bytes = parts_.sampler->Write(
      parts_.state.model(),
      CounterRandom(config.program.seed() ^ kSampleStream,
                    static_cast<uint64_t>(step)),
      parts_.cancel, [&] { return parts_.clock.Now() >= end; });
  RETURN_IF_ERROR(parts_.cancel.status());
  if (!bytes.ok()) {
    RETURN_IF_ERROR(parts_.state.model().AwaitDevice().status());
    // A model that has diverged may recover; a text is not worth the job.
    LogEvent(
        LogLevel::kWarning, "sample.failed",
        {{"step", step}, {"message", std::string(bytes.status().message())}});
    return absl::OkStatus();
  }
  v1::Notice notice;
  notice.set_kind(v1::NOTICE_KIND_SAMPLE);
  notice.set_step(step);
  v1::TextSample& sample = *notice.mutable_sample();
  sample.set_step(step);
  sample.set_prompt(ReplaceInvalidUtf8(config.program.sample().prompt()));
  sample.set_text(ReplaceInvalidUtf8(*bytes));
  parts_.files.RecordSample(step, sample.prompt(), sample.text());
  parts_.on_notice(notice);
  return absl::OkStatus();
}

uint64_t GenerationRun::GlobalSampleHash(int64_t step) {
  const int64_t global_batch = parts_.state.config().program.global_batch();
  parts_.state.sampler().SamplesOf(step, global_batch, {0, global_batch},
                                   absl::MakeSpan(global_ids_));
  return SumOfSampleHashes(global_ids_);
}

}  // namespace ringmaster
