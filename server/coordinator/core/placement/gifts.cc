#include "server/coordinator/core/placement/gifts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/coordinator/core/placement/host_spread.h"
#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/placement/quotas.h"
#include "server/coordinator/core/placement/rendezvous.h"
#include "server/coordinator/core/state/config.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {
namespace {

// A text names no more jobs, or workers.
constexpr size_t kMostNamed = 4;

bool EndsSoon(const Job& job) {
  return job.ending.has_value() || job.cancel_reason.has_value() ||
         IntentOf(job) != HaltIntent::kReform;
}

// Returns true if it waits for somebody or something else than workers, so that it
// neither needs any now nor lets any go.
bool IsHeldUp(const Job& job) {
  const auto* const gathering = std::get_if<stage::Gathering>(&job.stage);
  return job.waits_for_journal ||
         (gathering != nullptr && (gathering->awaits_successor ||
                                   gathering->rest_deadline != kNever)) ||
         job.absence.return_deadline != MonotonicTime::InfiniteFuture() ||
         job.absence.holders_deadline != MonotonicTime::InfiniteFuture();
}

std::vector<const Job*> Takers(const State& state) {
  std::vector<const Job*> takers;
  for (const int64_t number : state.active_jobs) {
    const Job& job = state.jobs.at(number);
    if (job.state() == v1::JOB_STATE_GATHERING && !IsNew(job) &&
        !job.is_suspended && !EndsSoon(job) && !IsHeldUp(job)) {
      takers.push_back(&job);
    }
  }
  const auto first = state.jobs.find(state.first_lacking);
  if (first != state.jobs.end() && WaitsToBegin(first->second) &&
      !EndsSoon(first->second)) {
    takers.push_back(&first->second);
  }
  std::sort(takers.begin(), takers.end(),
            [](const Job* a, const Job* b) { return IsBefore(*a, *b); });
  return takers;
}

// Returns how many parameter servers `job` needs beside those that are idle.
int LackingServers(const State& state, const Job& job) {
  const int servers =
      (IsNew(job) ? job.sharding.servers
                  : LeastCount(job, v1::ROLE_PARAMETER_SERVER)) -
      AliveCount(job, v1::ROLE_PARAMETER_SERVER);
  if (servers <= 0) return 0;
  return std::max(
      0,
      servers -
          IdlePool(state, job, v1::ROLE_PARAMETER_SERVER).Count(Hosts::kAll));
}

// A job that can give workers.
struct Giver {
  const Job* job = nullptr;
  // How many members it has beyond its min; if it gives way, how many it has.
  int spare = 0;
  bool gives_way = false;
  // It is of another queue than the taker's, which has no room.
  bool is_other = false;
  // Its members that could be another job's: those that hold its steps by rank, then
  // those that do not. The last is given first.
  std::vector<const Worker*> workers = {};
  // Its parameter servers that could be another job's, if it gives way.
  std::vector<const Worker*> servers = {};
};

void LetGiveWay(Giver& giver) {
  giver.gives_way = true;
  giver.spare = static_cast<int>(giver.workers.size());
}

Giver GiverOf(const State& state, const Job& job) {
  Giver giver = {.job = &job};
  if (IsNew(job) || EndsSoon(job) || IsHeldUp(job) || job.is_benchmark) {
    return giver;
  }
  std::vector<const Worker*> blank;
  giver.spare = -job.min_workers;
  for (const Member& member : job.members) {
    if (member.is_lost) continue;
    const bool is_server = member.identity.role != v1::ROLE_WORKER;
    const Worker* const worker = state.FindWorker(member.identity.worker);
    if (worker == nullptr || worker->state == v1::WORKER_STATE_DRAINING) {
      continue;
    }
    const Cordon* const cordon = state.CordonOf(*worker);
    if (cordon != nullptr && cordon->drains) continue;
    if (!is_server) ++giver.spare;
    // One of an older release could not be released by a job that goes on.
    if (cordon != nullptr || worker->session == 0 || worker->is_cut_off ||
        worker->protocol < kLeaveProtocol) {
      continue;
    }
    if (is_server) {
      giver.servers.push_back(worker);
      continue;
    }
    const bool is_blank = member.halted.has_value() &&
                          member.halted->applied_step == 0 &&
                          member.halted->complete_step == 0;
    (is_blank ? blank : giver.workers).push_back(worker);
  }
  giver.workers.insert(giver.workers.end(), blank.begin(), blank.end());
  // Its commands would have to begin anew.
  if (job.runs_commands) giver.spare = std::min(giver.spare, 0);
  if (job.is_suspended && CanGiveWay(state, job)) LetGiveWay(giver);
  return giver;
}

bool MayTake(const State& state, const Job& taker, const Worker& worker) {
  const HostQuarantine* const quarantine =
      state.QuarantineOf(taker, worker.host_key);
  return IsFitFor(taker, worker) &&
         (quarantine == nullptr || !quarantine->is_unfit) &&
         BadLinkOf(state, taker, worker) == nullptr;
}

// Returns those that can give `taker` workers beside `idle` ones, which it takes, with
// only these workers. Where it lacks nothing but room in its queue, any worker of that
// makes some.
std::vector<Giver> GiversTo(const State& state, const Job& taker,
                            const std::vector<const Worker*>& idle,
                            bool lacks_only_room, std::vector<Giver> givers) {
  std::erase_if(givers, [&](const Giver& giver) {
    return giver.job == &taker ||
           (giver.job->priority > taker.priority && !giver.gives_way);
  });
  HostSpread beside = HostSpread::Beside(state, taker);
  for (const Worker* const worker : idle) beside.Take(*worker);
  for (Giver& giver : givers) {
    if (!lacks_only_room) {
      HostSpread own = beside;
      std::erase_if(giver.workers, [&](const Worker* worker) {
        return !MayTake(state, taker, *worker) || !own.Take(*worker);
      });
    }
    giver.spare = std::min(giver.spare, static_cast<int>(giver.workers.size()));
  }
  return givers;
}

// Returns true if `job` has begun although `taker` was before it in the queue, and
// for too long; neither has taken its place in the queue since. Among jobs of one
// queue their numbers tell who was before; between queues their turns change, so only
// what was noted then counts.
bool HasOvertaken(const State& state, const Job& job, const Job& taker) {
  return WaitsToBegin(taker) && taker.place.is_overdue &&
         job.priority == taker.priority && IsAhead(taker, job) &&
         job.stay_began > taker.place.after &&
         job.stay_began > job.place.after &&
         (QueueOf(state, job) == QueueOf(state, taker)
              ? job.number > taker.number
              : job.place.overtook == taker.number);
}

// Returns true if the queue of `job` is beyond its quota with it, and that of `taker`,
// another one, is not.
bool HasBorrowedFrom(const State& state, const Job& job, const Job& taker) {
  return job.priority == taker.priority && job.place.borrows &&
         !taker.place.borrows && QueueOf(state, job) != QueueOf(state, taker);
}

// Returns true if `job` is to make room for `taker` even below its min.
bool IsBelow(const State& state, const Job& job, const Job& taker) {
  return job.priority < taker.priority || HasBorrowedFrom(state, job, taker) ||
         HasOvertaken(state, job, taker);
}

// Returns how many `givers` could give, of which `most_others` may be of queues that the
// taker's has no room for.
int SpareOf(const std::vector<Giver>& givers, int most_others) {
  int own = 0;
  int others = 0;
  for (const Giver& giver : givers) {
    (giver.is_other ? others : own) += std::max(0, giver.spare);
  }
  return own + std::min(others, most_others);
}

// Returns what `giver` could give more if it gave way.
int MoreOf(const Giver& giver) {
  return static_cast<int>(giver.workers.size()) - std::max(0, giver.spare);
}

// In the order in which they give way. Those that do so already need not stop, and
// others begin, because some of them are done.
void SortByGivingWay(std::vector<Giver*>& givers) {
  std::stable_sort(givers.begin(), givers.end(),
                   [](const Giver* a, const Giver* b) {
                     const bool is_on_its_way = a->job->gives_way.has_value();
                     return is_on_its_way != b->job->gives_way.has_value()
                                ? is_on_its_way
                                : IsAhead(*b->job, *a->job);
                   });
}

// Lets as few of `givers` give way as the `count` parameter servers need that `taker`
// lacks, and returns these; none, if all of them are not enough.
std::vector<Gift> TakeServers(const State& state, const Job& taker, int count,
                              std::vector<Giver>& givers) {
  std::vector<Giver*> lower;
  for (Giver& giver : givers) {
    std::erase_if(giver.servers, [&](const Worker* server) {
      return !MayTake(state, taker, *server);
    });
    if (giver.job != &taker && !giver.servers.empty() &&
        (giver.gives_way || (IsBelow(state, *giver.job, taker) &&
                             CanGiveWay(state, *giver.job)))) {
      lower.push_back(&giver);
    }
  }
  SortByGivingWay(lower);
  std::stable_partition(lower.begin(), lower.end(),
                        [](const Giver* giver) { return giver->gives_way; });
  std::vector<Gift> gifts;
  for (Giver* const giver : lower) {
    for (const Worker* const server : giver->servers) {
      if (static_cast<int>(gifts.size()) == count) return gifts;
      if (!giver->gives_way) LetGiveWay(*giver);
      gifts.push_back({server, giver->job, &taker, /*gives_way=*/true});
    }
  }
  return static_cast<int>(gifts.size()) == count ? gifts : std::vector<Gift>();
}

// Lets as few of `givers` give way as `count` workers for `taker` need. If all of
// them are not enough, it does not matter which do.
void LetGiveWay(const State& state, const Job& taker, int count,
                int most_others, std::vector<Giver>& givers) {
  std::vector<Giver*> lower;
  for (Giver& giver : givers) {
    if (IsBelow(state, *giver.job, taker) && !giver.gives_way &&
        MoreOf(giver) > 0 && CanGiveWay(state, *giver.job)) {
      lower.push_back(&giver);
    }
  }
  SortByGivingWay(lower);
  std::vector<std::pair<Giver*, int>> chosen;
  for (Giver* const giver : lower) {
    if (SpareOf(givers, most_others) >= count) break;
    chosen.emplace_back(giver, giver->spare);
    LetGiveWay(*giver);
  }
  for (const auto& [giver, spare] : chosen) {
    // The later ones may be enough without it.
    giver->gives_way = false;
    giver->spare = spare;
    if (SpareOf(givers, most_others) < count) LetGiveWay(*giver);
  }
}

// No more than one worker of a host goes to one job that is spread.
void Exclude(const Worker& given, std::vector<Giver>& givers) {
  for (Giver& giver : givers) {
    std::erase_if(giver.workers, [&given](const Worker* worker) {
      return worker->host_key == given.host_key;
    });
    giver.spare = std::min(giver.spare, static_cast<int>(giver.workers.size()));
  }
}

// Takes the `count` workers that are given to `taker`; none if there are fewer.
std::vector<Gift> Take(const Job& taker, int count, int most_others,
                       std::vector<Giver> givers) {
  if (SpareOf(givers, most_others) < count) return {};
  std::vector<Gift> gifts;
  while (static_cast<int>(gifts.size()) < count) {
    if (most_others <= 0) {
      std::erase_if(givers, [](const Giver& giver) { return giver.is_other; });
    }
    // A job that gives way has to give in any case. The last of those that are alike.
    const auto most = std::max_element(
        givers.rbegin(), givers.rend(), [](const Giver& a, const Giver& b) {
          const auto key = [](const Giver& giver) {
            return std::tuple(giver.spare > 0, giver.gives_way,
                              -giver.job->priority, giver.spare);
          };
          return key(a) < key(b);
        });
    // Only if hosts are excluded.
    if (most == givers.rend() || most->spare <= 0) return {};
    if (most->is_other) --most_others;
    const Worker& given = *most->workers.back();
    gifts.push_back({&given, most->job, &taker, most->gives_way});
    most->workers.pop_back();
    --most->spare;
    if (taker.needs.one_per_host) Exclude(given, givers);
  }
  return gifts;
}

// Returns the most workers that `taker` may have as far as its queue goes; one that has
// begun needs its fewest, whatever has become of the queue since.
int MostFor(const State& state, const Job& taker) {
  const int most = MostOfQueue(state, taker);
  return WaitsToBegin(taker) ? most : std::max(most, taker.min_workers);
}

void Forget(const Gift& gift, std::vector<Giver>& givers) {
  for (Giver& giver : givers) {
    if (giver.job != gift.giver) continue;
    if (gift.gives_way && !giver.gives_way) LetGiveWay(giver);
    std::erase(giver.servers, gift.worker);
    giver.spare -= static_cast<int>(std::erase(giver.workers, gift.worker));
  }
}

}  // namespace

