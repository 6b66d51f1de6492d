#include "worker/device/cuda/emulator/graph.h"

#include <utility>

namespace ringmaster::cuda_emulator {
namespace {

// Returns true if every node comes before one of `last`, or is one of them.
bool IsAllBefore(const Graph& graph, const std::set<int>& last) {
  std::set<int> seen = last;
  std::vector<int> open(last.begin(), last.end());
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (const int before : graph.nodes[node].after) {
      if (seen.insert(before).second) open.push_back(before);
    }
  }
  return seen.size() == graph.nodes.size();
}

}  // namespace

std::vector<int> AdverseOrder(const Graph& graph) {
  const int count = static_cast<int>(graph.nodes.size());
  std::vector<int> waits_for(count);
  std::vector<std::vector<int>> followers(count);
  std::set<int> ready;
  for (int i = 0; i < count; ++i) {
    waits_for[i] = static_cast<int>(graph.nodes[i].after.size());
    for (const int before : graph.nodes[i].after)
      followers[before].push_back(i);
    if (waits_for[i] == 0) ready.insert(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int last_queued = *ready.rbegin();
    ready.erase(last_queued);
    order.push_back(last_queued);
    for (const int follower : followers[last_queued]) {
      if (--waits_for[follower] == 0) ready.insert(follower);
    }
  }
  return order;
}

cudaStreamCaptureMode& ThreadCaptureMode() {
  static thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

CaptureTable::Capture* CaptureTable::Find(const Stream& stream,
                                          Member** member) {
  const auto it = members_.find(&stream);
  if (it == members_.end()) return nullptr;
  *member = &it->second;
  return &captures_.at(it->second.capture);
}

bool CaptureTable::Invalidate(
    int device, const std::function<bool(const Capture&)>& is_hit) {
  bool was_there = false;
  for (auto& [number, capture] : captures_) {
    if (capture.graph->device == device && is_hit(capture)) {
      capture.is_valid = false;
      was_there = true;
    }
  }
  return was_there;
}

cudaStreamCaptureStatus CaptureTable::Status(const Stream& stream) {
  if (!is_active_) return cudaStreamCaptureStatusNone;
  MutexLock lock(mutex_);
  Member* member = nullptr;
  const Capture* const capture = Find(stream, &member);
  if (capture == nullptr) return cudaStreamCaptureStatusNone;
  return capture->is_valid ? cudaStreamCaptureStatusActive
                           : cudaStreamCaptureStatusInvalidated;
}

cudaError_t CaptureTable::Begin(const Stream& stream,
                                cudaStreamCaptureMode mode) {
  MutexLock lock(mutex_);
  if (members_.contains(&stream)) return cudaErrorIllegalState;
  const uint64_t number = ++last_number_;
  Capture& capture = captures_[number];
  capture.origin = &stream;
  capture.mode = mode;
  capture.thread = std::this_thread::get_id();
  capture.is_blocking = stream.is_blocking();
  capture.graph = std::make_shared<Graph>();
  capture.graph->device = stream.device();
  members_[&stream] = {.capture = number, .last = {}};
  is_active_ = true;
  return cudaSuccess;
}

cudaError_t CaptureTable::End(const Stream& stream,
                              std::shared_ptr<const Graph>* graph) {
  MutexLock lock(mutex_);
  graph->reset();
  Member* member = nullptr;
  Capture* const found = Find(stream, &member);
  if (found == nullptr) return cudaErrorIllegalState;
  if (found->mode != cudaStreamCaptureModeRelaxed &&
      found->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  if (found->origin != &stream) {
    found->is_valid = false;
    return cudaErrorStreamCaptureUnmatched;
  }
  const uint64_t number = member->capture;
  const std::set<int> last = member->last;
  const Capture capture = std::move(*found);
  captures_.erase(number);
  std::erase_if(members_, [number](const auto& entry) {
    return entry.second.capture == number;
  });
  is_active_ = !captures_.empty();
  if (!capture.is_valid) return cudaErrorStreamCaptureInvalidated;
  if (!IsAllBefore(*capture.graph, last)) return cudaErrorStreamCaptureUnjoined;
  *graph = capture.graph;
  return cudaSuccess;
}

cudaError_t CaptureTable::Add(const Stream& stream, GraphNode node) {
  MutexLock lock(mutex_);
  Member* member = nullptr;
  Capture* const capture = Find(stream, &member);
  if (capture == nullptr || !capture->is_valid) {
    return cudaErrorStreamCaptureInvalidated;
  }
  node.after = member->last;
  member->last = {static_cast<int>(capture->graph->nodes.size())};
  capture->graph->nodes.push_back(std::move(node));
  return cudaSuccess;
}

cudaError_t CaptureTable::Mark(const Stream& stream, CapturePoint* point) {
  MutexLock lock(mutex_);
  Member* member = nullptr;
  const Capture* const capture = Find(stream, &member);
  if (capture == nullptr || !capture->is_valid) {
    return cudaErrorStreamCaptureInvalidated;
  }
  *point = {.capture = member->capture, .nodes = member->last};
  return cudaSuccess;
}

cudaError_t CaptureTable::Fail(const Stream& stream, cudaError_t error) {
  MutexLock lock(mutex_);
  Member* member = nullptr;
  Capture* const capture = Find(stream, &member);
  if (capture != nullptr) capture->is_valid = false;
  return error;
}

cudaError_t CaptureTable::Join(const Stream& stream,
                               const CapturePoint& point) {
  MutexLock lock(mutex_);
  Member* member = nullptr;
  Capture* const own = Find(stream, &member);
  const auto it = captures_.find(point.capture);
  if (own == nullptr) {
    if (it == captures_.end()) return cudaErrorCapturedEvent;
    it->second.is_blocking |= stream.is_blocking();
    members_[&stream] = {.capture = point.capture, .last = point.nodes};
    return cudaSuccess;
  }
  if (!own->is_valid) return cudaErrorStreamCaptureInvalidated;
  if (member->capture == point.capture) {
    member->last.insert(point.nodes.begin(), point.nodes.end());
    return cudaSuccess;
  }
  own->is_valid = false;
  if (it == captures_.end()) return cudaErrorStreamCaptureIsolation;
  it->second.is_valid = false;
  return cudaErrorStreamCaptureMerge;
}

cudaError_t CaptureTable::CheckNullStream(int device) {
  if (!is_active_) return cudaSuccess;
  MutexLock lock(mutex_);
  const bool is_hit = Invalidate(
      device, [](const Capture& capture) { return capture.is_blocking; });
  return is_hit ? cudaErrorStreamCaptureImplicit : cudaSuccess;
}

cudaError_t CaptureTable::CheckUnsafe(int device) {
  const cudaStreamCaptureMode mode = ThreadCaptureMode();
  if (!is_active_ || mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  MutexLock lock(mutex_);
  const auto self = std::this_thread::get_id();
  const bool is_hit = Invalidate(device, [&](const Capture& capture) {
    return capture.thread == self
               ? capture.mode != cudaStreamCaptureModeRelaxed
               : mode == cudaStreamCaptureModeGlobal &&
                     capture.mode == cudaStreamCaptureModeGlobal;
  });
  return is_hit ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t CaptureTable::CheckDeviceWait(int device) {
  if (!is_active_) return cudaSuccess;
  MutexLock lock(mutex_);
  const bool is_hit =
      Invalidate(device, [](const Capture& /*capture*/) { return true; });
  return is_hit ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t CaptureTable::CheckEvent(const CapturePoint& point) {
  if (point.capture == 0) return cudaSuccess;
  MutexLock lock(mutex_);
  const auto it = captures_.find(point.capture);
  if (it != captures_.end()) it->second.is_valid = false;
  return cudaErrorCapturedEvent;
}

void CaptureTable::Forget(const Stream& stream) {
  if (!is_active_) return;
  MutexLock lock(mutex_);
  Member* member = nullptr;
  Capture* const capture = Find(stream, &member);
  if (capture == nullptr) return;
  capture->is_valid = false;
  const uint64_t number = member->capture;
  if (capture->origin == &stream) {
    // Nobody can end it any more.
    captures_.erase(number);
    std::erase_if(members_, [number](const auto& entry) {
      return entry.second.capture == number;
    });
    is_active_ = !captures_.empty();
  } else {
    members_.erase(&stream);
  }
}

void CaptureTable::Clear() {
  MutexLock lock(mutex_);
  captures_.clear();
  members_.clear();
  is_active_ = false;
}

}  // namespace ringmaster::cuda_emulator
