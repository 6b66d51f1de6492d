#include "server/coordinator/core/types.h"

namespace ringmaster::coordinator {

std::string_view NameOf(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "QUEUED";
    case JobState::kGathering:
      return "GATHERING";
    case JobState::kPreparing:
      return "PREPARING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kHalting:
      return "HALTING";
    case JobState::kStopping:
      return "STOPPING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  return "UNKNOWN";
}

std::string_view NameOf(WorkerState state) {
  switch (state) {
    case WorkerState::kIdle:
      return "IDLE";
    case WorkerState::kAssigned:
      return "ASSIGNED";
    case WorkerState::kDraining:
      return "DRAINING";
    case WorkerState::kDetached:
      return "DETACHED";
  }
  return "UNKNOWN";
}

std::string_view NameOf(EventSeverity severity) {
  switch (severity) {
    case EventSeverity::kInfo:
      return "INFO";
    case EventSeverity::kWarning:
      return "WARNING";
    case EventSeverity::kError:
      return "ERROR";
  }
  return "UNKNOWN";
}

std::string_view NameOf(Phase phase) {
  switch (phase) {
    case Phase::kUnspecified:
      return "UNSPECIFIED";
    case Phase::kIdle:
      return "IDLE";
    case Phase::kPrepare:
      return "PREPARE";
    case Phase::kConnect:
      return "CONNECT";
    case Phase::kStep:
      return "STEP";
    case Phase::kEvaluate:
      return "EVALUATE";
    case Phase::kTransfer:
      return "TRANSFER";
    case Phase::kCheckpoint:
      return "CHECKPOINT";
    case Phase::kHalted:
      return "HALTED";
  }
  return "UNKNOWN";
}

std::string_view NameOf(Role role) {
  return role == Role::kParameterServer ? "parameter server" : "worker";
}

bool IsEnded(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

absl::Duration RecoveryCost::Total() const {
  absl::Duration total;
  for (const auto& part : {detect, halt, assign, connect, first_step}) {
    total += part.value_or(absl::ZeroDuration());
  }
  return total;
}

absl::Duration Goodput::Total() const {
  return waiting + starting + training + detecting + recovering + repeating +
         stopping;
}

double Goodput::Ratio() const {
  const absl::Duration since = Total() - before_first_step;
  if (since <= absl::ZeroDuration()) return 0;
  return absl::FDivDuration(training, since);
}

}  // namespace ringmaster::coordinator