bool IsSuspendable(const Job& job) {
  const bool has_not_begun =
      job.state() == v1::JOB_STATE_QUEUED ||
      (job.state() == v1::JOB_STATE_GATHERING && IsNew(job));
  return IsPreemptible(job) || (has_not_begun && !job.is_benchmark);
}

bool CouldGiveWay(const State& state, const Job& job) {
  // Servers alone cannot write a checkpoint.
  const int workers = AliveCount(job, v1::ROLE_WORKER);
  const int servers = AliveCount(job, v1::ROLE_PARAMETER_SERVER);
  return IsSuspendable(job) && (workers > 0 || servers == 0) &&
         KnowHowToLeave(state, job);
}

bool CanGiveWay(const State& state, const Job& job) {
  return CouldGiveWay(state, job) &&
         job.suspend_retry == MonotonicTime::InfiniteFuture();
}

bool KnowHowToLeave(const State& state, const Job& job) {
  return std::all_of(
      job.members.begin(), job.members.end(), [&](const Member& member) {
        const Worker* const worker = state.FindWorker(member.identity.worker);
        return member.is_lost || worker == nullptr ||
               worker->protocol >= kLeaveProtocol;
      });
}

std::vector<Gift> Gifts(const State& state) {
  const std::vector<const Job*> takers = Takers(state);
  if (takers.empty()) return {};
  std::vector<Giver> givers;
  for (const int64_t number : state.active_jobs) {
    const Job& job = state.jobs.at(number);
    const auto is_below = [&](const Job* taker) {
      return IsBelow(state, job, *taker);
    };
    // Most have nothing to give, and need no closer look.
    if (job.is_suspended || std::ranges::any_of(takers, is_below) ||
        AliveCount(job, v1::ROLE_WORKER) > job.min_workers) {
      givers.push_back(GiverOf(state, job));
    }
  }
  std::vector<Gift> gifts;
  // Idle workers that takers will have.
  std::set<const Worker*> taken;
  for (const Job* const taker : takers) {
    // What is found for it counts only if it gets all that it lacks.
    std::vector<Giver> asked = givers;
    const int lacking_servers = LackingServers(state, *taker);
    std::vector<Gift> given =
        TakeServers(state, *taker, lacking_servers, asked);
    if (static_cast<int>(given.size()) < lacking_servers) continue;
    std::vector<const Worker*> idle =
        IdlePool(state, *taker).Packed(Hosts::kAll);
    std::erase_if(idle,
                  [&](const Worker* worker) { return taken.contains(worker); });
    const int held = AliveCount(*taker, v1::ROLE_WORKER);
    const int room = std::max(0, MostFor(state, *taker) - held);
    const int needed = taker->min_workers - held;
    const bool lacks_only_room = static_cast<int>(idle.size()) >= needed;
    if (idle.size() > static_cast<size_t>(room)) idle.resize(room);
    const int lack = needed - static_cast<int>(idle.size());
    if (lack > 0) {
      std::vector<Giver> able =
          GiversTo(state, *taker, idle, lacks_only_room, asked);
      int most_others = 0;
      if (room < needed) {
        most_others = room - static_cast<int>(idle.size());
        for (Giver& giver : able) {
          giver.is_other = QueueOf(state, *giver.job) != QueueOf(state, *taker);
        }
      }
      LetGiveWay(state, *taker, lack, most_others, able);
      const std::vector<Gift> workers =
          Take(*taker, lack, most_others, std::move(able));
      if (workers.empty()) continue;
      given.insert(given.end(), workers.begin(), workers.end());
    } else {
      idle.resize(static_cast<size_t>(std::max(0, needed)));
    }
    for (const Gift& gift : given) Forget(gift, givers);
    gifts.insert(gifts.end(), given.begin(), given.end());
    taken.insert(idle.begin(), idle.end());
  }
  return gifts;
}

