#include "server/ctl/commands/cancel_on_interrupt.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace ringmaster::ctl {

CancelOnInterrupt::CancelOnInterrupt(Client& client, Clock& clock,
                                     Options options)
    : client_(client), clock_(clock), options_(std::move(options)) {}

absl::Status CancelOnInterrupt::Check(const std::string& job_id) {
  if (!options_.is_interrupted()) return absl::OkStatus();
  if (!cancelled_at_.has_value()) {
    cancelled_at_ = clock_.Now();
    options_.note("cancelling the job; interrupt again to leave at once");
    const absl::StatusOr<v1::Job> job =
        client_.CancelJob(job_id, "interrupted");
    // A job that has just ended is what was wanted.
    if (!job.ok() && !absl::IsFailedPrecondition(job.status()))
      return absl::CancelledError(job.status().message());
  }
  if (clock_.Now() - *cancelled_at_ < options_.limit) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat(
      "job ", job_id, " did not end within ",
      absl::FormatDuration(options_.limit), " of being cancelled"));
}

}  // namespace ringmaster::ctl
