// LogReading: how far the logs of several processes have been read, and what was
// told of lines that are missing.
//
// Thread-compatible; the console must outlive it.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_LOG_READING_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_LOG_READING_H_

#include <set>
#include <string>

#include "ringmaster/v1/status_service.pb.h"
#include "server/ctl/render/log_view.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

class LogReading {
 public:
  explicit LogReading(Console& console) : console_(console) {}

  // Has `request` ask for what came since the last answer.
  void SetCursors(v1::GetLogsRequest& request) const;
  // Takes an answer, and notes which lines before it are lost.
  void Take(const v1::GetLogsResponse& response);
  // Notes who did not answer.
  void NoteMissing(const v1::GetLogsResponse& response);
  // Writes "note: ..." to stderr: the same thing once only, however often the
  // coordinator is asked.
  void Note(const std::string& text);

 private:
  Console& console_;
  LogPositions read_;
  std::set<std::string> notes_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_LOG_READING_H_
