// `ringctl pki`: an authority, certificates and tokens for people who have none. It
// asks no coordinator, and keeps everything in a directory:
//   ca.pem, ca.key          the authority
//   NAME.pem, NAME.key      what it has issued
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_PKI_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_PKI_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/flags.h"
#include "server/ctl/commands/job_display.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {

struct PkiOptions {
  std::string directory;
  std::string domain = "ringmaster.internal";
  std::string role;
  std::string name;
  std::vector<std::string> hosts;
  int64_t days = 0;  // 0: the command's own
  std::string token_file;
};

// Adds the command with its commands; `options` must outlive the parsing.
void AddPkiCommand(FlagSet& flags, PkiOptions& options);

// Runs `command`, "pki init" and so on, as of `now`. Nothing that is there is
// replaced, but by renew.
//   ALREADY_EXISTS    a file that it would make is there
//   INVALID_ARGUMENT  a role, name or host that cannot be, no authority in the
//                     directory, or a file that cannot be read or written
[[nodiscard]] absl::StatusOr<int> RunPki(const std::string& command,
                                         const PkiOptions& options,
                                         absl::Time now, OutputFormat format,
                                         Console& console);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_PKI_H_
