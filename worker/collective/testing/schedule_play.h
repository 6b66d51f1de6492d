// PlaySchedules runs the schedules of all ranks in one thread, with symbols
// instead of numbers and in a random order, and reports errors.
//
// It is as adverse as schedule.h allows: a channel holds few frames, a frame's
// elements are read only when the receiver takes it, and the operations of
// different peers and directions run in any order.
#ifndef RINGMASTER_WORKER_COLLECTIVE_TESTING_SCHEDULE_PLAY_H_
#define RINGMASTER_WORKER_COLLECTIVE_TESTING_SCHEDULE_PLAY_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/plan/topology.h"
#include "worker/collective/schedule.h"

namespace ringmaster {

// The values that one element of each rank can lead to; equal terms have equal
// numbers.
class Terms {
 public:
  enum class Kind { kUndefined, kOf, kSum, kRounded, kFinished };
  static constexpr int kUndefined = 0;

  Terms();
  int Of(int rank);
  // left + right; the order of the two counts, as it does for the bits of NaN.
  int Sum(int left, int right);
  int Rounded(int term);  // as a 16-bit wire does; once is enough
  int Finished(int term);

  // The number of the term whose sums have the smaller number on the left.
  [[nodiscard]] int Canonical(int term);
  // The number of times that each rank is in it, by rank.
  [[nodiscard]] std::map<int, int> Ranks(int term) const;
  [[nodiscard]] Kind KindOf(int term) const;

 private:
  using Key = std::tuple<Kind, int, int>;
  int Number(const Key& key);

  std::map<Key, int> numbers_;
  std::vector<Key> keys_;
  std::map<int, int> canonical_;
};

struct Element {
  int term = Terms::kUndefined;
  int64_t index = -1;  // in the buffer that it comes from

  friend bool operator==(const Element&, const Element&) = default;
};

struct PlayOptions {
  uint64_t seed = 1;
  int channel_frames = 1;  // sent to one peer and not yet taken by it
  bool is_wire_rounded = false;
};

struct Played {
  std::string problem;  // the first one; empty: none
  std::vector<std::vector<Element>> buffers;
  std::vector<std::vector<int64_t>> sent;  // elements, by sender and receiver
  // The ranks whose start each rank knows of at the end, by rank.
  std::vector<std::vector<bool>> known;
};

// `request` except for the rank.
[[nodiscard]] Played PlaySchedules(const ScheduleRequest& request,
                                   const Topology& topology,
                                   const PlayOptions& options, Terms* terms);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_TESTING_SCHEDULE_PLAY_H_
