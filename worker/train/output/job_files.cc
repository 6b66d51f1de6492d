#include "worker/train/output/job_files.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/optimizer/optimizer.h"
#include "common/protocol/proto_time.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "worker/checkpoint/checkpoint_directory.h"
#include "worker/checkpoint/directory_identity.h"
#include "worker/checkpoint/export_model.h"
#include "worker/collective/gather_words.h"

namespace ringmaster {
namespace {

// The interval at which a wait for the disk checks whether it should give up.
constexpr absl::Duration kLookAround = absl::Milliseconds(100);

std::string WrittenText(const CheckpointResult& result) {
  std::string text = absl::StrFormat("wrote %s, %.1f MB in %.2f s", result.path,
                                     static_cast<double>(result.bytes) / 1e6,
                                     absl::ToDoubleSeconds(result.duration));
  if (result.is_best) text += ", the best so far";
  if (!result.removal.ok()) {
    absl::StrAppend(
        &text, "; an older one stays: ", std::string(result.removal.message()));
  }
  if (!result.link.ok()) {
    absl::StrAppend(&text, "; ", std::string(result.link.message()));
  }
  return text;
}

// Returns true if `rank` writes checkpoints: the first rank of its host does, and
// the lowest of those that see the same directory.
bool WritesCheckpoints(const auto& standings, int rank) {
  const int64_t own = standings[static_cast<size_t>(rank)].directory;
  return own != 0 && std::none_of(standings.begin(), standings.begin() + rank,
                                  [own](const auto& lower) {
                                    return lower.directory == own;
                                  });
}

}  // namespace

JobFiles::JobFiles(TrainingState& state, std::string job_id,
                   ProgressBoard& board, OnNotice on_notice, Clock& clock)
    : state_(state),
      job_id_(std::move(job_id)),
      board_(board),
      on_notice_(std::move(on_notice)),
      clock_(clock) {}

JobFiles::~JobFiles() = default;

absl::Status JobFiles::BeginGeneration(int64_t generation, int local_rank,
                                       Communicator& communicator,
                                       absl::Duration wait_timeout) {
  generation_ = generation;
  evaluated_step_ = std::min(evaluated_step_, state_.applied_step());
  sampled_step_ = std::min(sampled_step_, state_.applied_step());
  if (state_.config().follows_evaluations()) {
    RETURN_IF_ERROR(
        AgreeOnEvaluations(communicator, clock_.Now() + wait_timeout));
  }
  if (directory().empty()) return absl::OkStatus();
  recorded_sent_bytes_ = 0;
  recorded_theory_bytes_ = 0;
  // Another rank may be the writer now, or this one try the same step again.
  if (!latest_failure_.ok()) snapshot_step_ = 0;
  latest_failure_ = absl::OkStatus();
  world_size_ = communicator.world_size();
  history_.ForgetAfter(state_.applied_step());
  KeepFiguresOpen(communicator.rank());
  const MonotonicTime deadline = clock_.Now() + wait_timeout;
  ASSIGN_OR_RETURN(const std::vector<Standing> standings,
                   Exchange(OwnStanding(local_rank, communicator.rank()),
                            communicator, deadline));
  is_writer_ = WritesCheckpoints(standings, communicator.rank());
  if (is_writer_ && writer_ == nullptr) OpenWriter();
  RETURN_IF_ERROR(TakeOverFigures(standings, communicator, deadline));
  return failure_;
}

void JobFiles::EndGeneration() {
  ReportResults();
  if (figures_ != nullptr) CheckFigures(figures_->Close());
}

JobFiles::Standing JobFiles::OwnStanding(int local_rank, int rank) {
  Standing own;
  if (local_rank == 0) {
    const absl::StatusOr<int64_t> identity = DirectoryIdentity(directory());
    if (identity.ok()) {
      own.directory = *identity;
    } else {
      Notify(v1::NOTICE_KIND_CHECKPOINT_FAILED, state_.applied_step(),
             std::string(identity.status().message()));
    }
  }
  // Without a file it lacks nothing.
  own.figures = state_.applied_step();
  if (rank == 0 && figures_ != nullptr) own.figures = figures_->last().step;
  own.last_step = history_.last_step();
  own.is_whole = history_.is_whole() ? 1 : 0;
  own.steps = static_cast<int64_t>(history_.size());
  return own;
}

absl::StatusOr<std::vector<JobFiles::Standing>> JobFiles::Exchange(
    const Standing& own, Communicator& communicator, MonotonicTime deadline) {
  constexpr size_t kWords = 5;
  const std::array<int64_t, kWords> mine = {
      own.directory, own.figures, own.last_step, own.is_whole, own.steps};
  ASSIGN_OR_RETURN(const std::vector<int64_t> words,
                   GatherWords(mine, communicator, deadline));
  std::vector<Standing> standings(words.size() / kWords);
  auto word = words.begin();
  for (Standing& standing : standings) {
    standing.directory = *word++;
    standing.figures = *word++;
    standing.last_step = *word++;
    standing.is_whole = *word++;
    standing.steps = *word++;
  }
  return standings;
}

absl::Status JobFiles::AgreeOnEvaluations(Communicator& communicator,
                                          MonotonicTime deadline) {
  using Words =
      std::array<int64_t, sizeof(EvaluationHistory) / sizeof(int64_t)>;
  // Those of steps that will be repeated are made again.
  if (state_.evaluations().last_step > state_.applied_step())
    state_.evaluations() = EvaluationHistory();
  const auto own = std::bit_cast<Words>(state_.evaluations());
  ASSIGN_OR_RETURN(const std::vector<int64_t> words,
                   GatherWords(own, communicator, deadline));
  for (auto at = words.begin(); at != words.end();
       at += static_cast<int>(own.size())) {
    Words theirs;
    std::copy_n(at, theirs.size(), theirs.begin());
    const auto history = std::bit_cast<EvaluationHistory>(theirs);
    // The lowest rank of those, so that all take the same.
    if (at == words.begin() ||
        history.last_step > state_.evaluations().last_step) {
      state_.evaluations() = history;
    }
  }
  return absl::OkStatus();
}

// All ranks know the same, so all take part, or none does.
absl::Status JobFiles::TakeOverFigures(const std::vector<Standing>& standings,
                                       Communicator& communicator,
                                       MonotonicTime deadline) {
  // The lowest rank that knows most of the newest step; often rank 0 itself.
  const auto source =
      std::max_element(standings.begin(), standings.end(),
                       [](const Standing& a, const Standing& b) {
                         return std::tie(a.last_step, a.is_whole) <
                                std::tie(b.last_step, b.is_whole);
                       });
  const auto count = static_cast<size_t>(std::max<int64_t>(
      0, std::min(source->last_step - standings[0].figures, source->steps)));
  if (count == 0) return absl::OkStatus();
  const int root = static_cast<int>(source - standings.begin());
  std::vector<int64_t> words(count * StepHistory::kRecordWords);
  if (communicator.rank() == root) ToWords(history_.Last(count), words);
  if (root != 0) {
    RETURN_IF_ERROR(communicator.Run(
        Broadcast(BufferView::Of(std::span<int64_t>(words)), root), deadline));
  }
  if (figures_ == nullptr) return absl::OkStatus();
  for (const StepRecord& record : FromWords(words))
    CheckFigures(figures_->RecordStep(record));
  return absl::OkStatus();
}

void JobFiles::NoteSettled(int64_t step, double gradient_norm,
                           double learning_rate) {
  StepRecord record = PartialRecord(step);
  record.gradient_norm = gradient_norm;
  record.learning_rate = learning_rate;
  record.world_size = world_size_;
  record.generation = generation_;
  history_.Add(record);
}

void JobFiles::OpenWriter() {
  CheckpointWriter::Options options;
  options.directory = directory();
  options.plan = &state_.plan();
  options.moment_count = MomentsOf(state_.config().optimizer);
  options.keep = state_.config().program.checkpoint().keep();
  options.protect = state_.config().program.initial_parameters();
  options.progress = &board_.disk();
  options.clock = &clock_;
  auto writer = CheckpointWriter::Create(options);
  if (writer.ok()) {
    writer_ = *std::move(writer);
    if (state_.model().HuggingFaceConfig().empty()) return;
    const ProgramConfig& config = state_.config();
    companions_ =
        FindCompanions(config.data.vocabulary_path, config.data.merges_path,
                       config.program.initial_parameters());
    return;
  }
  is_writer_ = false;
  Notify(v1::NOTICE_KIND_CHECKPOINT_FAILED, state_.applied_step(),
         std::string(writer.status().message()));
}

void JobFiles::KeepFiguresOpen(int rank) {
  if (rank != 0) {
    figures_.reset();
  } else if (figures_ == nullptr || figures_failed_ ||
             state_.applied_step() < figures_->last().step) {
    OpenFigures();
  }
}

void JobFiles::OpenFigures() {
  figures_.reset();
  figures_failed_ = false;
  StepFiguresLog::Options options;
  options.directory = directory();
  options.resume_step = state_.applied_step();
  auto figures = StepFiguresLog::Open(options, clock_);
  if (figures.ok()) {
    figures_ = *std::move(figures);
  } else {
    Notify(v1::NOTICE_KIND_FIGURES_FAILED, state_.applied_step(),
           std::string(figures.status().message()));
  }
}

void JobFiles::RecordStep(const StepFigures& figures) {
  if (directory().empty()) return;
  const double seconds = absl::ToDoubleSeconds(figures.duration);
  const PhaseFigures& phases = figures.phases;
  StepRecord record;
  record.step = figures.step;
  record.loss = figures.loss;
  record.gradient_norm = figures.gradient_norm;
  record.learning_rate = figures.learning_rate;
  record.seconds.data_wait = absl::ToDoubleSeconds(phases.data_wait);
  record.seconds.forward = absl::ToDoubleSeconds(phases.forward);
  record.seconds.backward = absl::ToDoubleSeconds(phases.backward);
  record.seconds.communication_wait =
      absl::ToDoubleSeconds(phases.communication_wait);
  record.seconds.commit = absl::ToDoubleSeconds(figures.commit);
  record.seconds.optimizer = absl::ToDoubleSeconds(phases.optimizer);
  record.seconds.checkpoint_snapshot = absl::ToDoubleSeconds(phases.snapshot);
  record.seconds.total = seconds;
  if (seconds > 0) {
    record.tokens_per_second = static_cast<double>(figures.targets) / seconds;
    record.samples_per_second = static_cast<double>(figures.samples) / seconds;
    if (figures.peak_seconds > 0)
      record.model_flops_utilization = figures.peak_seconds / seconds;
  }
  record.wire_payload_bytes =
      figures.payload_sent_bytes -
      std::exchange(recorded_sent_bytes_, figures.payload_sent_bytes);
  record.wire_theory_bytes =
      figures.payload_theory_bytes -
      std::exchange(recorded_theory_bytes_, figures.payload_theory_bytes);
  record.world_size = world_size_;
  record.generation = generation_;
  history_.Add(record);
  if (figures_ != nullptr) CheckFigures(figures_->RecordStep(record));
}

void JobFiles::RecordEvaluation(int64_t step, const EvaluationRecord& record) {
  evaluated_step_ = step;
  // One that was taken before it is known whether it is the best is taken again.
  if (step > state_.evaluations().last_step && step == snapshot_step_ &&
      state_.config().program.checkpoint().keep_best() &&
      record.loss < state_.evaluations().best_loss) {
    snapshot_step_ = 0;
  }
  state_.evaluations().Note(step, record.loss,
                            state_.config().program.early_stop().min_delta());
  if (figures_ != nullptr)
    CheckFigures(figures_->RecordEvaluation(step, record));
}

void JobFiles::RecordSample(int64_t step, const std::string& prompt,
                            const std::string& text) {
  sampled_step_ = step;
  if (figures_ != nullptr)
    CheckFigures(figures_->RecordSample(step, prompt, text));
}

JobFiles::Recorded JobFiles::recorded() const {
  if (figures_ == nullptr) return {evaluated_step_, sampled_step_};
  return {figures_->last().evaluation, figures_->last().sample};
}

void JobFiles::CheckFigures(const absl::Status& status) {
  if (status.ok()) return;
  figures_failed_ = true;
  Notify(v1::NOTICE_KIND_FIGURES_FAILED, state_.applied_step(),
         std::string(status.message()));
}

bool JobFiles::IsBest(int64_t step) const {
  return state_.config().program.checkpoint().keep_best() &&
         step == state_.evaluations().best_step;
}

bool JobFiles::IsSnapshotStep(int64_t step, bool is_last) const {
  const int64_t every = state_.config().program.checkpoint().every_steps();
  return !directory().empty() &&
         (is_last || (every > 0 && step % every == 0) || IsBest(step));
}

bool JobFiles::IsSnapshotDue(int64_t step, bool is_last) const {
  return writer_ != nullptr && is_writer_ && step != snapshot_step_ &&
         IsSnapshotStep(step, is_last);
}

absl::Duration JobFiles::SnapshotIfDue(int64_t step, bool is_last) {
  ReportResults();
  if (!IsSnapshotDue(step, is_last)) return absl::ZeroDuration();
  const MonotonicTime begin = clock_.Now();
  // The last one must not be skipped because the one before is being written.
  if (is_last && !writer_->Flush(begin).ok()) return absl::ZeroDuration();
  TakeSnapshot(step);
  return clock_.Now() - begin;
}

void JobFiles::TakeSnapshot(int64_t step) {
  if (const absl::Status fetched = state_.FetchToHost(); !fetched.ok()) {
    Notify(v1::NOTICE_KIND_CHECKPOINT_FAILED, step,
           std::string(fetched.message()));
    return;
  }
  CheckpointContents contents;
  contents.step = step;
  contents.plan = &state_.plan();
  contents.parameters = state_.parameters().Elems<float>();
  contents.first_moment = state_.first_moment();
  contents.second_moment = state_.second_moment();
  contents.is_best = IsBest(step);
  contents.job_id = job_id_;
  contents.model_kind = state_.config().model.kind;
  contents.model_settings = state_.config().model.CanonicalText();
  contents.program_text = state_.config().CanonicalText();
  contents.data_fingerprint = state_.dataset().fingerprint();
  if (state_.loss_scale().is_dynamic())
    contents.loss_scale = state_.loss_scale();
  if (state_.config().follows_evaluations())
    contents.evaluations = state_.evaluations();
  contents.creation_time = absl::Now();
  contents.config_json = state_.model().HuggingFaceConfig();
  contents.companions = companions_;
  if (!writer_->Snapshot(contents)) return;
  snapshot_step_ = step;
  snapshot_generation_ = generation_;
}

void JobFiles::Finish(int64_t step, const CancelToken& cancel) {
  if (writer_ == nullptr) return;
  AwaitWriter(cancel);
  if (IsSnapshotDue(step, /*is_last=*/true) && !cancel.is_cancelled()) {
    TakeSnapshot(step);
    AwaitWriter(cancel);
  }
  ReportResults();
}

void JobFiles::AwaitWriter(const CancelToken& cancel) {
  while (!cancel.is_cancelled() &&
         !writer_->Flush(clock_.Now() + kLookAround).ok()) {
  }
}

void JobFiles::ReportResults() {
  if (writer_ == nullptr) return;
  for (const CheckpointResult& result : writer_->TakeResults()) Report(result);
}

void JobFiles::Report(const CheckpointResult& result) {
  if (!result.status.ok()) {
    Notify(v1::NOTICE_KIND_CHECKPOINT_FAILED, result.step,
           std::string(result.status.message()));
    // It was due, and the job asked for it. A directory that cannot be used at all
    // is this worker's matter.
    failure_ = OfJob(failure_);
    return;
  }
  latest_failure_ = absl::OkStatus();
  board_.RecordCheckpoint(result.step);
  if (figures_ != nullptr) {
    CheckFigures(
        figures_->RecordCheckpoint(result.step, result.duration, result.bytes));
  }
  Notify(v1::NOTICE_KIND_CHECKPOINT_WRITTEN, result.step, WrittenText(result),
         result.duration);
}

void JobFiles::Notify(v1::NoticeKind kind, int64_t step, std::string message,
                      absl::Duration duration) {
  if (kind == v1::NOTICE_KIND_CHECKPOINT_FAILED) KeepFailure(step, message);
  v1::Notice notice;
  notice.set_kind(kind);
  notice.set_generation(generation_);
  notice.set_step(step);
  notice.set_message(std::move(message));
  if (duration > absl::ZeroDuration()) {
    *notice.mutable_duration() = ToProto(duration);
  }
  if (kind == v1::NOTICE_KIND_CHECKPOINT_WRITTEN && step == snapshot_step_)
    notice.set_snapshot_generation(snapshot_generation_);
  on_notice_(notice);
}

void JobFiles::KeepFailure(int64_t step, const std::string& message) {
  const auto failed = [](const std::string& text) {
    return WithExitCode(absl::ResourceExhaustedError(text),
                        ExitCode::kUnreadable);
  };
  latest_failure_ = failed(absl::StrCat("the last checkpoint, of step ", step,
                                        ", could not be written to ",
                                        directory(), ": ", message));
  if (failure_.ok() && state_.config().program.checkpoint().on_error() ==
                           v1::WRITE_ERROR_POLICY_FAIL) {
    failure_ = failed(absl::StrCat(
        "the checkpoint of step ", step,
        " could not be written, and train.checkpoint.on_error is fail: ",
        message));
  }
}

}  // namespace ringmaster
