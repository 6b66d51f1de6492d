#include "server/ctl/commands/describe.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/commands/target.h"
#include "server/ctl/render/describe_view.h"

namespace ringmaster::ctl {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const google::protobuf::Message& message) {
  return Json::parse(ToJsonLine(message));
}

template <typename Message>
Json ToJson(const std::vector<Message>& messages) {
  Json array = Json::array();
  for (const Message& message : messages) array.push_back(ToJson(message));
  return array;
}

Json ToJson(const JobDescription& description) {
  return {{"job", ToJson(description.job)},
          {"explanation", ToJson(description.explanation)},
          {"workers", ToJson(description.workers)},
          {"quarantines", ToJson(description.quarantines)},
          {"events", ToJson(description.events)}};
}

Json ToJson(const WorkerDescription& description) {
  Json json = {{"name", description.name}};
  if (description.worker.has_value())
    json["worker"] = ToJson(*description.worker);
  if (description.member.has_value())
    json["member"] = ToJson(*description.member);
  json["incidents"] = Json::array();
  for (const JobIncident& blamed : description.incidents) {
    json["incidents"].push_back(
        {{"job_id", blamed.job_id}, {"incident", ToJson(blamed.incident)}});
  }
  json["quarantines"] = ToJson(description.quarantines);
  json["events"] = ToJson(description.events);
  return json;
}

template <typename Description>
int Show(const CommandContext& context, const Description& description) {
  if (context.format == OutputFormat::kJson) {
    context.console.Write(absl::StrCat(ToJson(description).dump(1), "\n"));
    return 0;
  }
  for (const std::string& line :
       DescriptionLines(description, absl::Now(), context.console.GetStyle()))
    context.console.Write(absl::StrCat(line, "\n"));
  return 0;
}

}  // namespace

void AddDescribeCommand(FlagSet& flags, std::string& target) {
  FlagSet& command = flags.AddCommand(
      "describe", "Everything about one job or one worker, on a page.");
  command.AddArgument("WORKER|JOB", kTargetHelp, /*is_required=*/true, &target);
}

absl::StatusOr<int> RunDescribe(const CommandContext& context,
                                const std::string& target) {
  Client& client = context.client;
  ASSIGN_OR_RETURN(const Target found, FindTarget(client, target));
  if (found.kind == Target::Kind::kJob) {
    ASSIGN_OR_RETURN(const v1::Job job, client.GetJob(found.name));
    ASSIGN_OR_RETURN(const v1::ExplainJobResponse explanation,
                     client.ExplainJob(job.id()));
    ASSIGN_OR_RETURN(const v1::Status status, client.GetStatus());
    ASSIGN_OR_RETURN(const v1::ListEventsResponse events,
                     client.AllEvents(job.id()));
    return Show(context,
                DescribeJob(job, explanation, status, events.events()));
  }
  ASSIGN_OR_RETURN(const v1::Status status, client.GetStatus());
  ASSIGN_OR_RETURN(const v1::ListEventsResponse events, client.AllEvents(""));
  const WorkerDescription description =
      DescribeWorker(found.name, status, events.events());
  if (!description.worker.has_value() && description.events.empty() &&
      description.incidents.empty()) {
    return NoSuchTarget(found.name);
  }
  return Show(context, description);
}

}  // namespace ringmaster::ctl
