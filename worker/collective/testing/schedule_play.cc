#include "worker/collective/testing/schedule_play.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/mesh.h"
#include "common/plan/partition.h"

namespace ringmaster {

Terms::Terms() { Number({Kind::kUndefined, 0, 0}); }

int Terms::Number(const Key& key) {
  const auto [it, is_new] =
      numbers_.emplace(key, static_cast<int>(keys_.size()));
  if (is_new) keys_.push_back(key);
  return it->second;
}

int Terms::Of(int rank) { return Number({Kind::kOf, rank, 0}); }

int Terms::Sum(int left, int right) {
  if (left == kUndefined || right == kUndefined) return kUndefined;
  return Number({Kind::kSum, left, right});
}

int Terms::Rounded(int term) {
  const Kind kind = KindOf(term);
  const bool is_round = kind == Kind::kUndefined || kind == Kind::kRounded ||
                        kind == Kind::kFinished;
  return is_round ? term : Number({Kind::kRounded, term, 0});
}

int Terms::Finished(int term) {
  if (term == kUndefined) return kUndefined;
  return Number({Kind::kFinished, term, 0});
}

int Terms::Canonical(int term) {
  const auto it = canonical_.find(term);
  if (it != canonical_.end()) return it->second;
  auto [kind, left, right] = keys_[static_cast<size_t>(term)];
  if (kind != Kind::kOf && kind != Kind::kUndefined) left = Canonical(left);
  if (kind == Kind::kSum) {
    right = Canonical(right);
    if (right < left) std::swap(left, right);
  }
  const int canonical = Number({kind, left, right});
  canonical_[term] = canonical;
  return canonical;
}

std::map<int, int> Terms::Ranks(int term) const {
  const auto& [kind, left, right] = keys_[static_cast<size_t>(term)];
  if (kind == Kind::kUndefined) return {};
  if (kind == Kind::kOf) return {{left, 1}};
  std::map<int, int> ranks = Ranks(left);
  if (kind == Kind::kSum) {
    for (const auto& [rank, times] : Ranks(right)) ranks[rank] += times;
  }
  return ranks;
}

Terms::Kind Terms::KindOf(int term) const {
  return std::get<0>(keys_[static_cast<size_t>(term)]);
}

namespace {

using Kind = Operation::Kind;

struct Frame {
  Operation send;
  std::vector<Element> at_start;
  std::vector<bool> known;
};

struct Rank {
  std::vector<Element> buffer;
  std::vector<Element> scratch;
  std::vector<int64_t> received;  // frames, by peer; own rank: local steps
  std::vector<bool> known;
};

// One of the queues of operations that run in their order.
struct Queue {
  int rank = 0;
  std::deque<Operation> operations;
  uint64_t priority = 0;
};

class Play {
 public:
  Play(const ScheduleRequest& request, const Topology& topology,
       const PlayOptions& options, Terms* terms)
      : request_(request),
        topology_(topology),
        options_(options),
        terms_(*terms),
        random_(options.seed),
        n_(topology.world_size()),
        channels_(static_cast<size_t>(n_) * static_cast<size_t>(n_)),
        played_{.problem = "",
                .buffers = {},
                .sent = std::vector<std::vector<int64_t>>(
                    static_cast<size_t>(n_),
                    std::vector<int64_t>(static_cast<size_t>(n_), 0)),
                .known = {}} {}

  Played Run() {
    for (int rank = 0; rank < n_; ++rank) Enter(rank);
    while (played_.problem.empty() && RunOne()) continue;
    for (const Queue& queue : queues_) {
      if (queue.operations.empty()) continue;
      Fail(queue.rank, queue.operations.front(), "never begins");
    }
    for (size_t i = 0; i < channels_.size(); ++i) {
      if (channels_[i].empty()) continue;
      Fail(static_cast<int>(i) / n_, channels_[i].front().send,
           "is never taken");
    }
    for (Rank& rank : ranks_) {
      played_.buffers.push_back(std::move(rank.buffer));
      played_.known.push_back(std::move(rank.known));
    }
    return std::move(played_);
  }

 private:
  // Returns true if `rank` has the element at the start.
  [[nodiscard]] bool IsProvided(int rank, int64_t index) const {
    switch (request_.op) {
      case CollectiveOp::kAllGather: {
        const ElemRange own = ChunkOf(rank, n_, request_.count);
        return own.begin <= index && index < own.end();
      }
      case CollectiveOp::kBroadcast:
        return rank == request_.root;
      default:
        return true;
    }
  }

