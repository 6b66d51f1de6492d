// `ringctl bundle`: all that can be had about a job in one archive, for a bug
// report.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_BUNDLE_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_BUNDLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/config/flags.h"
#include "common/files/new_file.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct BundleOptions {
  std::string job;   // id or name
  std::string file;  // "": BundleName
  bool may_replace = false;
};

void AddBundleCommand(FlagSet& flags, BundleOptions& options);

// "ringmaster-JOB-20260102T120304Z.tar.gz".
[[nodiscard]] std::string BundleName(const std::string& job, absl::Time now);

// Packs the job's spec, status, events, explanation, trace and logs into `file`,
// which is at `path`, with a manifest of what is in it, and of what could not be
// had and why. What is missing is no error, once the job is known.
//   NOT_FOUND       there is no such job
//   ALREADY_EXISTS  `file` is there, and may not be replaced
//   UNAVAILABLE     there is no coordinator
[[nodiscard]] absl::StatusOr<int> RunBundle(const CommandContext& context,
                                            const std::string& job,
                                            const std::string& path,
                                            NewFile& file);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_BUNDLE_H_
