#include "server/ctl/commands/trace.h"

#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/status_macros.h"
#include "common/trace/chrome_trace.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

// The parts of what was asked for that are not in `response`, a line each.
std::vector<std::string> Omissions(const v1::GetTraceResponse& response,
                                   const TraceOptions& options) {
  std::vector<std::string> lines;
  if (!response.missing_workers().empty()) {
    lines.push_back(absl::StrCat(
        "no trace from ",
        Printable(absl::StrJoin(response.missing_workers(), ", "))));
  }
  if (!HasSpans(response)) return lines;
  const Trace::StepRange held = HeldSteps(response);
  if (options.first_step > 0 && options.first_step < held.first) {
    lines.push_back(absl::StrCat("note: steps before ", held.first,
                                 " are gone: the ranks have overwritten them"));
  }
  if (response.first_fitting_step() > 0) {
    lines.push_back(absl::StrCat(
        "note: steps before ", response.first_fitting_step(),
        " are left out: they do not fit one answer; ask for them with "
        "--last_step=",
        response.first_fitting_step() - 1));
  }
  return lines;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << '\n';
  file.close();
  if (file) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write the trace to ", path));
}

}  // namespace

absl::StatusOr<int> RunTrace(const CommandContext& context,
                             const TraceOptions& options) {
  ASSIGN_OR_RETURN(const v1::GetTraceResponse response,
                   context.client.GetTrace(options.job, options.first_step,
                                           options.last_step));
  for (const std::string& line : Omissions(response, options))
    context.console.WriteError(absl::StrCat(line, "\n"));
  v1::GetTraceRequest request;
  request.set_job(options.job);
  request.set_first_step(options.first_step);
  request.set_last_step(options.last_step);
  ASSIGN_OR_RETURN(const std::string trace, ChromeTrace(request, response));
  if (options.file.empty() || options.file == "-") {
    context.console.Write(absl::StrCat(trace, "\n"));
  } else {
    RETURN_IF_ERROR(WriteFile(options.file, trace));
  }
  return 0;
}

}  // namespace ringmaster::ctl
