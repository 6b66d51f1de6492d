#include "server/coordinator/core/life/broken_links.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/coordinator/core/account/verdict.h"
#include "server/coordinator/core/faults/link_faults.h"
#include "server/coordinator/core/life/formation.h"
#include "server/coordinator/core/life/halt.h"
#include "server/coordinator/core/life/membership.h"
#include "server/coordinator/core/life/probing.h"

namespace ringmaster::coordinator {
namespace {

std::vector<LinkReport> LinksOf(const Job& job,
                                const std::vector<SuspicionReport>& reports) {
  std::vector<LinkReport> links;
  for (const SuspicionReport& report : reports) {
    links.push_back(
        {report.observer, job.members[report.peer_rank].identity.worker,
         report.is_unreached, report.failure == v1::LINK_FAILURE_CLOSED});
  }
  return links;
}

std::vector<LinkReport> Reports(const Job& job) {
  return StrongestReports(LinksOf(job, job.suspicions.reports));
}

bool AreAllClosed(const Job& job) {
  return std::all_of(job.suspicions.reports.begin(),
                     job.suspicions.reports.end(),
                     [](const SuspicionReport& report) {
                       return report.failure == v1::LINK_FAILURE_CLOSED;
                     });
}

bool HasReported(const Job& job, int rank) {
  return std::any_of(job.suspicions.reports.begin(),
                     job.suspicions.reports.end(),
                     [&](const SuspicionReport& report) {
                       return report.observer_rank == rank;
                     });
}

// The peer closed the connection, lives and has stopped as well: it was heard after
// the report, or has reported a link itself.
bool IsAnswered(const State& state, const Job& job,
                const SuspicionReport& report) {
  const Worker* const peer =
      state.FindWorker(job.members[report.peer_rank].identity.worker);
  return report.failure == v1::LINK_FAILURE_CLOSED && peer != nullptr &&
         peer->session != 0 &&
         (peer->last_heard > report.time || HasReported(job, report.peer_rank));
}

// Returns the links that the suspicions are about, without those that follow
// from others.
std::vector<LinkReport> BrokenLinks(const Job& job) {
  return RootLinks(Reports(job));
}

// Returns the links of this fault to remember. If all reports follow from one
// another, the first is a guess. That is good enough for a message, but
// remembering it would cost a bystander its place if the true link fails again;
// the ends of the true link report it themselves then, at the latest while
// connecting.
std::vector<LinkReport> CertainLinks(const Job& job) {
  const bool is_first = job.links.faults() == 0;
  return is_first && IsCircular(Reports(job)) ? std::vector<LinkReport>()
                                              : BrokenLinks(job);
}

// Names the first of the links at fault.
v1::Verdict VerdictOnLinks(const Turn& turn, const Job& job) {
  const LinkReport root = BrokenLinks(job).front();
  for (const SuspicionReport& report : job.suspicions.reports) {
    if (report.observer == root.observer &&
        job.members[report.peer_rank].identity.worker == root.peer) {
      return VerdictOnLink(job, report, turn.time);
    }
  }
  return VerdictOnLink(job, job.suspicions.reports.front(), turn.time);
}

std::vector<LinkEnd> LinkEnds(const State& state, const Job& job) {
  std::vector<LinkEnd> ends;
  for (const Member& member : job.members) {
    if (member.is_lost) continue;
    const std::string& name = member.identity.worker;
    ends.push_back(
        {name, state.FindWorker(name)->join_order, member.identity.rank});
  }
  return ends;
}

bool AreSameLink(const LinkReport& one, const LinkReport& other) {
  return (one.observer == other.observer && one.peer == other.peer) ||
         (one.observer == other.peer && one.peer == other.observer);
}

bool IsOneOf(const LinkReport& link, const std::vector<LinkReport>& links) {
  return std::any_of(links.begin(), links.end(), [&](const LinkReport& other) {
    return AreSameLink(link, other);
  });
}

bool IsEnd(const std::string& worker, const std::vector<LinkEnd>& ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](const LinkEnd& end) { return end.worker == worker; });
}

