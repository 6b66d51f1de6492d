#include "server/ctl/render/names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/protocol/enum_name.h"
#include "common/protocol/proto_time.h"

namespace ringmaster::ctl {
std::string NameOf(v1::JobState state) { return EnumName(state); }

std::string StateName(const v1::Job& job) {
  return job.suspended() && job.state() == v1::JOB_STATE_QUEUED
             ? "SUSPENDED"
             : NameOf(job.state());
}

std::string NameOf(v1::WorkerState state) { return EnumName(state); }

std::string NameOf(v1::Phase phase) {
  return phase == v1::PHASE_UNSPECIFIED ? "-" : EnumName(phase);
}

std::string NameOf(v1::EventSeverity severity) { return EnumName(severity); }

std::string NameOf(v1::EvidenceKind kind) { return EnumName(kind); }

std::string NameOf(v1::CollectiveAlgorithm algorithm) {
  return absl::AsciiStrToLower(EnumName(algorithm));
}

Color ColorOf(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_RUNNING:
    case v1::JOB_STATE_SUCCEEDED:
      return Color::kGreen;
    case v1::JOB_STATE_FAILED:
      return Color::kRed;
    case v1::JOB_STATE_HALTING:
    case v1::JOB_STATE_STOPPING:
    case v1::JOB_STATE_CANCELLED:
      return Color::kYellow;
    default:
      return Color::kCyan;
  }
}

bool HasEnded(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

std::string MemberName(const std::string& worker, v1::Role role) {
  return absl::StrCat(Printable(worker),
                      role == v1::ROLE_PARAMETER_SERVER ? " (server)" : "");
}

int RankCount(const v1::Job& job) {
  return static_cast<int>(std::count_if(
      job.members().begin(), job.members().end(), [](const v1::Member& member) {
        return member.role() != v1::ROLE_PARAMETER_SERVER;
      }));
}

std::string RankCounts(const v1::Job& job) {
  const int ranks = RankCount(job);
  const int servers = job.members_size() - ranks;
  std::string text = absl::StrCat(ranks, ranks == 1 ? " rank" : " ranks");
  if (servers > 0) {
    absl::StrAppend(&text, ", ", servers,
                    servers == 1 ? " server" : " servers");
  }
  return text;
}

std::string DeviceName(const v1::Device& device) {
  switch (device.kind()) {
    case v1::DEVICE_KIND_CPU:
      return absl::StrCat("cpu:", device.index());
    case v1::DEVICE_KIND_CUDA:
      return absl::StrCat("cuda:", device.index());
    default:
      return "-";
  }
}

bool IsMeasured(const v1::TrainingFigures& figures) {
  return figures.step() > 0 &&
         (figures.loss() != 0 ||
          FromProto(figures.step_duration()) > absl::ZeroDuration());
}

std::string ElapsedText(const v1::Job& job, absl::Time now) {
  if (!job.has_start_time()) return "-";
  const absl::Time end = job.has_end_time() ? FromProto(job.end_time()) : now;
  if (end == absl::InfinitePast() ||
      (HasEnded(job.state()) && !job.has_end_time())) {
    return "-";
  }
  return HumanDuration(
      std::max(end - FromProto(job.start_time()), absl::ZeroDuration()));
}

}  // namespace ringmaster::ctl
