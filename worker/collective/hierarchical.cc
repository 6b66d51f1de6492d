// The hierarchical all-reduce, for ranks that share hosts.
//
// The buffer is cut into as many chunks as the largest host has ranks. On each
// host one rank owns a chunk (or several, where there are fewer ranks): it adds
// it up over the ranks of the host, in their order, goes with the chunk's other
// owners through a ring of hosts, and sends the result to all ranks of its
// host. For the ring of m hosts a chunk is cut again, into m parts: at step t
// host h sends part h-1-t to the next host and receives part h-2-t (both mod
// m), as in the ring of ranks. So part h-1-i is the i-th that host h needs;
// that is the order in which it adds them up.
//
// All ranks go through the steps alike: first what a step needs from the own
// host, then the ring's part of it, then what it completes for the own host. An
// operation only ever waits for one at an earlier place in that order, so none
// waits forever.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/plan/host_chunks.h"
#include "worker/collective/schedule_builder.h"

namespace ringmaster {
namespace {

constexpr int kContribution = 0;  // step marks
constexpr int kResult = 1;
constexpr int kRing = 2;  // and more, by the step

class Hierarchical {
 public:
  Hierarchical(ScheduleBuilder* builder, const Topology& topology)
      : builder_(*builder),
        hosts_(topology),
        host_(topology.HostOf(builder->rank())),
        ranks_(topology.RanksOf(host_)),
        sum_(builder, ranks_, kContribution, OwnSegments()),
        summed_(static_cast<size_t>(hosts_.chunk_count())),
        arrived_(summed_) {}

  void Build() {
    const int turns = hosts_.count() - 1;
    AddUp(0);
    arrived_ = summed_;
    for (int step = 0; step < 2 * turns; ++step) {
      if (step < turns) AddUp(step + 1);
      PassOn(step);
      if (step >= turns - 1) Spread(step + 1);
    }
  }

 private:
  // The i-th part that this host needs, of one chunk.
  [[nodiscard]] std::vector<ElemRange> Segments(int chunk, int i) const {
    return builder_.Split(
        hosts_.PartOf(chunk, host_ - 1 - i, builder_.request().count));
  }

  [[nodiscard]] bool IsOwn(int chunk) const {
    return hosts_.OwnerOf(chunk, host_) == builder_.rank();
  }

  [[nodiscard]] std::vector<ElemRange> OwnSegments() const {
    std::vector<ElemRange> segments;
    for (int i = 0; i < hosts_.count(); ++i) {
      for (int chunk = 0; chunk < hosts_.chunk_count(); ++chunk) {
        if (!IsOwn(chunk)) continue;
        for (const ElemRange& segment : Segments(chunk, i)) {
          segments.push_back(segment);
        }
      }
    }
    return segments;
  }

  // The i-th part of every chunk, over the ranks of the host.
  void AddUp(int i) {
    for (int chunk = 0; chunk < hosts_.chunk_count(); ++chunk) {
      std::vector<After>& summed = summed_[static_cast<size_t>(chunk)];
      summed.clear();
      for (const ElemRange& segment : Segments(chunk, i)) {
        if (IsOwn(chunk)) {
          summed.push_back(sum_.Next());
        } else {
          builder_.Send(hosts_.OwnerOf(chunk, host_), kContribution, segment,
                        {});
        }
      }
    }
  }

  // The ring's step, for the own chunks.
  void PassOn(int step) {
    for (int chunk = 0; chunk < hosts_.chunk_count(); ++chunk) {
      if (!IsOwn(chunk)) continue;
      const std::vector<ElemRange> sent = Segments(chunk, step);
      const std::vector<ElemRange> received = Segments(chunk, step + 1);
      std::vector<After>& ready = arrived_[static_cast<size_t>(chunk)];
      std::vector<After> arrived;
      for (size_t i = 0; i < std::max(sent.size(), received.size()); ++i) {
        if (i < sent.size()) {
          builder_.Send(hosts_.OwnerOf(chunk, host_ + 1), kRing + step, sent[i],
                        ready[i]);
        }
        if (i < received.size()) {
          arrived.push_back(Receive(chunk, step, i, received[i]));
        }
      }
      ready = arrived;
    }
  }

  After Receive(int chunk, int step, size_t index, ElemRange segment) {
    const int turns = hosts_.count() - 1;
    const int peer = hosts_.OwnerOf(chunk, host_ - 1);
    if (step >= turns) return builder_.Keep(peer, kRing + step, segment, {});
    const After added =
        builder_.Reduce(peer, kRing + step, segment,
                        summed_[static_cast<size_t>(chunk)][index]);
    return step == turns - 1 ? builder_.Finish(segment, added) : added;
  }

  // The i-th part of every chunk, complete, to the ranks of the host.
  void Spread(int i) {
    for (int chunk = 0; chunk < hosts_.chunk_count(); ++chunk) {
      const std::vector<ElemRange> segments = Segments(chunk, i);
      for (size_t k = 0; k < segments.size(); ++k) {
        if (!IsOwn(chunk)) {
          builder_.Keep(hosts_.OwnerOf(chunk, host_), kResult, segments[k], {});
          continue;
        }
        for (const int peer : ranks_) {
          if (peer == builder_.rank()) continue;
          builder_.Send(peer, kResult, segments[k],
                        arrived_[static_cast<size_t>(chunk)][k]);
        }
      }
    }
  }

  ScheduleBuilder& builder_;
  const HostChunks hosts_;
  const int host_;
  const std::vector<int>& ranks_;  // of the own host
  OrderedSum sum_;
  // For the own chunks, by chunk and segment: the sum here of the part that the
  // ring needs next, and the arrival of the last received part.
  std::vector<std::vector<After>> summed_;
  std::vector<std::vector<After>> arrived_;
};

}  // namespace

void BuildHierarchical(ScheduleBuilder* builder, const Topology& topology) {
  Hierarchical(builder, topology).Build();
}

}  // namespace ringmaster
