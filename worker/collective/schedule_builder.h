// ScheduleBuilder writes down one rank's operations and counts what they wait
// for; below it are the parts that schedules are made of.
//
// Internal to schedule.cc and its neighbours. Pure.
#ifndef RINGMASTER_WORKER_COLLECTIVE_SCHEDULE_BUILDER_H_
#define RINGMASTER_WORKER_COLLECTIVE_SCHEDULE_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/plan/partition.h"
#include "common/plan/topology.h"
#include "worker/collective/schedule.h"

namespace ringmaster {

// The end of an operation: of a receive, of a local step, or (by default) of
// nothing. It implies that every earlier receive from the same peer, or every
// earlier local step, is over too.
struct After {
  int peer = -1;
  int64_t count = 0;
};

class ScheduleBuilder {
 public:
  // `request` must outlive the builder.
  ScheduleBuilder(const ScheduleRequest& request, int world_size);

  [[nodiscard]] const ScheduleRequest& request() const { return request_; }
  [[nodiscard]] int rank() const { return request_.rank; }
  [[nodiscard]] int world_size() const { return world_size_; }
  // The rank `distance` places further round the ring; may be negative.
  [[nodiscard]] int RankAt(int distance) const;

  // The segments of a range. An empty one is one segment too: its empty frame
  // is sent.
  [[nodiscard]] std::vector<ElemRange> Split(ElemRange range) const;

  // Reserves `count` elements of scratch for the caller alone; returns the
  // first.
  int64_t ReserveScratch(int64_t count);

  void Send(int peer, int step, ElemRange range, After after,
            Area area = Area::kBuffer);
  // Receive into the buffer, in place of what is there (Keep) or combined with
  // it (Reduce).
  After Keep(int peer, int step, ElemRange range, After after);
  After Reduce(int peer, int step, ElemRange range, After after);

  // Work between a range of the buffer and as many elements of scratch. With an
  // empty range these and the next two are left out, and are over with `after`.
  After CopyToScratch(ElemRange range, int64_t scratch_begin, bool is_as_wire);
  After ReduceFromScratch(ElemRange range, int64_t scratch_begin, After after);
  // Turns the range into what it would be after a trip over the wire.
  After RoundAsWire(ElemRange range);
  // Also left out where results need no finish.
  After Finish(ElemRange range, After after);

  [[nodiscard]] Schedule Build() &&;

 private:
  After Receive(int peer, int step, ElemRange range, bool is_reduced,
                After after);
  After Local(const Operation& operation, ElemRange range, After after);
  // Adds `operation` on `range`, to begin once `after` is over.
  void Add(Operation operation, ElemRange range, After after);

  const ScheduleRequest& request_;
  const int world_size_;
  std::vector<int64_t> received_;  // per peer
  int64_t local_ = 0;
  Schedule schedule_;
};

// Sums ranges of the buffer over `ranks`, one of them this rank, in the order
// of ranks: the sum begins with the first rank's elements, to which the others'
// are added one by one. Own elements whose turn comes late wait in scratch,
// which holds two ranges, so that one can begin before the other is complete.
class OrderedSum {
 public:
  // The others' frames carry `step`.
  OrderedSum(ScheduleBuilder* builder, std::vector<int> ranks, int step,
             std::vector<ElemRange> ranges);

  // Adds the operations of the next range; returns its completion.
  After Next();

 private:
  static constexpr size_t kSlots = 2;

  void CopyOwn();
  [[nodiscard]] int64_t SlotOf(size_t index) const;

  ScheduleBuilder* builder_;
  const std::vector<int> ranks_;
  const int step_;
  const std::vector<ElemRange> ranges_;
  size_t own_index_ = 0;  // among ranks_
  size_t next_ = 0;
  int64_t slots_begin_ = 0;
  int64_t slot_count_ = 0;     // elements of one
  std::vector<After> copied_;  // of the ranges whose own elements were copied
};

// The phases of an all-reduce; a reduce-scatter and an all-gather have one.
struct Phases {
  bool has_reduce = true;
  bool has_gather = true;
  // Without a gather: the distances of the ranks that get each complete chunk.
  std::vector<int> mirrors = {};
};

void BuildDirect(ScheduleBuilder* builder, const Phases& phases);
void BuildExchange(ScheduleBuilder* builder);
void BuildGatherBroadcast(ScheduleBuilder* builder);
// Requires at least three ranks.
void BuildRing(ScheduleBuilder* builder, const Phases& phases);
void BuildHalvingDoubling(ScheduleBuilder* builder);
// Requires at least two hosts.
void BuildHierarchical(ScheduleBuilder* builder, const Topology& topology);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_COLLECTIVE_SCHEDULE_BUILDER_H_
