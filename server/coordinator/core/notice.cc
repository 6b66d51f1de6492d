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
  // Where the worker has no words for it.
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

}  // namespace

void OnNotice(Turn& turn, const Worker& worker, const NoticeReceived& notice) {
  if (MemberOf(turn.state, worker) == nullptr) return;
  Job& job = *turn.state.ActiveJob();
  if (notice.generation != job.generation || !job.is_assigned) return;
  if (notice.kind == NoticeKind::kSample) job.sample = notice.sample;
  if (notice.kind == NoticeKind::kCheckpointWritten ||
      notice.kind == NoticeKind::kCheckpointLoaded) {
    job.checkpoint_step = std::max(job.checkpoint_step, notice.step);
  }
  turn.Touch(job);
  const NoticeStyle style = StyleOf(notice.kind);
  EmitEvent event;
  event.severity = style.severity;
  event.type = std::string(style.type);
  event.job_id = job.id;
  event.worker = worker.name;
  event.generation = job.generation;
  event.step = notice.step;
  event.message =
      notice.message.empty()
          ? absl::StrCat("after step ", notice.step, ": ", Sv(style.message))
          : notice.message;
  event.time = turn.time;
  turn.Do(std::move(event));
}

}  // namespace ringmaster::coordinator
