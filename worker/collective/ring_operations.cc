// The ring (Patarasuk and Yuan, 2009) has 2(n-1) steps. At step t rank r sends
// chunk r-1-t to the next rank and receives chunk r-2-t (both mod n) from the
// previous one; in the first n-1 steps, the reduce-scatter, it adds what it
// receives to its own, after which chunk r is complete at rank r; in the
// others, the all-gather, it keeps it. A rank sends at step t+1 what it
// received at step t, so a segment is passed on as soon as it has come: no rank
// waits for whole chunks.
//
// A frame received over elements that were sent earlier contains what was sent:
// it has been all round the ring. So has a complete chunk that goes to a mirror.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "worker/collective/schedule_builder.h"

namespace ringmaster {

void BuildRing(ScheduleBuilder* builder, const Phases& phases) {
  const int n = builder->world_size();
  const int turns = n - 1;
  const auto split_chunk = [builder, n](int distance) {
    return builder->Split(
        ChunkOf(builder->RankAt(distance), n, builder->request().count));
  };
  int step = phases.has_reduce ? 0 : turns;
  const int end_step = phases.has_gather ? 2 * turns : turns;
  std::vector<ElemRange> sent = split_chunk(-1 - step);
  std::vector<After> ready;  // the segments of `sent`
  for (const ElemRange& segment : sent) {
    ready.push_back(phases.has_reduce ? After() : builder->Finish(segment, {}));
  }
  for (; step < end_step; ++step) {
    const std::vector<ElemRange> received = split_chunk(-2 - step);
    std::vector<After> arrived;
    for (size_t i = 0; i < std::max(sent.size(), received.size()); ++i) {
      if (i < sent.size()) {
        builder->Send(builder->RankAt(1), step, sent[i], ready[i]);
      }
      if (i >= received.size()) continue;
      const int prev_rank = builder->RankAt(-1);
      if (step >= turns) {
        arrived.push_back(builder->Keep(prev_rank, step, received[i], {}));
        continue;
      }
      const After added = builder->Reduce(prev_rank, step, received[i], {});
      arrived.push_back(step == turns - 1 ? builder->Finish(received[i], added)
                                          : added);
    }
    sent = received;
    ready = arrived;
  }
  for (const int distance : phases.mirrors) {
    for (size_t i = 0; i < sent.size(); ++i)
      builder->Send(builder->RankAt(distance), turns, sent[i], ready[i]);
    for (const ElemRange& segment : split_chunk(-distance))
      builder->Keep(builder->RankAt(-distance), turns, segment, {});
  }
}

}  // namespace ringmaster
