#include "server/ctl/commands/command_output.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/output_line.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

bool CommandOutput::Show(Client& client) {
  v1::GetLogsRequest request;
  request.set_job(job_id_);
  request.mutable_filter()->set_min_severity(v1::LOG_SEVERITY_INFO);
  reading_.SetCursors(request);
  last_ = client.GetLogs(request);
  if (last_.ok()) Print(*last_);
  return last_.ok() && last_->missing().empty();
}

void CommandOutput::TellMissing() {
  if (last_.ok()) {
    reading_.NoteMissing(*last_);
  } else {
    reading_.Note(
        absl::StrCat("the last lines of the commands are missing: ",
                     Printable(std::string(last_.status().message()))));
  }
}

void CommandOutput::Print(const v1::GetLogsResponse& response) {
  reading_.Take(response);
  std::vector<std::pair<absl::Time, OutputLine>> lines;
  for (const v1::ProcessLog& log : response.logs()) {
    for (const v1::LogLine& line : log.page().lines()) {
      // A worker also keeps the output of jobs before this one.
      std::optional<OutputLine> output = ParseOutputLine(line);
      if (output.has_value() && output->job == job_id_)
        lines.emplace_back(FromProto(line.time()), *std::move(output));
    }
  }
  // Lines of the same instant stay in their process's order.
  std::stable_sort(
      lines.begin(), lines.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [time, line] : lines) {
    const std::string text = absl::StrCat(ToText(line), "\n");
    if (line.is_error) {
      console_.WriteError(text);
    } else {
      console_.Write(text);
    }
  }
}

}  // namespace ringmaster::ctl
