#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {

std::string_view NameOf(v1::Role role) {
  return role == v1::ROLE_PARAMETER_SERVER ? "parameter server" : "worker";
}

bool IsEnded(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
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
