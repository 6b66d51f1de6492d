#include "server/ctl/commands/log_reading.h"

#include "absl/strings/str_cat.h"

namespace ringmaster::ctl {

void LogReading::SetCursors(v1::GetLogsRequest& request) const {
  request.clear_cursors();
  for (const auto& [incarnation, sequence] : read_) {
    v1::LogCursor& cursor = *request.add_cursors();
    cursor.set_incarnation(incarnation);
    cursor.set_sequence(sequence);
  }
}

void LogReading::Take(const v1::GetLogsResponse& response) {
  for (const std::string& gap : LogGaps(response, read_)) Note(gap);
  for (const v1::ProcessLog& log : response.logs())
    read_[log.incarnation()] = log.page().last_sequence();
}

void LogReading::NoteMissing(const v1::GetLogsResponse& response) {
  for (const v1::MissingLog& missing : response.missing())
    Note(MissingLogText(missing));
}

void LogReading::Note(const std::string& text) {
  if (notes_.insert(text).second)
    console_.WriteError(absl::StrCat("note: ", text, "\n"));
}

}  // namespace ringmaster::ctl
