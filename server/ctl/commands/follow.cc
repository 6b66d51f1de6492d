#include "server/ctl/commands/follow.h"

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "server/ctl/render/names.h"

namespace ringmaster::ctl {

absl::StatusOr<absl::Time> ParseSince(const std::string& text, absl::Time now) {
  if (text.empty()) return absl::InfinitePast();
  absl::Duration ago;
  if (absl::ParseDuration(text, &ago)) return now - ago;
  absl::Time time;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return time;
  return absl::InvalidArgumentError(absl::StrCat(
      "--since=", text,
      ": give a duration, as in 10m, or a time with its zone, as in "
      "2026-01-02T12:03:04Z"));
}

// An explanation costs the coordinator less than a job with all its members.
absl::StatusOr<bool> HasEndedAt(Client& client, const std::string& job_id) {
  const absl::StatusOr<v1::ExplainJobResponse> found =
      client.ExplainJob(job_id);
  if (absl::IsNotFound(found.status())) return true;
  RETURN_IF_ERROR(found.status());
  return HasEnded(found->state());
}

}  // namespace ringmaster::ctl
