// LinkFaults: broken links between live members, and the members to give up for
// them.
//
// A broken link makes every rank of a ring fail, each blaming a neighbour:
// RootLinks separates root causes from reports that follow from others. A link
// may come back, so after a first fault the same members begin again. When
// links fail again without a step in between, the fewest members that cover all
// reported links are given up (SmallestCover), and each reported link is
// remembered for a while, so that its ends are not put together again
// meanwhile. A link reported by only one end counts like any other; but if
// either end could be given up, it is the one that has reported: nobody is
// given up on the word of a single other (docs/decisions/0035). One that is at
// fault, but silent, has the reports of two against it, and covers more links.
//
// A report that the peer has closed its connection accuses nobody: a process
// that ends shows that by its own stream, too, and one that lives has stopped,
// which any other failure explains. But a link over which that happens again
// and again (OftenClosed) costs more than the rank of one of its ends. And if
// connections are closed again and again at one step, over whatever links
// (IsStuck), each of these links counts (docs/decisions/0042).
//
// Pure. Thread-safety: thread-compatible; a value.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_LINK_FAULTS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_LINK_FAULTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock/monotonic_time.h"

namespace ringmaster::coordinator {

// A report of `observer` about its link with `peer`; both are workers' names.
struct LinkReport {
  std::string observer;
  std::string peer;
  // No connection was made: that is its own observation in any case, not a
  // consequence.
  bool is_unreached = false;
  // The peer, or something between the two, has closed the connection.
  bool is_closed = false;
  // It was asked to connect to the peer, and could not.
  bool is_probed = false;

  friend bool operator==(const LinkReport&, const LinkReport&) = default;
};

// Returns those of `reports` that say more than that a connection was closed;
// all if none does.
[[nodiscard]] std::vector<LinkReport> StrongestReports(
    std::vector<LinkReport> reports);

// Returns those of `reports`, in the order of their arrival, that do not follow
// from another. A member that stops for its own reason closes its connections:
// its peers' reports about it are explained if it has itself reported another
// member. If all explain one another, the first report is the root.
[[nodiscard]] std::vector<LinkReport> RootLinks(
    const std::vector<LinkReport>& reports);

// Returns true if all of `reports` are explained by one another, all around a
// ring: then the first to arrive need not be the one that began it.
[[nodiscard]] bool IsCircular(const std::vector<LinkReport>& reports);

// A member that could be given up.
struct LinkEnd {
  std::string worker;
  uint64_t join_order = 0;
  int rank = 0;
};

// Returns the smallest set of `ends` such that every link of `links` between
// two of them loses an end; sorted by name. Among several sets of that size it
// returns the one whose members have more links (those with members other than
// `ends` count too), then the one that more have reported, if they are several,
// then the one with more links that only it has reported, then the one that more
// could not connect to when they were asked to, then the one whose members joined
// last, then the one with the higher ranks. What is between two of a set does not
// count for one of them if the other has links with several besides. Exact by
// branch and bound up to kMaxExactEnds ends with links; beyond that greedy, the
// most links first. `others` are reports that count for that order alone: their
// links need not be covered.
inline constexpr size_t kMaxExactEnds = 16;
[[nodiscard]] std::vector<std::string> SmallestCover(
    const std::vector<LinkReport>& links, const std::vector<LinkEnd>& ends,
    const std::vector<LinkReport>& others = {});

class LinkFaults {
 public:
  // The first hold and the longest one; a hold doubles each time a link is
  // reported again before it has been good for as long as it was bad.
  static constexpr absl::Duration kFirstHold = absl::Seconds(30);
  static constexpr absl::Duration kLongestHold = absl::Minutes(10);

  // A step was committed: earlier reports no longer count.
  void OnStep();

  // A step turns out to have been committed before the last fault, which is
  // therefore the first since.
  void OnLateStep();

  // `links` are known to fail, which is not counted.
  void Note(const std::vector<LinkReport>& links);

  // `links` failed. Returns how often links have failed since the last step,
  // including this time.
  int OnFault(const std::vector<LinkReport>& links);

  // The number of link failures since the last step.
  [[nodiscard]] int faults() const { return faults_; }

  // All reports since the last step, each once; a link may have two, one from
  // each end.
  [[nodiscard]] const std::vector<LinkReport>& links() const { return links_; }

  // A link was closed too often if it was at least kManyClosed times, within
  // kClosedWindow or since the last step.
  static constexpr int kManyClosed = 5;
  // A link that was closed this often in that time says something about its ends.
  static constexpr int kSomeClosed = 3;
  static constexpr absl::Duration kClosedWindow = absl::Minutes(1);

  // Connections were closed, and all members live: those of `links`, which may be
  // none if nobody knows.
  void OnClosed(const std::vector<LinkReport>& links, MonotonicTime now);

  // Returns true if connections were closed that often since the last step, or
  // since links last cost a member its place.
  static constexpr int kManyRounds = 10;
  [[nodiscard]] bool IsStuck() const { return rounds_ >= kManyRounds; }
  // How often they were.
  [[nodiscard]] int rounds() const { return rounds_; }

  // The links that were closed too often, each reported by those of its ends that
  // have said so at least every second time.
  [[nodiscard]] std::vector<LinkReport> OftenClosed(MonotonicTime now) const {
    return ClosedTimes(kManyClosed, now);
  }
  // Those that were closed at least that often.
  [[nodiscard]] std::vector<LinkReport> ClosedTimes(int least,
                                                    MonotonicTime now) const;
  // Those that were closed since the last step.
  [[nodiscard]] std::vector<LinkReport> ClosedAtThisStep() const;

  // Keeps the ends of `link` apart for a while, and begins to count anew how
  // often it is closed, and how often connections are.
  void Remember(const LinkReport& link, MonotonicTime now);

  // Returns the names of all workers to keep apart from `worker`. The views
  // last until the next Remember.
  [[nodiscard]] std::vector<std::string_view> BadPeersOf(
      std::string_view worker, MonotonicTime now) const;

  // What was said of the links whose ends are kept apart, by those who said it.
  [[nodiscard]] std::vector<LinkReport> Remembered(MonotonicTime now) const;

  // When the next pair may be together again; InfiniteFuture if none is kept
  // apart.
  [[nodiscard]] MonotonicTime NextExpiry(MonotonicTime now) const;

 private:
  using Pair = std::pair<std::string, std::string>;  // in order
  struct Hold {
    absl::Duration length;
    MonotonicTime end;
    // Which ends of the pair have reported it.
    bool by_first = false;
    bool by_second = false;
  };

  // A time that a link was closed, and which ends of the pair have said so.
  struct Closed {
    MonotonicTime time;
    int64_t steps = 0;  // as of then
    bool by_first = false;
    bool by_second = false;
  };

  [[nodiscard]] bool StillCounts(const Closed& then, MonotonicTime now) const;
  // The links of which `counts` is true at least that often.
  [[nodiscard]] std::vector<LinkReport> ClosedTimes(
      int least, const std::function<bool(const Closed&)>& counts) const;

  std::vector<LinkReport> links_;
  int faults_ = 0;
  std::map<Pair, std::vector<Closed>> closed_;  // oldest first
  int64_t steps_ = 0;                           // that OnStep has told of
  int rounds_ = 0;
  std::map<Pair, Hold> holds_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_FAULTS_LINK_FAULTS_H_
