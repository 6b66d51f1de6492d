#include "server/ctl/commands/trace.h"

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/status_macros.h"
#include "common/trace/trace.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

// The names point into `response`.
std::vector<RankTrace> ToRankTraces(const v1::GetTraceResponse& response) {
  std::vector<RankTrace> ranks;
  for (const v1::RankTrace& from : response.ranks()) {
    RankTrace rank{.rank = from.rank(), .worker = from.worker(), .spans = {}};
    for (const v1::TraceSpan& span : from.spans()) {
      rank.spans.push_back(
          {.name = span.name().c_str(),
           .track = span.track().c_str(),
           .step = span.step(),
           .bucket = span.bucket(),
           .bytes = span.bytes(),
           .ready = MonotonicTime::FromNanos(span.ready_nanos()),
           .start = MonotonicTime::FromNanos(span.start_nanos()),
           .end = MonotonicTime::FromNanos(span.end_nanos())});
    }
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

bool HasSpans(const v1::GetTraceResponse& response) {
  return std::any_of(
      response.ranks().begin(), response.ranks().end(),
      [](const v1::RankTrace& rank) { return rank.spans_size() > 0; });
}

// The steps that any rank holds; {0, 0} if none does, or none says so: workers
// of release 0.1 do not.
Trace::StepRange HeldSteps(const v1::GetTraceResponse& response) {
  Trace::StepRange held;
  for (const v1::RankTrace& rank : response.ranks()) {
    if (rank.last_held_step() == 0) continue;
    held.first = held.last == 0 ? rank.first_held_step()
                                : std::min(held.first, rank.first_held_step());
    held.last = std::max(held.last, rank.last_held_step());
  }
  return held;
}

std::string StepsText(int64_t first, int64_t last) {
  if (first == last) return absl::StrCat("step ", first);
  if (last == 0) return absl::StrCat("step ", first, " and later");
  return absl::StrCat("steps ", first, " to ", last);
}

absl::Status NothingRecorded(const v1::GetTraceResponse& response,
                             const TraceOptions& options) {
  const Trace::StepRange held = HeldSteps(response);
  if (held.last == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no rank of job ", options.job,
                     " has recorded anything: only a job that runs can be "
                     "traced"));
  }
  const bool is_gone = options.last_step != 0 && options.last_step < held.first;
  const bool is_to_come = options.first_step > held.last;
  return absl::FailedPreconditionError(
      absl::StrCat("job ", options.job, is_gone ? " no longer has" : " has no",
                   is_gone ? " a trace of " : " trace of ",
                   StepsText(options.first_step, options.last_step),
                   is_to_come ? " yet" : "", ": its ranks hold ",
                   StepsText(held.first, held.last)));
}

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

absl::StatusOr<std::string> ChromeTrace(const v1::GetTraceResponse& response,
                                        const TraceOptions& options) {
  if (!HasSpans(response)) return NothingRecorded(response, options);
  return ToChromeTrace(ToRankTraces(response));
}

absl::StatusOr<int> RunTrace(const CommandContext& context,
                             const TraceOptions& options) {
  ASSIGN_OR_RETURN(const v1::GetTraceResponse response,
                   context.client.GetTrace(options.job, options.first_step,
                                           options.last_step));
  for (const std::string& line : Omissions(response, options))
    context.console.WriteError(absl::StrCat(line, "\n"));
  ASSIGN_OR_RETURN(const std::string trace, ChromeTrace(response, options));
  if (options.file.empty() || options.file == "-") {
    context.console.Write(absl::StrCat(trace, "\n"));
  } else {
    RETURN_IF_ERROR(WriteFile(options.file, trace));
  }
  return 0;
}

}  // namespace ringmaster::ctl
