#include "worker/collective/schedule_builder.h"

#include <algorithm>
#include <utility>

#include "common/status/check.h"

namespace ringmaster {

ScheduleBuilder::ScheduleBuilder(const ScheduleRequest& request, int world_size)
    : request_(request),
      world_size_(world_size),
      received_(static_cast<size_t>(world_size), 0) {}

int ScheduleBuilder::RankAt(int distance) const {
  const int n = world_size_;
  return ((rank() + distance) % n + n) % n;
}

std::vector<ElemRange> ScheduleBuilder::Split(ElemRange range) const {
  const int64_t most = request_.segment_count;
  std::vector<ElemRange> segments;
  segments.reserve(static_cast<size_t>(range.count / most + 1));
  int64_t offset = 0;
  do {
    segments.push_back(
        {range.begin + offset, std::min(most, range.count - offset)});
    offset += most;
  } while (offset < range.count);
  return segments;
}

int64_t ScheduleBuilder::ReserveScratch(int64_t count) {
  const int64_t begin = schedule_.scratch_count;
  schedule_.scratch_count += count;
  return begin;
}

void ScheduleBuilder::Send(int peer, int step, ElemRange range, After after,
                           Area area) {
  Operation send;
  send.kind = Operation::Kind::kSend;
  send.area = area;
  send.peer = peer;
  send.step = step;
  Add(send, range, after);
}

void ScheduleBuilder::Add(Operation operation, ElemRange range, After after) {
  operation.begin = range.begin;
  operation.count = range.count;
  operation.after_peer = after.peer;
  operation.after_count = after.count;
  schedule_.operations.push_back(operation);
}

After ScheduleBuilder::Keep(int peer, int step, ElemRange range, After after) {
  return Receive(peer, step, range, /*is_reduced=*/false, after);
}

After ScheduleBuilder::Reduce(int peer, int step, ElemRange range,
                              After after) {
  return Receive(peer, step, range, /*is_reduced=*/true, after);
}

After ScheduleBuilder::Receive(int peer, int step, ElemRange range,
                               bool is_reduced, After after) {
  Operation receive;
  receive.kind = Operation::Kind::kReceive;
  receive.is_reduced = is_reduced;
  receive.peer = peer;
  receive.step = step;
  Add(receive, range, after);
  return {peer, ++received_[static_cast<size_t>(peer)]};
}

After ScheduleBuilder::Local(const Operation& operation, ElemRange range,
                             After after) {
  if (range.count == 0) return after;
  Add(operation, range, after);
  return {rank(), ++local_};
}

After ScheduleBuilder::CopyToScratch(ElemRange range, int64_t scratch_begin,
                                     bool is_as_wire) {
  Operation copy;
  copy.kind = Operation::Kind::kLocal;
  copy.is_as_wire = is_as_wire;
  copy.area = Area::kScratch;
  copy.from_begin = range.begin;
  return Local(copy, {scratch_begin, range.count}, {});
}

After ScheduleBuilder::ReduceFromScratch(ElemRange range, int64_t scratch_begin,
                                         After after) {
  Operation reduce;
  reduce.kind = Operation::Kind::kLocal;
  reduce.is_reduced = true;
  reduce.from_area = Area::kScratch;
  reduce.from_begin = scratch_begin;
  return Local(reduce, range, after);
}

After ScheduleBuilder::RoundAsWire(ElemRange range) {
  Operation round;
  round.kind = Operation::Kind::kLocal;
  round.is_as_wire = true;
  round.from_begin = range.begin;
  return Local(round, range, {});
}

After ScheduleBuilder::Finish(ElemRange range, After after) {
  if (!request_.has_finish) return after;
  Operation finish;
  finish.kind = Operation::Kind::kFinish;
  return Local(finish, range, after);
}

Schedule ScheduleBuilder::Build() && { return std::move(schedule_); }

OrderedSum::OrderedSum(ScheduleBuilder* builder, std::vector<int> ranks,
                       int step, std::vector<ElemRange> ranges)
    : builder_(builder),
      ranks_(std::move(ranks)),
      step_(step),
      ranges_(std::move(ranges)) {
  const auto own = std::find(ranks_.begin(), ranks_.end(), builder->rank());
  RM_CHECK(own != ranks_.end(), "a rank sums what it has no part in");
  own_index_ = static_cast<size_t>(own - ranks_.begin());
  if (own_index_ < 2) return;
  for (const ElemRange& range : ranges_) {
    slot_count_ = std::max(slot_count_, range.count);
  }
  slots_begin_ =
      builder_->ReserveScratch(static_cast<int64_t>(kSlots) * slot_count_);
}

int64_t OrderedSum::SlotOf(size_t index) const {
  return slots_begin_ + static_cast<int64_t>(index % kSlots) * slot_count_;
}

void OrderedSum::CopyOwn() {
  const size_t index = copied_.size();
  copied_.push_back(builder_->CopyToScratch(ranges_[index], SlotOf(index),
                                            /*is_as_wire=*/false));
}

After OrderedSum::Next() {
  const size_t index = next_++;
  const ElemRange range = ranges_[index];
  After done;
  if (own_index_ < 2) {
    // The first two may be added either way round: no need to make room.
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (i == own_index_) continue;
      done = builder_->Reduce(ranks_[i], step_, range, done);
    }
    return done;
  }
  // The copy of the range after this one goes before this one's addition,
  // which waits for others. Local steps are done in order: the slot is free.
  while (copied_.size() < std::min(ranges_.size(), index + kSlots)) CopyOwn();
  done = builder_->Keep(ranks_[0], step_, range, copied_[index]);
  for (size_t i = 1; i < own_index_; ++i) {
    done = builder_->Reduce(ranks_[i], step_, range, done);
  }
  done = builder_->ReduceFromScratch(range, SlotOf(index), done);
  for (size_t i = own_index_ + 1; i < ranks_.size(); ++i) {
    done = builder_->Reduce(ranks_[i], step_, range, done);
  }
  return done;
}

}  // namespace ringmaster
