#include "server/ctl/render/names.h"

#include <string_view>

#include "absl/strings/str_cat.h"

namespace ringmaster::ctl {
namespace {

std::string Strip(const std::string& name, std::string_view prefix,
                  int number) {
  if (!name.starts_with(prefix)) return absl::StrCat(number);
  return name.substr(prefix.size());
}

}  // namespace

std::string NameOf(v1::JobState state) {
  return Strip(v1::JobState_Name(state), "JOB_STATE_", state);
}

std::string NameOf(v1::WorkerState state) {
  return Strip(v1::WorkerState_Name(state), "WORKER_STATE_", state);
}

std::string NameOf(v1::Phase phase) {
  return phase == v1::PHASE_UNSPECIFIED
             ? "-"
             : Strip(v1::Phase_Name(phase), "PHASE_", phase);
}

std::string NameOf(v1::EventSeverity severity) {
  return Strip(v1::EventSeverity_Name(severity), "EVENT_SEVERITY_", severity);
}

std::string NameOf(v1::EvidenceKind kind) {
  return Strip(v1::EvidenceKind_Name(kind), "EVIDENCE_KIND_", kind);
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

}  // namespace ringmaster::ctl
