// `ringctl doctor` checks whether this host is fit for jobs, before the first
// one, or for a job in particular.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_DOCTOR_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_DOCTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/config/flags.h"
#include "server/ctl/client/client.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

// The flags as they were written; "": not looked at.
struct DoctorFlags {
  std::string device = "cpu";
  std::string data_ports = {};
  std::string state_dir = {};
  std::string checkpoint = {};
  std::string peers = {};
  std::string bin_dir = {};  // "": beside ringctl
  // A job that workers of this host are to train; "": none.
  std::string job_file = {};
  std::vector<std::string> assignments = {};  // --set
  int slots = 0;                              // 0: as many as there are cores
};

// Adds the command and its flags; `doctor` must outlive the parsing.
void AddDoctorCommand(FlagSet& flags, DoctorFlags& doctor);

struct DoctorContext {
  Console& console;
  Clock& clock;
  OutputFormat format = OutputFormat::kTable;
  // For all looks at this machine together, and for each call.
  absl::Duration timeout = absl::Seconds(5);
  // HOST:PORT, or "": this machine alone.
  std::string coordinator;
  bool is_encrypted = false;
  // Makes a client of it; an error is one of the TLS flags.
  std::function<absl::StatusOr<std::unique_ptr<Client>>()> connect;
};

// Prints what it finds; the exit code is ExitCodeOfFindings.
//   INVALID_ARGUMENT  names the flag that is malformed
// To be called while the process has one thread, the main one, and after
// Interrupts::Block; a signal ends the process.
[[nodiscard]] absl::StatusOr<int> RunDoctor(const DoctorContext& context,
                                            const DoctorFlags& flags);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_DOCTOR_H_
