#include "common/trace/chrome_trace.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ringmaster {
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

std::string StepsText(int64_t first, int64_t last) {
  if (first == last) return absl::StrCat("step ", first);
  if (last == 0) return absl::StrCat("step ", first, " and later");
  return absl::StrCat("steps ", first, " to ", last);
}

absl::Status NothingRecorded(const v1::GetTraceResponse& response,
                             const v1::GetTraceRequest& request) {
  const Trace::StepRange held = HeldSteps(response);
  if (held.last == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no rank of job ", request.job(),
                     " has recorded anything: only a job that runs can be "
                     "traced"));
  }
  const bool is_gone =
      request.last_step() != 0 && request.last_step() < held.first;
  const bool is_to_come = request.first_step() > held.last;
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", request.job(), is_gone ? " no longer has" : " has no",
      is_gone ? " a trace of " : " trace of ",
      StepsText(request.first_step(), request.last_step()),
      is_to_come ? " yet" : "", ": its ranks hold ",
      StepsText(held.first, held.last)));
}

}  // namespace

bool HasSpans(const v1::GetTraceResponse& response) {
  return std::any_of(
      response.ranks().begin(), response.ranks().end(),
      [](const v1::RankTrace& rank) { return rank.spans_size() > 0; });
}

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

absl::StatusOr<std::string> ChromeTrace(const v1::GetTraceRequest& request,
                                        const v1::GetTraceResponse& response) {
  if (!HasSpans(response)) return NothingRecorded(response, request);
  return ToChromeTrace(ToRankTraces(response));
}

}  // namespace ringmaster