// The reports that, beside `links`, tell which of `ends` is at fault: those of this
// generation, what ends of the same links have said since the last step, and the
// word of those that have gone since then. So one whom nobody can reach does not
// cost one accuser after another.
std::vector<LinkReport> OtherReports(const Job& job,
                                     const std::vector<LinkReport>& links,
                                     const std::vector<LinkEnd>& ends) {
  std::vector<LinkReport> others = BrokenLinks(job);
  for (const LinkReport& report : Reports(job)) {
    if (IsOneOf(report, links)) others.push_back(report);
  }
  for (const LinkReport& before : job.links.links()) {
    if (IsOneOf(before, links) || !IsEnd(before.observer, ends))
      others.push_back(before);
  }
  return others;
}

// Returns the present report on the first of worker `name`'s links with `peers`
// that has one.
std::string DetailOf(const Job& job, const std::string& name,
                     const std::set<std::string>& peers) {
  const auto rank_of = [&job](const std::string& worker) {
    for (const Member& member : job.members) {
      if (member.identity.worker == worker) return member.identity.rank;
    }
    return -1;
  };
  for (const std::string& peer : peers) {
    std::string detail = LinkDetail(job, rank_of(name), rank_of(peer));
    if (!detail.empty()) return detail;
  }
  return "";
}

// Evicts the members named by `cover`, because of what happened to `links`. Those
// that stay begin again, and the ends of each link are kept apart. `others`: the
// reports that had a say in it.
void EvictForLinks(Turn& turn, Job& job, const std::vector<LinkReport>& links,
                   const std::vector<LinkReport>& others,
                   const std::vector<std::string>& cover,
                   std::string_view what) {
  job.links.Note(links);
  for (const LinkReport& link : links) job.links.Remember(link, turn.now);
  job.link_check = job.links.NextExpiry(turn.now);
  std::vector<v1::Evidence> evidence;
  for (const std::string& name : cover) {
    std::set<std::string> peers;
    std::string observer;
    for (const LinkReport& link : links) {
      if (link.observer != name && link.peer != name) continue;
      peers.insert(link.observer == name ? link.peer : link.observer);
      if (observer.empty()) observer = link.observer;
    }
    const auto is_about_it = [&](const LinkReport& report) {
      return report.peer == name;
    };
    const bool is_alone =
        std::none_of(links.begin(), links.end(), is_about_it) &&
        std::none_of(others.begin(), others.end(), is_about_it);
    const std::string detail = DetailOf(job, name, peers);
    evidence.push_back(EvidenceOf(
        v1::EVIDENCE_KIND_PEER_REPORT, observer,
        absl::StrCat(peers.size() == 1 ? "its link to " : "its links to ",
                     absl::StrJoin(peers, ", "), " ", Sv(what),
                     is_alone ? ", as it alone says" : "",
                     detail.empty() ? "" : ": ", detail)));
  }
  for (size_t i = 0; i < cover.size(); ++i) {
    const Worker* const worker = turn.state.FindWorker(cover[i]);
    if (worker == nullptr || MemberOf(turn.state, *worker) == nullptr) continue;
    Evict(turn, cover[i], evidence[i]);
  }
}

// Returns true if `job` has members enough without those named by `cover`.
bool CanGoWithout(const State& state, const Job& job,
                  const std::vector<std::string>& cover) {
  return std::all_of(cover.begin(), cover.end(), [&](const auto& name) {
    const v1::Role role = state.FindWorker(name)->role;
    const auto lost =
        std::count_if(cover.begin(), cover.end(), [&](const auto& other) {
          return state.FindWorker(other)->role == role;
        });
    return AliveCount(job, role) - lost >= LeastCount(job, role);
  });
}

// Returns true if `member` of `job` may be the only one, beside those named by
// `cover`, who holds a part of the state. Of workers that hold shards each is, unless
// there are copies; they keep theirs when they go, and are taken back with them.
bool MayHoldAlone(const Job& job, const Member& member,
                  const std::vector<std::string>& cover) {
  const v1::Role role = member.identity.role;
  if (role == v1::ROLE_PARAMETER_SERVER) return true;
  if (role != HolderRole(job) || HoldsShards(job, role)) return false;
  const auto may_hold = [&job](const Member& other) {
    return !other.is_lost && (!other.is_newcomer || job.has_trained);
  };
  return may_hold(member) &&
         std::none_of(job.members.begin(), job.members.end(),
                      [&](const Member& other) {
                        return other.identity.role == role && may_hold(other) &&
                               std::find(cover.begin(), cover.end(),
                                         other.identity.worker) == cover.end();
                      });
}