  void Enter(int rank) {
    ScheduleRequest request = request_;
    request.rank = rank;
    const Schedule schedule = BuildSchedule(request, topology_);
    Rank state;
    for (int64_t i = 0; i < request.count; ++i) {
      state.buffer.push_back(
          {.term = IsProvided(rank, i) ? terms_.Of(rank) : Terms::kUndefined,
           .index = i});
    }
    state.scratch.resize(static_cast<size_t>(schedule.scratch_count));
    state.received.resize(static_cast<size_t>(n_), 0);
    state.known.resize(static_cast<size_t>(n_), false);
    state.known[static_cast<size_t>(rank)] = true;
    ranks_.push_back(std::move(state));

    const std::vector<int> peers = PeersOf(rank, topology_);
    std::map<std::pair<bool, int>, Queue> queues;  // by is_send and peer
    for (const Operation& operation : schedule.operations) {
      CheckShape(rank, peers, operation);
      const bool is_send = operation.kind == Kind::kSend;
      const bool is_local = operation.peer < 0;
      Queue& queue = queues[{is_send, is_local ? rank : operation.peer}];
      queue.rank = rank;
      queue.operations.push_back(operation);
    }
    for (auto& [key, queue] : queues) {
      queue.priority = random_();
      queues_.push_back(std::move(queue));
    }
  }

  void CheckShape(int rank, const std::vector<int>& peers,
                  const Operation& operation) {
    const bool is_frame =
        operation.kind == Kind::kSend || operation.kind == Kind::kReceive;
    if (is_frame && operation.count > request_.segment_count) {
      Fail(rank, operation, "is longer than a segment");
    }
    if (is_frame &&
        !std::binary_search(peers.begin(), peers.end(), operation.peer)) {
      Fail(rank, operation, "has a peer that is not connected");
    }
  }

  // With even seeds it runs the first of a fixed order that can run, so that
  // some are always far behind; with odd seeds any.
  bool RunOne() {
    const bool is_fixed = options_.seed % 2 == 0;
    if (is_fixed && !is_sorted_) {
      std::sort(queues_.begin(), queues_.end(),
                [](const Queue& a, const Queue& b) {
                  return a.priority < b.priority;
                });
      is_sorted_ = true;
    }
    const size_t start = is_fixed ? 0 : random_() % queues_.size();
    for (size_t i = 0; i < queues_.size(); ++i) {
      Queue& queue = queues_[(start + i) % queues_.size()];
      if (queue.operations.empty()) continue;
      if (!CanRun(queue.rank, queue.operations.front())) continue;
      const Operation operation = queue.operations.front();
      queue.operations.pop_front();
      RunOperation(queue.rank, operation);
      return true;
    }
    return false;
  }

  bool CanRun(int rank, const Operation& operation) {
    if (operation.after_peer >= 0 &&
        Received(rank, operation.after_peer) < operation.after_count) {
      return false;
    }
    if (operation.kind == Kind::kSend) {
      return Channel(rank, operation.peer).size() <
             static_cast<size_t>(options_.channel_frames);
    }
    if (operation.kind == Kind::kReceive) {
      return !Channel(operation.peer, rank).empty();
    }
    return true;
  }

  void RunOperation(int rank, const Operation& operation) {
    switch (operation.kind) {
      case Kind::kSend:
        Send(rank, operation);
        break;
      case Kind::kReceive:
        Receive(rank, operation);
        ++Received(rank, operation.peer);
        break;
      case Kind::kLocal:
        Write(rank, operation,
              Read(rank, operation, operation.from_area, operation.from_begin));
        ++Received(rank, rank);
        break;
      case Kind::kFinish: {
        std::vector<Element> elements =
            Read(rank, operation, operation.area, operation.begin);
        for (Element& element : elements) {
          element.term = terms_.Finished(element.term);
        }
        Write(rank, operation, elements);
        ++Received(rank, rank);
        break;
      }
    }
  }

  void Send(int rank, const Operation& send) {
    Frame frame;
    frame.send = send;
    frame.at_start = Read(rank, send, send.area, send.begin);
    frame.known = RankOf(rank).known;
    Channel(rank, send.peer).push_back(std::move(frame));
    played_.sent[static_cast<size_t>(rank)][static_cast<size_t>(send.peer)] +=
        send.count;
  }

