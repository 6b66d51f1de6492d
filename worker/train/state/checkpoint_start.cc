#include "worker/train/state/checkpoint_start.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/optimizer/optimizer.h"
#include "common/status/annotate.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/train/state/broadcast_pieces.h"
#include "worker/train/state/move_elements.h"
#include "worker/train/state/settings_difference.h"

namespace ringmaster {
namespace {

// Reading takes longer than any other wait of a generation.
constexpr int kReadPatience = 10;

// The source's report on its attempt, in a form that can be sent to all ranks.
struct Attempt {
  static constexpr size_t kTextBytes = 1000;
  int64_t step = 0;             // -1: failed for good
  int64_t unreadable_step = 0;  // of one that is there and cannot be read
  double loss_scale = 0;        // 0: it has none
  int64_t good_updates = 0;     // of the scale
  EvaluationHistory evaluations;
  int64_t text_size = 0;
  std::array<char, kTextBytes> text = {};
};
static_assert(sizeof(Attempt) % sizeof(int64_t) == 0);

class Starter {
 public:
  Starter(TrainingState& state, Communicator& communicator,
          absl::Duration wait_timeout, Clock& clock, const CancelToken& cancel,
          DiskProgress& progress)
      : state_(state),
        communicator_(communicator),
        wait_timeout_(wait_timeout),
        clock_(clock),
        cancel_(cancel),
        progress_(progress) {}

  absl::StatusOr<CheckpointStart> Run() {
    ListCandidates();
    while (true) {
      ASSIGN_OR_RETURN(const int source, Elect());
      if (unreadable_step_ > newest_step_) return unreadable_;
      if (source < 0) {
        // A damaged one may have been read in part here, or a part of one may
        // have come in a generation that failed.
        RETURN_IF_ERROR(state_.ForgetLoaded());
        start_.step = 0;
        return start_;
      }
      const bool is_source = source == communicator_.rank();
      ASSIGN_OR_RETURN(const Attempt attempt, Announce(source));
      if (attempt.step < 0) return absl::InvalidArgumentError(TextOf(attempt));
      if (attempt.unreadable_step > unreadable_step_) {
        unreadable_step_ = attempt.unreadable_step;
        unreadable_ = Unreadable(TextOf(attempt));
      }
      if (attempt.step == 0) continue;  // the next candidate
      start_.step = attempt.step;
      start_.source_rank = source;
      if (!is_source) {
        start_.path.clear();
        start_.job_id.clear();
      }
      RETURN_IF_ERROR(BroadcastArenas(source));
      state_.MarkLoaded(attempt.step, LossScaleOf(attempt),
                        attempt.evaluations);
      RETURN_IF_ERROR(FAIL_POINT("train.checkpoint_loaded"));
      RETURN_IF_ERROR(communicator_.Run(Barrier(), Deadline()));
      RETURN_IF_ERROR(FAIL_POINT("train.checkpoint_agreed"));
      state_.ApplyLoaded();
      return start_;
    }
  }

 private:
  MonotonicTime Deadline() const { return clock_.Now() + wait_timeout_; }

  void Remark(const std::string& text) {
    absl::StrAppend(&start_.remark, start_.remark.empty() ? "" : "; ", text);
  }

  // Newest last, so that the next one is at the back. One that cannot be read is a
  // candidate: nobody knows whether it is damaged.
  void ListCandidates() {
    auto listed =
        ListCheckpoints(state_.config().program.checkpoint().directory());
    if (!listed.ok()) {
      CheckpointSummary& unknown = candidates_.emplace_back();
      unknown.step = std::numeric_limits<int64_t>::max();
      unknown.problem = listed.status();
      return;
    }
    for (CheckpointSummary& summary : *listed) {
      if (summary.step == 0) continue;
      if (IsLost(summary.problem)) {
        Remark(std::string(summary.problem.message()));
      } else {
        candidates_.push_back(std::move(summary));
      }
    }
    std::reverse(candidates_.begin(), candidates_.end());
  }

