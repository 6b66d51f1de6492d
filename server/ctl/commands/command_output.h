// CommandOutput shows what the commands of a job print, from the log lines that
// its workers keep.
//
// Thread-compatible; its arguments must outlive it.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_COMMAND_OUTPUT_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_COMMAND_OUTPUT_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "ringmaster/v1/status_service.pb.h"
#include "server/ctl/client/client.h"
#include "server/ctl/commands/log_reading.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

class CommandOutput {
 public:
  CommandOutput(Console& console, std::string job_id)
      : console_(console), job_id_(std::move(job_id)), reading_(console) {}

  // Asks for the lines that came since the last time, and shows them: as
  // `[RANK] LINE`, each where its command wrote it, on standard output or
  // standard error. What could not be had is tried again at the next call; what
  // is lost for good is told. Returns whether nothing is to be tried again: all
  // who were asked have answered.
  [[nodiscard]] bool Show(Client& client);

  // Notes whose lines the last Show could not have.
  void TellMissing();

 private:
  void Print(const v1::GetLogsResponse& response);

  Console& console_;
  const std::string job_id_;
  LogReading reading_;
  absl::StatusOr<v1::GetLogsResponse> last_ = v1::GetLogsResponse();
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_COMMAND_OUTPUT_H_
