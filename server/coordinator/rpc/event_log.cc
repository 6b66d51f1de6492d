#include "server/coordinator/rpc/event_log.h"

#include <algorithm>
#include <utility>

namespace ringmaster::coordinator {

const v1::Event& EventLog::Append(v1::Event event) {
  if (events_.size() >= max_events_) events_.pop_front();
  event.set_sequence(++last_sequence_);
  events_.push_back(std::move(event));
  return events_.back();
}

google::protobuf::RepeatedPtrField<v1::Event> EventLog::After(
    int64_t after_sequence, std::string_view job_id, int max_count,
    size_t max_bytes) const {
  google::protobuf::RepeatedPtrField<v1::Event> found;
  size_t bytes = 0;
  auto it = std::upper_bound(events_.begin(), events_.end(), after_sequence,
                             [](int64_t sequence, const v1::Event& event) {
                               return sequence < event.sequence();
                             });
  for (; it != events_.end() && found.size() < max_count; ++it) {
    if (!job_id.empty() && it->job_id() != job_id) continue;
    bytes += it->ByteSizeLong();
    if (bytes > max_bytes && !found.empty()) break;
    *found.Add() = *it;
  }
  return found;
}

const v1::Event* EventLog::LastOf(std::string_view worker) const {
  for (auto it = events_.rbegin(); it != events_.rend(); ++it)
    if (it->worker() == worker) return &*it;
  return nullptr;
}

}  // namespace ringmaster::coordinator
