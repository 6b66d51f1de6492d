#include "server/ctl/render/names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/enum_name.h"

namespace ringmaster::ctl {
std::string NameOf(v1::JobState state) { return EnumName(state); }

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