// Returns true if `job`, which makes no step with those named by `cover`, loses
// none without them either; it may have to wait for others in their place.
bool MayWaitWithout(const State& state, const Job& job,
                    const std::vector<std::string>& cover) {
  return std::all_of(cover.begin(), cover.end(), [&](const auto& name) {
    const Member* const member = MemberOf(state, *state.FindWorker(name));
    return member != nullptr && !MayHoldAlone(job, *member, cover);
  });
}

// Returns the other end of `links`, if they are all of one member with one other;
// none otherwise.
std::vector<std::string> OtherEnd(const std::vector<LinkReport>& links,
                                  const std::vector<std::string>& cover) {
  if (cover.size() != 1) return {};
  std::set<std::string> others;
  for (const LinkReport& link : links)
    others.insert(link.observer == cover[0] ? link.peer : link.observer);
  if (others.size() != 1) return {};
  return {*others.begin()};
}

// Returns those who go, of `cover` of `links`: nobody, if the job has not members
// enough without them but makes steps with them; the other end of their link, if
// they hold what nobody else does.
std::vector<std::string> WhoGoes(const State& state, const Job& job,
                                 const std::vector<LinkReport>& links,
                                 std::vector<std::string> cover) {
  if (cover.empty() || CanGoWithout(state, job, cover)) return cover;
  if (job.links.rounds() < LinkFaults::kManyClosed) return {};
  if (MayWaitWithout(state, job, cover)) return cover;
  cover = OtherEnd(links, cover);
  return MayWaitWithout(state, job, cover) ? cover : std::vector<std::string>();
}

// Returns those of `links` that are between two of `ends`.
std::vector<LinkReport> Between(const std::vector<LinkEnd>& ends,
                                std::vector<LinkReport> links) {
  std::erase_if(links, [&](const LinkReport& link) {
    return !IsEnd(link.observer, ends) || !IsEnd(link.peer, ends);
  });
  return links;
}

// Returns the links of which one end is to go, since connections are closed at one
// step again and again: of those that were closed at it, the links of the end whose
// were most often; and if nobody knows any, one that may be the cause. One goes, not
// an end of each: others may have been closed only once, for reasons of their own.
std::vector<LinkReport> LinksStuckOn(const Job& job,
                                     const std::vector<LinkEnd>& ends,
                                     MonotonicTime now) {
  std::vector<LinkReport> closed = Between(ends, job.links.ClosedAtThisStep());
  if (closed.empty()) return BrokenLinks(job);
  std::map<std::string, int> times;  // of the links of each end
  for (int least = 1; least <= LinkFaults::kManyRounds; ++least) {
    for (const LinkReport& link : job.links.ClosedTimes(least, now)) {
      if (!IsOneOf(link, closed)) continue;
      ++times[link.observer];
      ++times[link.peer];
    }
  }
  const std::string most =
      std::max_element(times.begin(), times.end(),
                       [](const auto& one, const auto& other) {
                         return one.second < other.second;
                       })
          ->first;
  std::erase_if(closed, [&](const LinkReport& link) {
    return link.observer != most && link.peer != most;
  });
  return closed;
}

// Returns the links of which an end is to go, after connections were closed: those
// that were closed too often; if connections are closed at one step again and
// again, others. `is_certain`: it is known which were closed last.
std::vector<LinkReport> LinksToGoFor(const Job& job,
                                     const std::vector<LinkEnd>& ends,
                                     bool is_certain, MonotonicTime now) {
  std::vector<LinkReport> links;
  if (is_certain) links = Between(ends, job.links.OftenClosed(now));
  if (!links.empty() || !job.links.IsStuck()) return links;
  return LinksStuckOn(job, ends, now);
}

