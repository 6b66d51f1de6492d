#include "server/coordinator/page/page_trace.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/status/status_macros.h"
#include "server/coordinator/rpc/ask_and_wait.h"
#include "server/coordinator/rpc/queries.h"

namespace ringmaster::coordinator {
namespace {

// Workers that do not answer are given up before: after kGatherBudget.
constexpr absl::Duration kPatience = absl::Seconds(4);

absl::StatusOr<int64_t> ParseStep(const char* name, const std::string& text) {
  int64_t step = 0;
  if (text.empty() || absl::SimpleAtoi(text, &step)) return step;
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is not a step: ", text));
}

}  // namespace

absl::StatusOr<v1::GetTraceRequest> ParseTraceQuery(
    const std::string& job, const std::string& first_step,
    const std::string& last_step) {
  v1::GetTraceRequest request;
  request.set_job(job);
  ASSIGN_OR_RETURN(const int64_t first, ParseStep("first_step", first_step));
  ASSIGN_OR_RETURN(const int64_t last, ParseStep("last_step", last_step));
  request.set_first_step(first);
  request.set_last_step(last);
  RETURN_IF_ERROR(CheckTrace(request));
  return request;
}

absl::StatusOr<v1::GetTraceResponse> AskForTrace(
    CoordinatorRuntime& runtime, const v1::GetTraceRequest& request) {
  using Answer = absl::StatusOr<v1::GetTraceResponse>;
  const auto awaited = std::make_shared<AwaitedAnswer<Answer>>();
  RETURN_IF_ERROR(runtime.GatherTrace(
      request.job(), request.first_step(), request.last_step(),
      [awaited](Answer answer) { awaited->Give(std::move(answer)); }));
  std::optional<Answer> answer = awaited->Await(Clock::Real(), kPatience);
  if (answer.has_value()) return *std::move(answer);
  return absl::UnavailableError(
      absl::StrCat("the coordinator has not answered for ",
                   absl::FormatDuration(kPatience), "; see its log"));
}

void KeepNewestStep(v1::GetTraceResponse& trace) {
  int64_t newest = INT64_MAX;  // that all have begun
  int64_t oldest = INT64_MAX;  // that any holds
  for (const v1::RankTrace& rank : trace.ranks()) {
    int64_t newest_of_rank = 0;
    for (const v1::TraceSpan& span : rank.spans()) {
      newest_of_rank = std::max(newest_of_rank, span.step());
      oldest = std::min(oldest, span.step());
    }
    if (rank.spans_size() > 0) newest = std::min(newest, newest_of_rank);
  }
  const int64_t kept = newest > oldest ? newest - 1 : newest;
  for (v1::RankTrace& rank : *trace.mutable_ranks()) {
    auto& spans = *rank.mutable_spans();
    spans.erase(std::remove_if(spans.begin(), spans.end(),
                               [kept](const v1::TraceSpan& span) {
                                 return span.step() != kept;
                               }),
                spans.end());
  }
}

}  // namespace ringmaster::coordinator
