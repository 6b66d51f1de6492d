#include "server/ctl/commands/audit.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "common/status/status_macros.h"
#include "server/ctl/commands/json_line.h"
#include "server/ctl/render/table.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

// "alice (submitter)"; "-" of whom only the address is known.
std::string CallerText(const v1::Caller& caller) {
  if (caller.name().empty()) return "-";
  return Printable(caller.roles().empty() ? caller.name()
                                          : absl::StrCat(caller.name(), " (",
                                                         caller.roles(), ")"));
}

}  // namespace

void AddAuditCommand(FlagSet& flags, AuditOptions& options) {
  FlagSet& command = flags.AddCommand("audit",
                                      "Who changed what, newest first; for "
                                      "operators. The coordinator keeps the "
                                      "last 10000 changes.");
  command.Add({.name = "entries",
               .short_name = 'n',
               .unit = "N",
               .help = "Most entries to show; 0: all.",
               .min = 0,
               .max = 1'000'000},
              &options.entries);
}

absl::StatusOr<int> RunAudit(const CommandContext& context,
                             const AuditOptions& options) {
  ASSIGN_OR_RETURN(const v1::ListAuditResponse audit,
                   context.client.ListAudit(options.entries));
  if (context.format == OutputFormat::kJson) {
    context.console.Write(ToJsonLine(audit, /*is_indented=*/true));
    return 0;
  }
  if (audit.entries().empty()) {
    context.console.Write("no changes yet\n");
    return 0;
  }
  TextTable table({{"TIME"}, {"CALLER"}, {"FROM"}, {"CHANGE"}, {"DETAIL"}});
  const Style style = context.console.GetStyle();
  for (const v1::AuditEntry& entry : audit.entries()) {
    table.AddRow({FormatTime(FromProto(entry.time()), style),
                  CallerText(entry.caller()),
                  Printable(entry.caller().address()),
                  Printable(absl::StrCat(entry.action(), " ", entry.object())),
                  Printable(entry.detail().empty() ? entry.request_id()
                                                   : entry.detail())});
  }
  for (const std::string& line : table.Lines(style))
    context.console.Write(absl::StrCat(line, "\n"));
  return 0;
}

}  // namespace ringmaster::ctl
