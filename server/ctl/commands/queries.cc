#include "server/ctl/commands/queries.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/config/version.h"
#include "common/config/yaml_to_proto.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "nlohmann/json.hpp"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/job_view.h"
#include "server/ctl/render/listing.h"
#include "server/ctl/render/queue_table.h"
#include "server/ctl/render/recovery_view.h"

namespace ringmaster::ctl {
namespace {

constexpr int kSuccess = 0;

void WriteLines(Console& console, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) console.Write(absl::StrCat(line, "\n"));
}

// The answer as JSON if that was asked for, else as `lines`.
int Answer(const CommandContext& context,
           const google::protobuf::Message& message,
           const std::vector<std::string>& lines) {
  if (context.format == OutputFormat::kJson) {
    context.console.Write(ToJsonLine(message, /*is_indented=*/true));
  } else {
    WriteLines(context.console, lines);
  }
  return kSuccess;
}

// `request` says what is to be different.
absl::StatusOr<int> Change(const CommandContext& context,
                           v1::ChangeJobRequest request, const std::string& job,
                           const std::string& reason) {
  request.set_job(job);
  request.set_reason(reason);
  ASSIGN_OR_RETURN(const v1::Job changed, context.client.ChangeJob(request));
  return Answer(context, changed, {StateLine(changed)});
}

}  // namespace

absl::StatusOr<int> RunStatus(const CommandContext& context,
                              const StatusOptions& options) {
  ASSIGN_OR_RETURN(const v1::Status status,
                   context.client.GetStatus(FilterOf(options)));
  return Answer(context, status,
                StatusLines(status, absl::Now(), context.console.GetStyle()));
}

absl::StatusOr<int> RunWorkers(const CommandContext& context,
                               const StatusOptions& options) {
  ASSIGN_OR_RETURN(const v1::Status status,
                   context.client.GetStatus(FilterOf(options)));
  v1::Status only_workers;
  *only_workers.mutable_workers() = status.workers();
  return Answer(context, only_workers,
                WorkerLines(status, context.console.GetStyle()));
}

absl::StatusOr<int> RunQueues(const CommandContext& context,
                              const std::string& file) {
  if (!file.empty()) {
    v1::SetQueuesRequest request;
    RETURN_IF_ERROR(YamlFileToProto(file, *request.mutable_file()));
    RETURN_IF_ERROR(context.client.SetQueues(request));
  }
  ASSIGN_OR_RETURN(const v1::Status status, context.client.GetStatus());
  v1::Status only_queues;
  *only_queues.mutable_queues() = status.queues();
  return Answer(context, only_queues,
                QueueTable(status, context.console.GetStyle()));
}

absl::StatusOr<int> RunJob(const CommandContext& context,
                           const std::string& job) {
  ASSIGN_OR_RETURN(const v1::Job found, context.client.GetJob(job));
  return Answer(context, found,
                JobLines(found, absl::Now(), context.console.GetStyle()));
}

absl::StatusOr<int> RunExplain(const CommandContext& context,
                               const std::string& job) {
  ASSIGN_OR_RETURN(const v1::ExplainJobResponse explanation,
                   context.client.ExplainJob(job));
  return Answer(context, explanation,
                ExplainLines(explanation, context.console.GetStyle()));
}

absl::StatusOr<int> RunCancel(const CommandContext& context,
                              const std::string& job,
                              const std::string& reason) {
  ASSIGN_OR_RETURN(const v1::Job cancelled,
                   context.client.CancelJob(job, reason));
  return Answer(context, cancelled, {StateLine(cancelled)});
}

absl::StatusOr<int> RunPriority(const CommandContext& context,
                                const std::string& job,
                                const std::string& priority,
                                const std::string& reason) {
  int32_t number = 0;
  if (!absl::SimpleAtoi(priority, &number)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PRIORITY must be a whole number, got ", Quoted(priority)));
  }
  v1::ChangeJobRequest request;
  request.set_priority(number);
  return Change(context, std::move(request), job, reason);
}

absl::StatusOr<int> RunScale(const CommandContext& context,
                             const std::string& job, const std::string& workers,
                             const std::string& reason) {
  const std::string range = "..";
  const size_t dots = workers.find(range);
  const bool is_one = dots == std::string::npos;
  int32_t least = 0;
  int32_t most = 0;
  if (!absl::SimpleAtoi(workers.substr(0, dots), &least) ||
      !absl::SimpleAtoi(is_one ? workers : workers.substr(dots + range.size()),
                        &most)) {
    return absl::InvalidArgumentError(
        absl::StrCat("WORKERS must be a number, as 4, or the fewest and the "
                     "most, as 2..8, got ",
                     Quoted(workers)));
  }
  v1::ChangeJobRequest request;
  request.set_min_workers(least);
  request.set_max_workers(most);
  return Change(context, std::move(request), job, reason);
}

absl::StatusOr<int> RunMove(const CommandContext& context,
                            const std::string& job, const std::string& queue,
                            const std::string& reason) {
  v1::ChangeJobRequest request;
  request.set_queue(queue);
  return Change(context, std::move(request), job, reason);
}

absl::StatusOr<int> RunSuspend(const CommandContext& context,
                               const std::string& job, bool is_suspended,
                               const std::string& reason) {
  v1::ChangeJobRequest request;
  request.set_suspended(is_suspended);
  return Change(context, std::move(request), job, reason);
}

absl::StatusOr<int> RunVersion(const CommandContext& context) {
  const absl::StatusOr<v1::Status> status = context.client.GetStatus();
  const std::string server = status.ok() ? status->coordinator().version() : "";
  if (context.format == OutputFormat::kJson) {
    const nlohmann::json versions = {{"client", kVersion}, {"server", server}};
    context.console.Write(
        versions.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
        "\n");
  } else {
    context.console.Write(
        absl::StrCat("client: ", std::string(kVersion), "\n"));
    if (status.ok())
      context.console.Write(absl::StrCat("server: ", Printable(server), "\n"));
  }
  RETURN_IF_ERROR(status.status());
  return kSuccess;
}

}  // namespace ringmaster::ctl