  // Returns the lowest rank with the newest candidate, whose step becomes
  // newest_step_; -1 if no rank has any.
  absl::StatusOr<int> Elect() {
    std::vector<int64_t> steps(static_cast<size_t>(communicator_.world_size()));
    steps[static_cast<size_t>(communicator_.rank())] =
        candidates_.empty() ? 0 : candidates_.back().step;
    RETURN_IF_ERROR(communicator_.Run(
        AllGather(BufferView::Of(std::span<int64_t>(steps))), Deadline()));
    const auto newest = std::max_element(steps.begin(), steps.end());
    newest_step_ = *newest;
    const auto rank = static_cast<int>(newest - steps.begin());
    return newest_step_ == 0 ? -1 : rank;
  }

  // The source reads the checkpoint and announces the result to all ranks.
  absl::StatusOr<Attempt> Announce(int source) {
    Attempt attempt;
    if (source == communicator_.rank()) {
      RETURN_IF_ERROR(state_.ReserveMoments());
      attempt = Read();
      RETURN_IF_ERROR(cancel_.status());
    }
    std::array<int64_t, sizeof(Attempt) / sizeof(int64_t)> words;
    static_assert(std::is_trivially_copyable_v<Attempt>);
    std::memcpy(words.data(), &attempt, sizeof(attempt));
    const CollectiveRequest request =
        Broadcast(BufferView::Of(std::span<int64_t>(words)), source);
    RETURN_IF_ERROR(communicator_.Run(
        request, clock_.Now() + kReadPatience * wait_timeout_));
    std::memcpy(static_cast<void*>(&attempt), words.data(), sizeof(attempt));
    return attempt;
  }

  Attempt Read() {
    const CheckpointSummary candidate = std::move(candidates_.back());
    candidates_.pop_back();
    const absl::StatusOr<CheckpointManifest> manifest = ReadFilesOf(candidate);
    Attempt attempt;
    if (manifest.ok()) {
      attempt.step = candidate.step;
      start_.path = candidate.path;
      start_.job_id = manifest->job_id;
      if (manifest->loss_scale.has_value()) {
        attempt.loss_scale = manifest->loss_scale->value();
        attempt.good_updates = manifest->loss_scale->good_updates();
      }
      attempt.evaluations = manifest->evaluations.value_or(EvaluationHistory());
      Compare(*manifest);
      return attempt;
    }
    const absl::Status& status = manifest.status();
    if (IsLost(status)) {
      Remark(absl::StrCat("passed over ", candidate.path, ": ",
                          std::string(status.message())));
    } else if (absl::IsFailedPrecondition(status) && candidate.problem.ok()) {
      attempt.step = -1;
    } else {
      attempt.unreadable_step = candidate.step;
    }
    const absl::string_view text = status.message();
    attempt.text_size =
        static_cast<int64_t>(std::min(text.size(), Attempt::kTextBytes));
    std::copy_n(text.begin(), attempt.text_size, attempt.text.begin());
    return attempt;
  }

  absl::StatusOr<CheckpointManifest> ReadFilesOf(
      const CheckpointSummary& candidate) {
    RETURN_IF_ERROR(candidate.problem);
    RETURN_IF_ERROR(
        Annotate(FAIL_POINT("train.checkpoint_read"), candidate.path));
    const ArenaSpans<float> arenas = state_.MutableArenas();
    return ReadCheckpoint(
        candidate.path, state_.plan(),
        {arenas.parameters, arenas.first_moment, arenas.second_moment},
        &cancel_, &progress_);
  }

  // Continuing with other data or settings may be intended, but is worth
  // reporting.
  void Compare(const CheckpointManifest& manifest) {
    if (manifest.data_fingerprint != state_.dataset().fingerprint())
      Remark("its data were others");
    const std::string settings = state_.config().CanonicalText();
    if (manifest.program_text == settings) return;
    const std::string difference =
        SettingsDifference(manifest.program_text, settings);
    Remark(absl::StrCat("its settings were others",
                        difference.empty() ? "" : ": ", difference));
  }