  void Receive(int rank, const Operation& receive) {
    std::deque<Frame>& channel = Channel(receive.peer, rank);
    const Frame frame = channel.front();
    const Operation& send = frame.send;
    if (send.begin != receive.begin || send.count != receive.count ||
        send.step != receive.step) {
      return Fail(rank, receive, "gets another frame");
    }
    std::vector<Element> elements =
        Read(receive.peer, send, send.area, send.begin);
    if (elements != frame.at_start) {
      return Fail(receive.peer, send, "was overwritten on its way");
    }
    for (Element& element : elements) {
      if (options_.is_wire_rounded) element.term = terms_.Rounded(element.term);
    }
    channel.pop_front();
    std::vector<bool>& known = RankOf(rank).known;
    for (size_t i = 0; i < known.size(); ++i) {
      known[i] = known[i] || frame.known[i];
    }
    Write(rank, receive, elements);
  }

  std::vector<Element> Read(int rank, const Operation& operation, Area area,
                            int64_t begin) {
    const std::vector<Element>& memory = Memory(rank, area);
    if (begin < 0 ||
        begin + operation.count > static_cast<int64_t>(memory.size())) {
      Fail(rank, operation, "reads beyond the end");
      return std::vector<Element>(static_cast<size_t>(operation.count));
    }
    std::vector<Element> elements(memory.begin() + begin,
                                  memory.begin() + begin + operation.count);
    for (const Element& element : elements) {
      if (element.term != Terms::kUndefined) continue;
      Fail(rank, operation, "reads what was never written");
    }
    return elements;
  }

  void Write(int rank, const Operation& operation,
             const std::vector<Element>& elements) {
    std::vector<Element>& memory = Memory(rank, operation.area);
    if (operation.begin < 0 || operation.begin + operation.count >
                                   static_cast<int64_t>(memory.size())) {
      return Fail(rank, operation, "writes beyond the end");
    }
    CheckNotOnItsWay(rank, operation);
    for (size_t i = 0; i < elements.size(); ++i) {
      Element& to = memory[static_cast<size_t>(operation.begin) + i];
      Element from = elements[i];
      if (operation.is_as_wire && options_.is_wire_rounded) {
        from.term = terms_.Rounded(from.term);
      }
      const bool is_moved =
          operation.area == Area::kBuffer &&
          from.index != operation.begin + static_cast<int64_t>(i);
      if (is_moved) Fail(rank, operation, "puts elements in a wrong place");
      if (operation.is_reduced) from.term = terms_.Sum(to.term, from.term);
      to = from;
    }
  }

  void CheckNotOnItsWay(int rank, const Operation& write) {
    for (int peer = 0; peer < n_; ++peer) {
      for (const Frame& frame : Channel(rank, peer)) {
        const Operation& send = frame.send;
        if (send.area == write.area && send.begin < write.begin + write.count &&
            write.begin < send.begin + send.count) {
          Fail(rank, write, "overwrites what is being sent");
        }
      }
    }
  }

  int64_t& Received(int rank, int from) {
    return RankOf(rank).received[static_cast<size_t>(from)];
  }

  std::deque<Frame>& Channel(int from, int to) {
    return channels_[static_cast<size_t>(from * n_ + to)];
  }

  Rank& RankOf(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  std::vector<Element>& Memory(int rank, Area area) {
    Rank& state = RankOf(rank);
    return area == Area::kBuffer ? state.buffer : state.scratch;
  }

  void Fail(int rank, const Operation& operation, const char* why) {
    if (!played_.problem.empty()) return;
    static constexpr const char* kNames[] = {"send", "receive", "local",
                                             "finish"};
    played_.problem = absl::StrCat(
        "rank ", rank, ": ", kNames[static_cast<size_t>(operation.kind)],
        " with peer ", operation.peer, ", step ", operation.step, ", [",
        operation.begin, ", ", operation.begin + operation.count, "), after ",
        operation.after_count, " of ", operation.after_peer, ": ", why);
  }

  const ScheduleRequest& request_;
  const Topology& topology_;
  const PlayOptions& options_;
  Terms& terms_;
  std::mt19937_64 random_;
  const int n_;
  bool is_sorted_ = false;
  std::vector<Rank> ranks_;
  std::vector<Queue> queues_;
  std::vector<std::deque<Frame>> channels_;  // by sender and receiver
  Played played_;
};

}  // namespace

Played PlaySchedules(const ScheduleRequest& request, const Topology& topology,
                     const PlayOptions& options, Terms* terms) {
  return Play(request, topology, options, terms).Run();
}

}  // namespace ringmaster
