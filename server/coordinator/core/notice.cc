#include "server/coordinator/core/notice.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ringmaster::coordinator {
namespace {

struct NoticeStyle {
  EventSeverity severity;
  std::string_view type;
  // The text if the worker sends none.
  std::string_view message;
};

NoticeStyle StyleOf(NoticeKind kind) {
  switch (kind) {
    case NoticeKind::kSample:
      return {EventSeverity::kInfo, "job.sample", "the model wrote a sample"};
    case NoticeKind::kCheckpointWritten:
      return {EventSeverity::kInfo, "checkpoint.written",
              "a checkpoint is complete"};
    case NoticeKind::kCheckpointFailed:
      return {EventSeverity::kWarning, "checkpoint.failed",
              "a checkpoint could not be written"};
    case NoticeKind::kCheckpointLoaded:
      return {EventSeverity::kInfo, "checkpoint.loaded",
              "training starts from a checkpoint"};
    case NoticeKind::kFiguresFailed:
      return {EventSeverity::kWarning, "figures.failed",
              "figures can no longer be written"};
    case NoticeKind::kSamplesSkipped:
      break;
  }
  return {EventSeverity::kWarning, "data.skipped",
          "samples were left out because they are not valid"};
}

void KeepWithJob(Job& job, const NoticeReceived& notice) {
  if (notice.kind == NoticeKind::kSample) job.sample = notice.sample;
  if (notice.kind == NoticeKind::kCheckpointWritten ||
      notice.kind == NoticeKind::kCheckpointLoaded) {
    job.figures.set_checkpoint_step(
        std::max(job.figures.checkpoint_step(), notice.step));
  }
}

}  // namespace

void OnNotice(Turn& turn, const Worker& worker, const NoticeReceived& notice) {
  if (MemberOf(turn.state, worker) == nullptr) return;
  Job& job = *turn.state.ActiveJob();
  if (notice.generation != job.generation || !job.is_assigned) return;
  // Once its end is decided, a job is what the record of its end says.
  if (!job.ending.has_value()) KeepWithJob(job, notice);
  turn.Touch(job);
  const NoticeStyle style = StyleOf(notice.kind);
  std::string message =
      notice.message.empty()
          ? absl::StrCat("after step ", notice.step, ": ", Sv(style.message))
          : notice.message;
  turn.Emit(style.severity, style.type, job, worker.name, std::move(message),
            /*verdict=*/nullptr, notice.step);
}

}  // namespace ringmaster::coordinator