  static absl::string_view TextOf(const Attempt& attempt) {
    const int64_t size =
        std::clamp<int64_t>(attempt.text_size, 0, int64_t{Attempt::kTextBytes});
    return {attempt.text.data(), static_cast<size_t>(size)};
  }

  static absl::Status Unreadable(absl::string_view text) {
    return WithExitCode(
        absl::PermissionDeniedError(absl::StrCat(
            "the newest checkpoint cannot be read: ", text,
            "; mend that, remove it, or say train.checkpoint.resume: false")),
        ExitCode::kUnreadable);
  }

  static std::optional<LossScale> LossScaleOf(const Attempt& attempt) {
    if (attempt.loss_scale == 0) return std::nullopt;
    return LossScale(attempt.loss_scale, attempt.good_updates);
  }

  absl::Status BroadcastArenas(int source) {
    // Servers get it from rank 0, and the other ranks from them.
    if (state_.has_servers() && source == 0) return absl::OkStatus();
    const int rank = communicator_.rank();
    const bool keeps = !state_.has_servers() || rank == 0 || rank == source;
    const BroadcastOptions options = {.source = source,
                                      .wait_timeout = wait_timeout_};
    if (state_.is_sharded()) return SendParts(source);
    if (keeps) RETURN_IF_ERROR(state_.ReserveMoments());
    const ArenaSpans<float> arenas = state_.MutableArenas();
    const absl::Span<float> parts[] = {arenas.parameters, arenas.first_moment,
                                       arenas.second_moment};
    const int count = 1 + MomentsOf(state_.config().optimizer);
    for (int part = 0; part < count; ++part) {
      RETURN_IF_ERROR(
          keeps
              ? BroadcastPieces(parts[part], options, communicator_, clock_)
              : GivePieces(arenas.parameters, options, communicator_, clock_));
    }
    return absl::OkStatus();
  }

  // The parameters, and to each rank the moments of its parts.
  absl::Status SendParts(int source) {
    const BroadcastOptions options = {.source = source,
                                      .wait_timeout = wait_timeout_};
    const ArenaSpans<float> arenas = state_.MutableArenas();
    RETURN_IF_ERROR(
        BroadcastPieces(arenas.parameters, options, communicator_, clock_));
    const std::vector<Transfer> whole = {
        {{0, state_.plan().total_elems()}, source}};
    for (const absl::Span<float> moment :
         {arenas.first_moment, arenas.second_moment}) {
      if (moment.empty()) continue;
      RETURN_IF_ERROR(MoveElements(whole, moment, state_.held_ranges(), options,
                                   communicator_, clock_));
    }
    state_.ReleaseOthers();
    return absl::OkStatus();
  }

  TrainingState& state_;
  Communicator& communicator_;
  const absl::Duration wait_timeout_;
  Clock& clock_;
  const CancelToken& cancel_;
  DiskProgress& progress_;
  std::vector<CheckpointSummary> candidates_;  // oldest first
  int64_t newest_step_ = 0;                    // of any rank's candidates
  // The newest one that somebody could not read, and why. If nobody has another one
  // of its step, to start from an older one would be to lose what it holds.
  int64_t unreadable_step_ = 0;
  absl::Status unreadable_;
  CheckpointStart start_;
};

}  // namespace

std::string DescribeStart(const CheckpointStart& start) {
  std::string text = "starts from the beginning";
  if (!start.path.empty()) {
    text = absl::StrCat("starts from ", start.path);
  } else if (start.step > 0) {
    text = absl::StrCat("starts from the checkpoint of rank ",
                        start.source_rank, " after step ", start.step);
  }
  if (!start.remark.empty()) absl::StrAppend(&text, "; ", start.remark);
  return text;
}

absl::StatusOr<CheckpointStart> StartFromCheckpoint(TrainingState& state,
                                                    Communicator& communicator,
                                                    absl::Duration wait_timeout,
                                                    Clock& clock,
                                                    const CancelToken& cancel,
                                                    DiskProgress& progress) {
  return Starter(state, communicator, wait_timeout, clock, cancel, progress)
      .Run();
}

}  // namespace ringmaster
