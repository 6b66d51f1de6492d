#include "server/ctl/commands/queues.h"

#include "absl/strings/str_cat.h"
#include "common/config/yaml_to_proto.h"
#include "common/status/status_macros.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/queue_table.h"

namespace ringmaster::ctl {

void AddQueuesCommand(FlagSet& flags, QueuesOptions& options) {
  FlagSet& command = flags.AddCommand(
      "queues", "The shares of the pool: quotas, limits, and who uses them.");
  command.Add({.name = "apply",
               .unit = "FILE",
               .help = "First let the queues be those of this file, in YAML "
                       "(docs/jobs.md), in place of all before. For "
                       "operators."},
              &options.apply);
}

absl::StatusOr<int> RunQueues(const CommandContext& context,
                              const QueuesOptions& options) {
  if (!options.apply.empty()) {
    v1::SetQueuesRequest request;
    RETURN_IF_ERROR(YamlFileToProto(options.apply, *request.mutable_file()));
    RETURN_IF_ERROR(context.client.SetQueues(request));
  }
  ASSIGN_OR_RETURN(const v1::Status status, context.client.GetStatus());
  if (context.format == OutputFormat::kJson) {
    v1::Status only_queues;
    *only_queues.mutable_queues() = status.queues();
    context.console.Write(ToJsonLine(only_queues, /*is_indented=*/true));
    return 0;
  }
  for (const std::string& line :
       QueueTable(status, context.console.GetStyle())) {
    context.console.Write(absl::StrCat(line, "\n"));
  }
  return 0;
}

}  // namespace ringmaster::ctl
