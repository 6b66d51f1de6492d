#include "server/ctl/commands/command_output.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "server/ctl/render/output_line.h"

namespace ringmaster::ctl {

void CommandOutput::Show(Client& client) {
  v1::GetLogsRequest request;
  request.set_job(job_id_);
  request.mutable_filter()->set_min_severity(v1::LOG_SEVERITY_INFO);
  for (const auto& [incarnation, sequence] : read_) {
    v1::LogCursor& cursor = *request.add_cursors();
    cursor.set_incarnation(incarnation);
    cursor.set_sequence(sequence);
  }
  const absl::StatusOr<v1::GetLogsResponse> response = client.GetLogs(request);
  // A job without members yet, or a coordinator that does not answer.
  if (response.ok()) Print(*response);
}

void CommandOutput::Print(const v1::GetLogsResponse& response) {
  for (const std::string& gap : LogGaps(response, read_)) {
    if (gaps_.insert(gap).second)
      console_.WriteError(absl::StrCat("note: ", gap, "\n"));
  }
  std::vector<std::pair<absl::Time, OutputLine>> lines;
  for (const v1::ProcessLog& log : response.logs()) {
    read_[log.incarnation()] = log.page().last_sequence();
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
