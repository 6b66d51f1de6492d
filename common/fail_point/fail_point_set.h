// FailPointSet: fail points that are chosen by a key, for places that every
// kind of message passes.
//
// Example:
//   static FailPointSet& points = *new FailPointSet({
//       {v1::SessionRequest::kHello, "coordinator.receive.hello"},
//       {v1::SessionRequest::kBeat, "coordinator.receive.beat"}});
//   RETURN_IF_ERROR(points.Pass(message.message_case()));
// Thread-safe. Like single points, a set lives as long as the process: make it
// with `new` in a static reference, as above.
#ifndef RINGMASTER_COMMON_FAIL_POINT_FAIL_POINT_SET_H_
#define RINGMASTER_COMMON_FAIL_POINT_FAIL_POINT_SET_H_

#include <deque>
#include <initializer_list>
#include <vector>

#include "absl/status/status.h"
#include "common/fail_point/fail_point.h"

namespace ringmaster {

class FailPointSet {
 public:
  struct Entry {
    // Not negative, and small, since it is an index. One entry for each key.
    int key;
    // A string literal, as FAIL_POINT takes it.
    const char* name;
  };

  // Registers all of them, so that FailPoint::Names() lists them at once.
  FailPointSet(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) {
      const auto index = static_cast<size_t>(entry.key);
      if (by_key_.size() <= index) by_key_.resize(index + 1, nullptr);
      by_key_[index] = &points_.emplace_back(entry.name);
    }
  }
  FailPointSet(const FailPointSet&) = delete;
  FailPointSet& operator=(const FailPointSet&) = delete;

  // Returns the status that FAIL_POINT of the key's name would evaluate to; OK
  // for a key without a name.
  absl::Status Pass(int key) {
    const auto index = static_cast<size_t>(key);
    if (index >= by_key_.size() || by_key_[index] == nullptr) {
      return absl::OkStatus();
    }
    return by_key_[index]->Pass();
  }

 private:
  std::deque<FailPoint> points_;  // they cannot move
  std::vector<FailPoint*> by_key_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_FAIL_POINT_FAIL_POINT_SET_H_
