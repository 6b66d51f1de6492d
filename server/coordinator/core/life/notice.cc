#include "server/coordinator/core/life/notice.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "google/protobuf/descriptor.h"

namespace ringmaster::coordinator {
namespace {

// Returns true if the checkpoint that `notice` tells of was copied in the
// present generation of `job`, after clocks were set back for it, and is the
// newest.
bool HasAllSetBack(const Job& job, const v1::Notice& notice) {
  // Older workers do not say. No earlier generation can have copied a step that
  // none of its clocks had got to; and one that makes no step, for a checkpoint,
  // writes that of its own.
  const bool is_of_generation =
      notice.snapshot_generation() == job.generation ||
      (notice.snapshot_generation() == 0 &&
       (notice.step() > job.clocks.highest ||
        (job.closing == Closing::kSave && notice.step() == job.resume_step)));
  return is_of_generation && notice.step() >= job.figures.checkpoint_step();
}

void KeepWithJob(Job& job, const v1::Notice& notice) {
  if (notice.kind() == v1::NOTICE_KIND_SAMPLE) job.sample = notice.sample();
  // Whoever asks how it goes is to know how its commands go on.
  if (notice.kind() == v1::NOTICE_KIND_COMMAND_FAILED &&
      job.state() == v1::JOB_STATE_RUNNING) {
    job.message = job.command_loss = notice.message();
  }
  if (!notice.checkpoint().empty()) {
    job.resumption.emplace().set_step(notice.step());
    job.resumption->set_checkpoint(notice.checkpoint());
    job.resumption->set_job_id(notice.checkpoint_job_id());
  }
  if (notice.kind() == v1::NOTICE_KIND_CHECKPOINT_WRITTEN) {
    if (HasAllSetBack(job, notice)) job.clocks.set_back = 0;
    job.checkpoint_duration = FromProto(notice.duration());
  }
  if (notice.kind() == v1::NOTICE_KIND_CHECKPOINT_WRITTEN ||
      notice.kind() == v1::NOTICE_KIND_CHECKPOINT_LOADED) {
    job.figures.set_checkpoint_step(
        std::max(job.figures.checkpoint_step(), notice.step()));
  }
}

void KeepWithMember(Member& member, const v1::Notice& notice) {
  if (notice.kind() == v1::NOTICE_KIND_CHECKPOINT_WRITTEN) {
    member.checkpoint_error.clear();
    member.written_step = std::max(member.written_step, notice.step());
  }
  if (notice.kind() == v1::NOTICE_KIND_CHECKPOINT_FAILED) {
    member.checkpoint_error =
        absl::StrCat("after step ", notice.step(), ": ", notice.message());
  }
}

}  // namespace

void OnNotice(Turn& turn, const Worker& worker, const v1::Notice& notice) {
  Member* const member = MemberOf(turn.state, worker);
  if (member == nullptr) return;
  Job& job = *turn.state.JobOf(worker);
  if (notice.generation() != job.generation || !job.is_assigned) return;
  // Once its end is decided, a job stays as the record of its end says.
  if (!job.ending.has_value()) KeepWithJob(job, notice);
  KeepWithMember(*member, notice);
  turn.Touch(job);
  const v1::NoticeEvent& event = v1::NoticeKind_descriptor()
                                     ->FindValueByNumber(notice.kind())
                                     ->options()
                                     .GetExtension(v1::notice_event);
  std::string message =
      notice.message().empty()
          ? absl::StrCat("after step ", notice.step(), ": ", event.message())
          : notice.message();
  turn.Emit(event.severity(), event.type(), job, worker.name,
            std::move(message), /*verdict=*/nullptr, notice.step());
}

}  // namespace ringmaster::coordinator
