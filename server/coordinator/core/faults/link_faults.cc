#include "server/coordinator/core/faults/link_faults.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>

namespace ringmaster::coordinator {
namespace {

std::pair<std::string, std::string> PairOf(std::string_view a,
                                           std::string_view b) {
  return {std::string(std::min(a, b)), std::string(std::max(a, b))};
}

bool IsExplained(const LinkReport& report,
                 const std::vector<LinkReport>& reports) {
  if (report.is_unreached) return false;
  return std::any_of(
      reports.begin(), reports.end(), [&](const LinkReport& other) {
        return other.observer == report.peer && other.peer != report.observer;
      });
}

// Members by index: the ends first, then others that reports name.
struct Graph {
  std::vector<LinkEnd> ends;
  // By end: the members that it has links with, those with others included,
  std::vector<std::set<size_t>> linked;
  // those that have reported it,
  std::vector<std::set<size_t>> accusers;
  // those that it has reported and that have not reported it,
  std::vector<std::set<size_t>> accused;
  // and those that tried to connect to it in vain.
  std::vector<std::set<size_t>> failed_probers;
  std::vector<std::pair<size_t, size_t>> links;
};

using Pairs = std::set<std::pair<std::string, std::string>>;

Pairs PairsOf(const std::vector<LinkReport>& reports) {
  Pairs pairs;
  for (const LinkReport& report : reports)
    pairs.insert(PairOf(report.observer, report.peer));
  return pairs;
}

Graph GraphOf(const std::vector<LinkReport>& links,
              const std::vector<LinkReport>& others,
              const std::vector<LinkEnd>& ends) {
  std::vector<LinkReport> reports = links;
  reports.insert(reports.end(), others.begin(), others.end());
  Graph graph;
  std::map<std::string, size_t> members;
  const auto index_of = [&members](const std::string& name) {
    return members.emplace(name, members.size()).first->second;
  };
  for (const LinkEnd& end : ends) {
    const bool is_named = std::any_of(
        reports.begin(), reports.end(), [&end](const LinkReport& report) {
          return report.observer == end.worker || report.peer == end.worker;
        });
    if (!is_named) continue;
    index_of(end.worker);
    graph.ends.push_back(end);
  }
  const size_t count = graph.ends.size();
  for (auto* const sets : {&graph.linked, &graph.accusers, &graph.accused,
                           &graph.failed_probers}) {
    sets->resize(count);
  }
  for (const LinkReport& report : reports) {
    const size_t observer = index_of(report.observer);
    const size_t peer = index_of(report.peer);
    if (observer < count) {
      graph.linked[observer].insert(peer);
      graph.accused[observer].insert(peer);
    }
    if (peer < count) {
      graph.linked[peer].insert(observer);
      graph.accusers[peer].insert(observer);
      if (report.is_probed) graph.failed_probers[peer].insert(observer);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    for (const size_t accuser : graph.accusers[i]) {
      graph.accused[i].erase(accuser);
    }
  }
  for (const auto& [a, b] : PairsOf(links)) {
    const size_t i = index_of(a);
    const size_t j = index_of(b);
    if (i < count && j < count) graph.links.emplace_back(i, j);
  }
  return graph;
}

using Cover = std::vector<size_t>;

bool Has(const Cover& cover, size_t end) {
  return std::find(cover.begin(), cover.end(), end) != cover.end();
}

// Higher is better among covers of one size. What one of a cover has with another
// says nothing against it if the other is at fault anyway: that one has links with
// several besides.
auto RatingOf(const Graph& graph, const Cover& cover) {
  Cover at_fault;
  for (const size_t i : cover) {
    const auto besides =
        std::count_if(graph.linked[i].begin(), graph.linked[i].end(),
                      [&cover](size_t member) { return !Has(cover, member); });
    if (besides > 1) at_fault.push_back(i);
  }
  const auto count = [&at_fault](const std::set<size_t>& members) {
    return std::count_if(
        members.begin(), members.end(),
        [&at_fault](size_t member) { return !Has(at_fault, member); });
  };
  std::ptrdiff_t links = 0;
  std::ptrdiff_t accusers = 0;
  std::ptrdiff_t accusations = 0;
  std::ptrdiff_t failed_probes = 0;
  std::vector<uint64_t> orders;
  std::vector<int> ranks;
  for (const size_t i : cover) {
    links += count(graph.linked[i]);
    const std::ptrdiff_t voices = count(graph.accusers[i]);
    accusers += voices > 1 ? voices : 0;
    accusations += count(graph.accused[i]);
    failed_probes += count(graph.failed_probers[i]);
    orders.push_back(graph.ends[i].join_order);
    ranks.push_back(graph.ends[i].rank);
  }
  std::sort(orders.rbegin(), orders.rend());
  std::sort(ranks.rbegin(), ranks.rend());
  return std::tuple(links, accusers, accusations, failed_probes,
                    std::move(orders), std::move(ranks));
}

// One of the two ends of a link that `cover` does not cover must be given up.
void Branch(const Graph& graph, Cover& cover, Cover& best) {
  if (cover.size() > best.size()) return;
  const auto open = std::find_if(
      graph.links.begin(), graph.links.end(), [&](const auto& link) {
        return !Has(cover, link.first) && !Has(cover, link.second);
      });
  if (open == graph.links.end()) {
    if (cover.size() < best.size() ||
        RatingOf(graph, cover) > RatingOf(graph, best)) {
      best = cover;
    }
    return;
  }
  for (const size_t end : {open->first, open->second}) {
    cover.push_back(end);
    Branch(graph, cover, best);
    cover.pop_back();
  }
}

Cover GreedyCover(const Graph& graph) {
  Cover cover;
  std::vector<decltype(RatingOf(graph, {}))> ratings;
  for (size_t i = 0; i < graph.ends.size(); ++i)
    ratings.push_back(RatingOf(graph, {i}));
  while (true) {
    std::vector<int> open(graph.ends.size(), 0);
    for (const auto& [i, j] : graph.links) {
      if (Has(cover, i) || Has(cover, j)) continue;
      ++open[i];
      ++open[j];
    }
    size_t most = 0;
    for (size_t i = 1; i < open.size(); ++i) {
      if (std::tie(open[i], ratings[i]) > std::tie(open[most], ratings[most]))
        most = i;
    }
    if (open.empty() || open[most] == 0) return cover;
    cover.push_back(most);
  }
}

}  // namespace

std::vector<LinkReport> StrongestReports(std::vector<LinkReport> reports) {
  const auto is_closed = [](const LinkReport& report) {
    return report.is_closed;
  };
  if (!std::all_of(reports.begin(), reports.end(), is_closed)) {
    std::erase_if(reports, is_closed);
  }
  return reports;
}

std::vector<LinkReport> RootLinks(const std::vector<LinkReport>& reports) {
  std::vector<LinkReport> roots;
  for (const LinkReport& report : reports) {
    if (!IsExplained(report, reports)) roots.push_back(report);
  }
  if (roots.empty() && !reports.empty()) roots.push_back(reports.front());
  return roots;
}

bool IsCircular(const std::vector<LinkReport>& reports) {
  return !reports.empty() && std::all_of(reports.begin(), reports.end(),
                                         [&](const LinkReport& report) {
                                           return IsExplained(report, reports);
                                         });
}

std::vector<std::string> SmallestCover(const std::vector<LinkReport>& links,
                                       const std::vector<LinkEnd>& ends,
                                       const std::vector<LinkReport>& others) {
  const Graph graph = GraphOf(links, others, ends);
  Cover best = GreedyCover(graph);
  if (graph.ends.size() <= kMaxExactEnds) {
    Cover cover;
    Branch(graph, cover, best);
  }
  std::vector<std::string> names;
  for (const size_t i : best) names.push_back(graph.ends[i].worker);
  std::sort(names.begin(), names.end());
  return names;
}

void LinkFaults::OnStep() {
  ++steps_;
  links_.clear();
  faults_ = 0;
  rounds_ = 0;
}

void LinkFaults::OnLateStep() {
  faults_ = std::min(faults_, 1);
  rounds_ = std::min(rounds_, 1);
}

int LinkFaults::OnFault(const std::vector<LinkReport>& links) {
  Note(links);
  return ++faults_;
}

void LinkFaults::Note(const std::vector<LinkReport>& links) {
  for (const LinkReport& link : links) {
    const bool is_known =
        std::any_of(links_.begin(), links_.end(), [&](const LinkReport& known) {
          return known.observer == link.observer && known.peer == link.peer;
        });
    if (!is_known) links_.push_back(link);
  }
}

void LinkFaults::OnClosed(const std::vector<LinkReport>& links,
                          MonotonicTime now) {
  ++rounds_;
  std::map<Pair, Closed> present;
  for (const LinkReport& link : links) {
    const Pair pair = PairOf(link.observer, link.peer);
    Closed& closed =
        present.try_emplace(pair, Closed{now, steps_}).first->second;
    (link.observer == pair.first ? closed.by_first : closed.by_second) = true;
  }
  for (const auto& [pair, closed] : present) closed_[pair].push_back(closed);
  for (auto& [pair, times] : closed_) {
    std::erase_if(times,
                  [&](const Closed& then) { return !StillCounts(then, now); });
  }
  std::erase_if(closed_,
                [](const auto& entry) { return entry.second.empty(); });
}

bool LinkFaults::StillCounts(const Closed& then, MonotonicTime now) const {
  return now < then.time + kClosedWindow || then.steps == steps_;
}

std::vector<LinkReport> LinkFaults::ClosedTimes(int least,
                                                MonotonicTime now) const {
  return ClosedTimes(
      least, [&](const Closed& then) { return StillCounts(then, now); });
}

std::vector<LinkReport> LinkFaults::ClosedAtThisStep() const {
  return ClosedTimes(
      1, [this](const Closed& then) { return then.steps == steps_; });
}

std::vector<LinkReport> LinkFaults::ClosedTimes(
    int least, const std::function<bool(const Closed&)>& counts) const {
  std::vector<LinkReport> links;
  for (const auto& [pair, times] : closed_) {
    int count = 0;
    int by_first = 0;
    int by_second = 0;
    for (const Closed& then : times) {
      if (!counts(then)) continue;
      ++count;
      by_first += then.by_first;
      by_second += then.by_second;
    }
    if (count < least) continue;
    const auto add = [&](const std::string& observer, const std::string& peer) {
      links.push_back({observer, peer, /*is_unreached=*/false,
                       /*is_closed=*/true});
    };
    if (2 * by_first >= count) add(pair.first, pair.second);
    if (2 * by_second >= count) add(pair.second, pair.first);
  }
  return links;
}

void LinkFaults::Remember(const LinkReport& link, MonotonicTime now) {
  rounds_ = 0;
  closed_.erase(PairOf(link.observer, link.peer));
  std::erase_if(holds_, [now](const auto& entry) {
    return entry.second.end + entry.second.length <= now;
  });
  const Pair pair = PairOf(link.observer, link.peer);
  Hold& hold = holds_[pair];
  const bool is_kept_apart = hold.end > now;
  if (!is_kept_apart) hold.by_first = hold.by_second = false;
  (link.observer == pair.first ? hold.by_first : hold.by_second) = true;
  if (is_kept_apart) return;
  hold.length = hold.length == absl::ZeroDuration()
                    ? kFirstHold
                    : std::min(2 * hold.length, kLongestHold);
  hold.end = now + hold.length;
}

std::vector<std::string_view> LinkFaults::BadPeersOf(std::string_view worker,
                                                     MonotonicTime now) const {
  std::vector<std::string_view> peers;
  for (const auto& [pair, hold] : holds_) {
    if (hold.end <= now) continue;
    if (pair.first == worker) peers.push_back(pair.second);
    if (pair.second == worker) peers.push_back(pair.first);
  }
  std::sort(peers.begin(), peers.end());
  return peers;
}

std::vector<LinkReport> LinkFaults::Remembered(MonotonicTime now) const {
  std::vector<LinkReport> reports;
  for (const auto& [pair, hold] : holds_) {
    if (hold.end <= now) continue;
    if (hold.by_first) reports.push_back({pair.first, pair.second});
    if (hold.by_second) reports.push_back({pair.second, pair.first});
  }
  return reports;
}

MonotonicTime LinkFaults::NextExpiry(MonotonicTime now) const {
  MonotonicTime next = MonotonicTime::InfiniteFuture();
  for (const auto& [pair, hold] : holds_) {
    if (hold.end > now) next = std::min(next, hold.end);
  }
  return next;
}

}  // namespace ringmaster::coordinator
