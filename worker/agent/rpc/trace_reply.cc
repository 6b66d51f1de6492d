#include "worker/agent/rpc/trace_reply.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "common/protocol/enum_pairs.h"

namespace ringmaster {
namespace {

constexpr EnumPair<v1::SpanState, SpanState> kStates[] = {
    {v1::SPAN_STATE_UNSPECIFIED, SpanState::kEnded},
    {v1::SPAN_STATE_QUEUED, SpanState::kQueued},
    {v1::SPAN_STATE_UNDER_WAY, SpanState::kUnderWay},
    {v1::SPAN_STATE_BROKEN_OFF, SpanState::kBrokenOff},
};

v1::TraceSpan ToProto(const TraceSpan& span) {
  v1::TraceSpan message;
  message.set_name(span.name);
  message.set_track(span.track);
  message.set_step(span.step);
  message.set_bucket(span.bucket);
  message.set_bytes(span.bytes);
  message.set_ready_nanos(span.ready.nanos());
  message.set_start_nanos(span.start.nanos());
  message.set_end_nanos(span.end.nanos());
  message.set_sequence(span.sequence);
  message.set_state(ProtoOf(kStates, span.state));
  message.set_is_on_device(span.is_on_device);
  if (span.awaited_rank >= 0) message.set_awaited_rank(span.awaited_rank);
  message.set_waited_nanos(absl::ToInt64Nanoseconds(span.waited));
  message.set_has_awaited_entered(span.has_awaited_entered);
  return message;
}

// The newest that fit, oldest first.
void AddCollectives(std::vector<TraceSpan> spans, const TrainProgress& progress,
                    int64_t max_bytes, v1::RankTrace& trace) {
  max_bytes = std::clamp<int64_t>(max_bytes, 0, kMaxFlightBytes);
  int64_t bytes = 0;
  while (!spans.empty()) {
    v1::TraceSpan message = ToProto(spans.back());
    // All of them are collectives.
    message.clear_track();
    const bool waits = message.state() == v1::SPAN_STATE_UNDER_WAY &&
                       !message.is_on_device() &&
                       progress.generation == trace.generation();
    if (waits && progress.waiting_for_rank >= 0)
      message.set_awaited_rank(progress.waiting_for_rank);
    bytes += static_cast<int64_t>(message.ByteSizeLong());
    if (bytes > max_bytes) break;
    *trace.add_spans() = std::move(message);
    spans.pop_back();
  }
  std::reverse(trace.mutable_spans()->begin(), trace.mutable_spans()->end());
  trace.set_left_out_count(static_cast<int64_t>(spans.size()));
}

}  // namespace

v1::SessionRequest ToMessage(const agent::SendTrace& send,
                             const WorkerIdentity& identity, const Trace& trace,
                             const TrainProgress& progress, MonotonicTime now) {
  const agent::TraceRequested& asked = send.request;
  v1::SessionRequest request;
  v1::TraceReply& reply = *request.mutable_trace_reply();
  reply.set_request_id(asked.request_id);
  v1::RankTrace& message = *reply.mutable_trace();
  message.set_rank(send.rank);
  message.set_worker(identity.name);
  message.set_taken_nanos(now.nanos());
  if (asked.generation > 0) {
    message.set_generation(asked.generation);
    AddCollectives(trace.Collectives(asked.generation, kRecordedSteps),
                   progress, asked.max_bytes, message);
    return request;
  }
  if (const auto held = trace.HeldSteps(); held.has_value()) {
    message.set_first_held_step(held->first);
    message.set_last_held_step(held->last);
  }
  const int64_t last = asked.last_step == 0
                           ? std::numeric_limits<int64_t>::max()
                           : asked.last_step;
  for (const TraceSpan& span : trace.Spans(asked.first_step, last))
    *message.add_spans() = ToProto(span);
  return request;
}

}  // namespace ringmaster