// Returns the reports that, beside those links, tell which of `ends` is at fault:
// those of links that were closed some times, and the word of those who are gone:
// since the last step, and for as long as their links are remembered, since a step
// does not settle who was right.
std::vector<LinkReport> WordsOnClosed(const Job& job,
                                      const std::vector<LinkEnd>& ends,
                                      MonotonicTime now) {
  std::vector<LinkReport> words =
      Between(ends, job.links.ClosedTimes(LinkFaults::kSomeClosed, now));
  for (const auto& said : {job.links.links(), job.links.Remembered(now)}) {
    for (const LinkReport& before : said) {
      if (!IsEnd(before.observer, ends)) words.push_back(before);
    }
  }
  return words;
}

// Members live that are no longer connected. They begin again at once, each
// time; but a link that is closed too often is worth less than one of its ends,
// if the job has members enough without it, or makes no step with it either.
void OnLinksClosed(Turn& turn, Job& job) {
  // Nobody knows which link it was, if each report follows from another.
  const bool is_certain = !IsCircular(Reports(job));
  job.links.OnClosed(is_certain ? BrokenLinks(job) : std::vector<LinkReport>(),
                     turn.now);
  const bool is_stuck = job.links.IsStuck();
  const std::vector<LinkEnd> ends = LinkEnds(turn.state, job);
  const std::vector<LinkReport> links =
      LinksToGoFor(job, ends, is_certain, turn.now);
  const std::vector<LinkReport> others = WordsOnClosed(job, ends, turn.now);
  const std::vector<std::string> cover =
      WhoGoes(turn.state, job, links, SmallestCover(links, ends, others));
  if (cover.empty()) {
    BeginHalt(turn, job, HaltIntent::kReform, VerdictOnLinks(turn, job));
    return;
  }
  EvictForLinks(turn, job, links, others, cover,
                is_stuck ? absl::StrCat("failed, as connections did ",
                                        LinkFaults::kManyRounds,
                                        " times without a step in between")
                         : absl::StrCat("broke ", LinkFaults::kManyClosed,
                                        " times in short succession"));
}

// Returns the links that have failed since the last step, and not only been closed.
std::vector<LinkReport> FailedLinks(const Job& job) {
  std::vector<LinkReport> failed = job.links.links();
  std::erase_if(failed, [](const LinkReport& link) { return link.is_closed; });
  return failed;
}

// Returns those of the present links that have failed before, since the last
// step.
std::vector<LinkReport> LinksThatFailedAgain(const Job& job) {
  std::vector<LinkReport> again = BrokenLinks(job);
  const std::vector<LinkReport> failed = FailedLinks(job);
  std::erase_if(again,
                [&](const LinkReport& link) { return !IsOneOf(link, failed); });
  return again;
}

// Returns true if links were probed, and it is known which can be made.
bool AreAllProbed(const Job& job) {
  return HasAllAnswers(job) &&
         std::all_of(job.suspicions.reports.begin(),
                     job.suspicions.reports.end(),
                     [&](const SuspicionReport& report) {
                       return report.failure == v1::LINK_FAILURE_CLOSED ||
                              (!job.suspicions.probing->is_early &&
                               IsProbed(job, report));
                     });
}

// Links could not be made again: the fewest that cover them go, if `may_go`
// says so. `beside`: links that could not be made either, but need not be
// covered.
void EvictForProbe(
    Turn& turn, Job& job, const std::vector<SuspicionReport>& not_made,
    const std::vector<SuspicionReport>& beside,
    const std::function<bool(const std::vector<std::string>&)>& may_go) {
  std::vector<LinkReport> links = LinksOf(job, not_made);
  for (LinkReport& link : links) link.is_probed = true;
  const std::vector<LinkEnd> ends = LinkEnds(turn.state, job);
  std::vector<LinkReport> others = OtherReports(job, links, ends);
  for (LinkReport& link : LinksOf(job, beside)) {
    link.is_probed = true;
    others.push_back(std::move(link));
  }
  // The coordinator is one more that could not reach them.
  for (const std::string& silent : SilentPeers(job)) {
    others.push_back({std::string(kCoordinatorObserver), silent,
                      /*is_unreached=*/true});
  }
  std::vector<std::string> cover = SmallestCover(links, ends, others);
  if (!may_go(cover)) cover = OtherEnd(links, cover);
  if (cover.empty() || !may_go(cover)) return;
  job.suspicions.reports.insert(job.suspicions.reports.end(), not_made.begin(),
                                not_made.end());
  EvictForLinks(turn, job, links, others, cover, "could not be made again");
}

}  // namespace

