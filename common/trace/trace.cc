#include "common/trace/trace.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "common/status/check.h"
#include "nlohmann/json.hpp"

namespace ringmaster {

Trace::Trace(int capacity) {
  RM_CHECK(capacity > 0, "the capacity of a Trace must be positive");
  MutexLock lock(mutex_);
  ring_.resize(capacity);
}

void Trace::Record(const TraceSpan& span) { (void)Open(span); }

int64_t Trace::Open(const TraceSpan& span) {
  MutexLock lock(mutex_);
  ring_[recorded_ % static_cast<int64_t>(ring_.size())] = span;
  return recorded_++;
}

void Trace::Replace(int64_t place, const TraceSpan& span) {
  MutexLock lock(mutex_);
  const auto capacity = static_cast<int64_t>(ring_.size());
  if (place < std::max(cleared_, recorded_ - capacity)) return;
  ring_[place % capacity] = span;
}

void Trace::Clear() {
  MutexLock lock(mutex_);
  cleared_ = recorded_;
}

template <typename Visit>
void Trace::ForEach(Visit visit) const {
  const auto capacity = static_cast<int64_t>(ring_.size());
  for (int64_t i = std::max(cleared_, recorded_ - capacity); i < recorded_;
       ++i) {
    visit(ring_[i % capacity]);
  }
}

std::vector<TraceSpan> Trace::Spans(int64_t first_step,
                                    int64_t last_step) const {
  MutexLock lock(mutex_);
  std::vector<TraceSpan> spans;
  ForEach([&](const TraceSpan& span) {
    const bool has_ended =
        span.state == SpanState::kEnded || span.state == SpanState::kBrokenOff;
    if (has_ended && span.step >= first_step && span.step <= last_step) {
      spans.push_back(span);
    }
  });
  return spans;
}

std::vector<TraceSpan> Trace::Collectives(int64_t generation,
                                          int64_t steps) const {
  std::vector<TraceSpan> spans;
  int64_t last = 0;
  {
    MutexLock lock(mutex_);
    ForEach([&](const TraceSpan& span) {
      if (span.sequence == 0 || span.generation != generation) return;
      spans.push_back(span);
      last = std::max(last, span.step);
    });
  }
  std::erase_if(
      spans, [&](const TraceSpan& span) { return span.step <= last - steps; });
  return spans;
}

std::optional<Trace::StepRange> Trace::HeldSteps() const {
  MutexLock lock(mutex_);
  std::optional<StepRange> held;
  ForEach([&](const TraceSpan& span) {
    if (!held.has_value()) held = {span.step, span.step};
    held->first = std::min(held->first, span.step);
    held->last = std::max(held->last, span.step);
  });
  return held;
}

namespace {

using Json = nlohmann::ordered_json;

double Micros(absl::Duration d) { return absl::ToDoubleMicroseconds(d); }

Json NameEvent(const char* what, int rank, int track, std::string_view name) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", rank},
          {"tid", track},
          {"args", {{"name", name}}}};
}

Json SpanEvent(const TraceSpan& span, int rank, int track,
               MonotonicTime origin) {
  Json args = {{"step", span.step}};
  if (span.bucket >= 0) args["bucket"] = span.bucket;
  if (span.bytes > 0) args["bytes"] = span.bytes;
  if (span.ready < span.start) {
    args["wait_us"] = Micros(span.start - span.ready);
  }
  if (span.sequence > 0) args["sequence"] = span.sequence;
  if (span.awaited_rank >= 0) args["awaited_rank"] = span.awaited_rank;
  if (span.state == SpanState::kBrokenOff) args["broken_off"] = true;
  return {{"ph", "X"},
          {"name", span.name},
          {"cat", span.track},
          {"pid", rank},
          {"tid", track},
          {"ts", Micros(span.start - origin)},
          {"dur", Micros(span.end - span.start)},
          {"args", std::move(args)}};
}

void AppendRank(const RankTrace& rank, Json& events) {
  std::string process = "rank " + std::to_string(rank.rank);
  if (!rank.worker.empty()) process += " (" + rank.worker + ")";
  events.push_back(NameEvent("process_name", rank.rank, 0, process));

  MonotonicTime origin = MonotonicTime::InfiniteFuture();
  for (const TraceSpan& span : rank.spans) {
    origin = std::min(origin, span.start);
  }
  std::map<std::string_view, int> tracks;  // Numbered as they first occur.
  for (const TraceSpan& span : rank.spans) {
    const auto [it, is_new] =
        tracks.try_emplace(span.track, static_cast<int>(tracks.size()));
    if (is_new) {
      events.push_back(
          NameEvent("thread_name", rank.rank, it->second, span.track));
    }
    events.push_back(SpanEvent(span, rank.rank, it->second, origin));
  }
}

}  // namespace

std::string ToChromeTrace(const std::vector<RankTrace>& ranks) {
  Json events = Json::array();
  for (const RankTrace& rank : ranks) AppendRank(rank, events);
  const Json document = {{"displayTimeUnit", "ms"},
                         {"traceEvents", std::move(events)}};
  // A worker's name is a peer's text: bad UTF-8 is replaced, not thrown at us.
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ringmaster
