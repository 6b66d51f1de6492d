#include "server/ctl/commands/target.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"

namespace ringmaster::ctl {
namespace {

constexpr std::string_view kWorkerPrefix = "worker/";
constexpr std::string_view kJobPrefix = "job/";

absl::StatusOr<Target> Named(Target::Kind kind, std::string name) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "give the name of a worker or a job, as in worker/NAME or job/NAME");
  }
  return Target{kind, std::move(name)};
}

}  // namespace

absl::StatusOr<Target> FindTarget(Client& client, const std::string& text) {
  if (text.starts_with(kWorkerPrefix))
    return Named(Target::Kind::kWorker, text.substr(kWorkerPrefix.size()));
  if (text.starts_with(kJobPrefix))
    return Named(Target::Kind::kJob, text.substr(kJobPrefix.size()));
  ASSIGN_OR_RETURN(const v1::Status status, client.GetStatus());
  const bool is_worker = std::any_of(
      status.workers().begin(), status.workers().end(),
      [&](const v1::Worker& worker) { return worker.name() == text; });
  const absl::Status job = client.GetJob(text).status();
  if (!job.ok() && !absl::IsNotFound(job)) return job;
  if (is_worker && job.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("a worker and a job are named ", text, ": say worker/",
                     text, " or job/", text));
  }
  return Named(job.ok() ? Target::Kind::kJob : Target::Kind::kWorker, text);
}

absl::Status NoSuchTarget(const std::string& name) {
  return absl::NotFoundError(
      absl::StrCat("there is no worker and no job ", name));
}

}  // namespace ringmaster::ctl