bool TellOfAnEnd(const Job& job, const MemberIdentity& member) {
  const bool is_closed =
      std::all_of(job.suspicions.reports.begin(), job.suspicions.reports.end(),
                  [&](const SuspicionReport& report) {
                    return report.peer_rank != member.rank ||
                           report.failure == v1::LINK_FAILURE_CLOSED ||
                           report.failure == v1::LINK_FAILURE_REFUSED;
                  });
  const std::vector<LinkReport> roots = BrokenLinks(job);
  // Around a ring, the first to arrive is a guess.
  return is_closed && !roots.empty() && !IsCircular(Reports(job)) &&
         std::all_of(roots.begin(), roots.end(), [&](const LinkReport& root) {
           return root.peer == member.worker;
         });
}

void HastenSuspicions(const Turn& turn, Job& job) {
  if (job.suspicions.deadline == MonotonicTime::InfiniteFuture()) return;
  if (AreAllProbed(job)) {
    job.suspicions.deadline = turn.now;
    return;
  }
  // This runs with every event, so it looks at each report until that is answered.
  size_t& answered = job.suspicions.answered;
  while (answered < job.suspicions.reports.size()) {
    if (!IsAnswered(turn.state, job, job.suspicions.reports[answered])) return;
    ++answered;
  }
  job.suspicions.deadline = turn.now;
}

void OnSuspicionDeadline(Turn& turn, Job& job) {
  job.suspicions.deadline = MonotonicTime::InfiniteFuture();
  if (job.state() == v1::JOB_STATE_STOPPING) {
    BeginHalt(turn, job, HaltIntent::kCancel, VerdictOnLinks(turn, job));
    return;
  }
  if (AreAllClosed(job)) {
    OnLinksClosed(turn, job);
    return;
  }
  // Its answers say nothing that a report may be decided by.
  if (job.suspicions.probing.has_value() && job.suspicions.probing->is_early)
    job.suspicions.probing.reset();
  if (const auto not_made = LinksNotMade(turn.state, job); !not_made.empty()) {
    EvictForProbe(turn, job, not_made, {}, [](const auto&) { return true; });
    return;
  }
  // A link that can be made, and fails again and again.
  std::vector<LinkReport> again = LinksThatFailedAgain(job);
  const bool is_first = job.links.OnFault(CertainLinks(job)) == 1;
  if (!AreAllProbed(job)) again = FailedLinks(job);
  if (is_first) again.clear();
  const std::vector<LinkEnd> ends = LinkEnds(turn.state, job);
  const std::vector<LinkReport> others = OtherReports(job, again, ends);
  const std::vector<std::string> cover = SmallestCover(again, ends, others);
  if (cover.empty()) {
    BeginHalt(turn, job, HaltIntent::kReform, VerdictOnLinks(turn, job));
    return;
  }
  EvictForLinks(turn, job, again, others, cover,
                "failed again without a step in between");
}

void OnEarlyProbe(Turn& turn, Job& job) {
  std::vector<SuspicionReport> not_made = LinksMadeByNeither(turn.state, job);
  // Links that nobody waits over now cost no place, but tell which end is worse.
  const auto beside = std::stable_partition(
      not_made.begin(), not_made.end(), [&](const SuspicionReport& link) {
        return IsStillWaitedOn(turn.state, job, link);
      });
  const std::vector<SuspicionReport> unneeded(beside, not_made.end());
  job.suspicions.probing.reset();
  // So many are no cut pair, and a cover of all takes long to find.
  const bool are_many = not_made.size() > kMostProbers * (kMostProbers - 1);
  not_made.erase(beside, not_made.end());
  if (not_made.empty() || are_many || job.state() != v1::JOB_STATE_RUNNING)
    return;
  // A job that would wait gains nothing by haste, nor does one that would lose
  // state: the link may come back.
  EvictForProbe(turn, job, not_made, unneeded, [&](const auto& cover) {
    return CanGoWithout(turn.state, job, cover) &&
           MayWaitWithout(turn.state, job, cover);
  });
}

void OnLinkCheck(Turn& turn, Job& job) {
  job.link_check = job.links.NextExpiry(turn.now);
  turn.ScheduleSoon();
}

}  // namespace ringmaster::coordinator
