#include "server/coordinator/rpc/newest_steps.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ringmaster::coordinator {
namespace {

// Bytes that a span takes in its message, with its tag and length.
size_t BytesOf(const v1::TraceSpan& span) {
  constexpr size_t kTagAndLength = 6;
  return span.ByteSizeLong() + kTagAndLength;
}

void RemoveBefore(int64_t step, v1::RankTrace& trace) {
  auto& spans = *trace.mutable_spans();
  spans.erase(std::remove_if(spans.begin(), spans.end(),
                             [step](const v1::TraceSpan& span) {
                               return span.step() < step;
                             }),
              spans.end());
}

}  // namespace

void NewestSteps::Add(v1::RankTrace trace) {
  if (is_too_long_) trace.clear_spans();
  if (response_.first_fitting_step() > 0)
    RemoveBefore(response_.first_fitting_step(), trace);
  for (const v1::TraceSpan& span : trace.spans()) {
    bytes_of_step_[span.step()] += BytesOf(span);
    bytes_ += BytesOf(span);
  }
  *response_.add_ranks() = std::move(trace);
  if (bytes_ <= max_bytes_) return;
  auto first = bytes_of_step_.begin();
  while (bytes_ > max_bytes_) {
    bytes_ -= first->second;
    if (std::next(first) == bytes_of_step_.end()) is_too_long_ = true;
    first = bytes_of_step_.erase(first);
  }
  Cut(first != bytes_of_step_.end() ? first->first
                                    : std::numeric_limits<int64_t>::max());
}

void NewestSteps::Cut(int64_t step) {
  response_.set_first_fitting_step(step);
  for (v1::RankTrace& trace : *response_.mutable_ranks())
    RemoveBefore(step, trace);
}

absl::StatusOr<v1::GetTraceResponse> NewestSteps::Take() {
  if (is_too_long_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the trace of one step takes more than the ", max_bytes_,
                     " bytes that an answer can hold"));
  }
  auto& ranks = *response_.mutable_ranks();
  std::sort(ranks.begin(), ranks.end(),
            [](const v1::RankTrace& a, const v1::RankTrace& b) {
              return a.rank() < b.rank();
            });
  return std::move(response_);
}

}  // namespace ringmaster::coordinator