std::string GiftsText(const State& state, const Job& taker) {
  std::vector<std::string> givers;
  std::map<v1::Role, std::vector<std::string>> given;
  for (const Gift& gift : Gifts(state)) {
    if (gift.taker != &taker) continue;
    given[gift.worker->role].push_back(gift.worker->name);
    if (std::find(givers.begin(), givers.end(), gift.giver->id) ==
        givers.end()) {
      givers.push_back(gift.giver->id);
    }
  }
  if (given.empty()) return "";
  std::string text = givers.size() <= kMostNamed
                         ? absl::StrCat(givers.size() == 1 ? "job " : "jobs ",
                                        absl::StrJoin(givers, ", "))
                         : absl::StrCat(givers.size(), " jobs");
  absl::StrAppend(&text, givers.size() == 1 ? " gives it " : " give it ");
  std::vector<std::string> parts;
  for (auto& [role, names] : given) {
    std::sort(names.begin(), names.end(), NaturalLess);
    parts.push_back(names.size() > kMostNamed
                        ? Counted(names.size(), NameOf(role))
                        : absl::StrCat(Sv(NameOf(role)),
                                       names.size() == 1 ? " " : "s ",
                                       absl::StrJoin(names, ", ")));
  }
  return absl::StrCat(text, absl::StrJoin(parts, " and "));
}

std::optional<std::string> WhyGivesWay(const State& state, const Job& job,
                                       const std::vector<Gift>& gifts) {
  if (job.is_suspended && CanGiveWay(state, job)) {
    return absl::StrCat("is ", job.suspended_text);
  }
  for (const Gift& gift : gifts) {
    if (gift.giver != &job || !gift.gives_way) continue;
    return absl::StrCat(
        "gives way to job ", gift.taker->id,
        job.priority < gift.taker->priority
            ? absl::StrCat(" (priority ", gift.taker->priority, ")")
        : HasBorrowedFrom(state, job, *gift.taker)
            ? absl::StrCat(", which is within the quota of queue ",
                           gift.taker->queue)
            : ", which it has overtaken");
  }
  return std::nullopt;
}

}  // namespace ringmaster::coordinator
