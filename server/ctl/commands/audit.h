// `ringctl audit`: who changed what.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_AUDIT_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_AUDIT_H_

#include "absl/status/statusor.h"
#include "common/config/flags.h"
#include "server/ctl/commands/context.h"

namespace ringmaster::ctl {

struct AuditOptions {
  int64_t entries = 100;  // most of them; 0: all
};

// Adds the command; `options` must outlive the parsing.
void AddAuditCommand(FlagSet& flags, AuditOptions& options);

[[nodiscard]] absl::StatusOr<int> RunAudit(const CommandContext& context,
                                           const AuditOptions& options);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_AUDIT_H_
