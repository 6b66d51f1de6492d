#include "server/coordinator/core/life/cordon.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/reason.h"
#include "common/text/quoted.h"
#include "server/coordinator/core/account/audit.h"
#include "server/coordinator/core/account/explain.h"
#include "server/coordinator/core/life/hand_over.h"
#include "server/coordinator/core/life/let_go.h"
#include "server/coordinator/core/life/rehearsal.h"
#include "server/coordinator/core/placement/idle_pool.h"

namespace ringmaster::coordinator {
namespace {

// Names of workers may be new with each process, for years.
constexpr size_t kMaxCordons = 10'000;

bool IsOf(std::string_view target, const Worker& worker) {
  return worker.name == target || worker.host == target;
}

// Returns the names of the workers that `target` names now.
std::vector<std::string> NamesOf(const State& state, std::string_view target) {
  std::vector<std::string> names;
  for (const auto& [name, worker] : state.workers) {
    if (IsOf(target, worker)) names.push_back(name);
  }
  return names;
}

// "cordon", "drain", "uncordon".
std::string_view ActionOf(const CordonedRecord& record) {
  if (record.is_lifted) return "uncordon";
  return record.drains ? "drain" : "cordon";
}

absl::Status Refusal(const State& state, const CordonRequested& cordon) {
  const bool is_in_force = state.cordons.contains(cordon.target);
  const std::string target = Quoted(cordon.target);
  if (cordon.is_lifted && !is_in_force) {
    return WithReason(
        absl::NotFoundError(absl::StrCat("nothing is cordoned as ", target)),
        reason::kInvalidRequest);
  }
  if (!cordon.is_lifted && !is_in_force) {
    if (NamesOf(state, cordon.target).empty()) {
      return WithReason(absl::NotFoundError(absl::StrCat(
                            "no worker and no host is named ", target,
                            "; ringctl status lists them")),
                        reason::kInvalidRequest);
    }
    if (state.cordons.size() >= kMaxCordons) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the coordinator has ", kMaxCordons,
                       " cordons: lift some of them first"));
    }
  }
  return state.journal_error.empty()
             ? absl::OkStatus()
             : JournalUnavailable(absl::StrCat("the cordon of ", target),
                                  state.journal_error);
}

// "worker a", "host h1 (workers a, b)"; a name that nobody has now stays one.
std::string SubjectOf(const State& state, const std::string& target) {
  const std::vector<std::string> names = NamesOf(state, target);
  if (names.empty()) return Quoted(target);
  if (names == std::vector{target}) {
    return absl::StrCat(Sv(NameOf(state.FindWorker(target)->role)), " ",
                        target);
  }
  return absl::StrCat("host ", target, " (", NamesText(v1::ROLE_WORKER, names),
                      ")");
}

// "worker a is drained by alice: kernel update".
std::string TextOf(const State& state, const CordonedRecord& record) {
  return absl::StrCat(SubjectOf(state, record.target), " ", CordonText(record));
}

// `before` and "job j-1", "jobs j-1, k-2"; empty if there is none.
std::string JobsText(std::string_view before,
                     const std::vector<const Job*>& jobs) {
  if (jobs.empty()) return "";
  std::vector<std::string> ids;
  for (const Job* const job : jobs) ids.push_back(job->id);
  return absl::StrCat(Sv(before), ids.size() == 1 ? "job " : "jobs ",
                      absl::StrJoin(ids, ", "));
}

// Returns the jobs that have workers which `target` names, and cannot do without those
// that go, with idle workers of `hosts` in their places, each in one.
std::vector<const Job*> JobsThatKeep(
    const State& state, std::string_view target,
    const std::function<bool(const Worker&)>& goes, Hosts hosts) {
  std::set<std::string_view> ids;
  for (const auto& [name, worker] : state.workers) {
    if (IsOf(target, worker) && MemberOf(state, worker) != nullptr)
      ids.insert(worker.job_id);
  }
  std::vector<const Job*> keepers;
  std::set<const Worker*> taken;
  for (const Job* const job : state.ActiveJobs()) {
    if (!ids.contains(job->id)) continue;
    if (!CanDoWithout(state, *job, goes, hosts, taken)) keepers.push_back(job);
  }
  return keepers;
}

// Returns the jobs that cannot do without the workers of `target` and all others that
// are drained, as it stands.
std::vector<const Job*> JobsThatNeed(const State& state,
                                     std::string_view target) {
  const auto goes = [&](const Worker& worker) {
    const Cordon* const cordon = state.CordonOf(worker);
    return IsOf(target, worker) || (cordon != nullptr && cordon->drains);
  };
  return JobsThatKeep(state, target, goes, Hosts::kSound);
}

// "by 2026-01-02T18:00:00Z: kernel update".
std::string DetailOf(const CordonedRecord& record) {
  if (record.due_time == absl::InfiniteFuture()) return record.reason;
  return absl::StrCat(absl::FormatTime("by %Y-%m-%dT%H:%M:%SZ", record.due_time,
                                       absl::UTCTimeZone()),
                      record.reason.empty() ? "" : ": ", record.reason);
}

void SetCordonCheck(State& state) {
  state.cordon_check = MonotonicTime::InfiniteFuture();
  for (const auto& [target, cordon] : state.cordons) {
    if (!cordon.is_due)
      state.cordon_check = std::min(state.cordon_check, cordon.due);
  }
}

// The names of workers that have a job, and of their hosts.
std::set<std::string_view> BusyTargets(const State& state) {
  std::set<std::string_view> busy;
  for (const auto& [name, worker] : state.workers) {
    if (!worker.job_id.empty()) busy.insert({worker.name, worker.host});
  }
  return busy;
}

}  // namespace

void OnCordon(Turn& turn, const CordonRequested& cordon) {
  if (absl::Status refusal = Refusal(turn.state, cordon); !refusal.ok()) {
    turn.Reply(cordon.request, std::move(refusal), "");
    return;
  }
  CordonedRecord record{cordon.target, cordon.is_lifted, cordon.drains,
                        cordon.reason, turn.time,        cordon.caller};
  if (cordon.drains && cordon.within != absl::InfiniteDuration()) {
    record.due_time = turn.time + cordon.within;
    record.due = turn.now + cordon.within;
  }
  turn.Persist(std::move(record), {cordon.request});
}

void OnCordonDurable(Turn& turn, const CordonedRecord& record,
                     const std::vector<RequestToken>& waiting) {
  State& state = turn.state;
  ApplyCordon(state, record);
  turn.Touch();
  SetCordonCheck(state);
  const std::string text = TextOf(state, record);
  const std::string keepers =
      record.due_time == absl::InfiniteFuture()
          ? ""
          : JobsText("; needed for now by ",
                     JobsThatNeed(state, record.target));
  turn.Emit(v1::EVENT_SEVERITY_INFO,
            record.is_lifted ? "pool.uncordoned"
            : record.drains  ? "pool.draining"
                             : "pool.cordoned",
            "", absl::StrCat(text, keepers));
  for (auto& [name, worker] : state.workers) {
    if (record.is_lifted || !IsOf(record.target, worker)) continue;
    if (worker.rehearsal.has_value()) EndRehearsal(turn, worker, text);
  }
  turn.Reply(waiting, absl::OkStatus(), "");
  turn.ScheduleSoon();
  Audit(turn, {.caller = record.caller,
               .action = std::string(ActionOf(record)),
               .object = record.target,
               .detail = DetailOf(record)});
}

void ApplyCordon(State& state, const CordonedRecord& record) {
  if (record.is_lifted) {
    state.cordons.erase(record.target);
  } else {
    state.cordons.insert_or_assign(record.target, Cordon{record});
  }
}

void OnCordonsDue(Turn& turn) {
  State& state = turn.state;
  const auto goes = [&state](const Worker& worker) {
    return IsDueToGo(state, worker);
  };
  for (auto& [target, cordon] : state.cordons) {
    if (cordon.is_due || cordon.due > turn.now) continue;
    cordon.is_due = true;
    // As MustGo counts.
    std::vector<const Job*> keepers =
        JobsThatKeep(state, target, goes, Hosts::kReady);
    const auto benchmarks = std::stable_partition(
        keepers.begin(), keepers.end(),
        [](const Job* job) { return !job->is_benchmark; });
    turn.Emit(
        keepers.empty() ? v1::EVENT_SEVERITY_INFO : v1::EVENT_SEVERITY_WARNING,
        "pool.drain_due", "",
        absl::StrCat(SubjectOf(state, target), " is due to be drained",
                     JobsText("; taken now, although needed, from ",
                              {keepers.begin(), benchmarks}),
                     JobsText("; kept to the end of benchmark ",
                              {benchmarks, keepers.end()})));
  }
  SetCordonCheck(state);
  turn.Touch();
  turn.ScheduleSoon();
}

void BeginCordons(Turn& turn) {
  const std::set<std::string_view> busy = BusyTargets(turn.state);
  for (auto& [target, cordon] : turn.state.cordons) {
    cordon.is_said_to_be_empty = !busy.contains(target);
    if (cordon.due_time == absl::InfiniteFuture()) continue;
    // Before idle workers are back, nobody could take a place.
    cordon.due = std::max(turn.now + (cordon.due_time - turn.time),
                          turn.state.gather_not_before);
    // It was said when it came, or says nothing to anybody.
    cordon.is_due = cordon.due_time <= turn.time && !busy.contains(target);
  }
  SetCordonCheck(turn.state);
}

void NoteEmpty(Turn& turn) {
  State& state = turn.state;
  const auto is_awaited = [](const auto& entry) {
    return entry.second.drains && !entry.second.is_said_to_be_empty;
  };
  if (std::none_of(state.cordons.begin(), state.cordons.end(), is_awaited)) {
    return;
  }
  const std::set<std::string_view> busy = BusyTargets(state);
  for (auto& [target, cordon] : state.cordons) {
    if (!cordon.drains || busy.contains(target) ||
        std::exchange(cordon.is_said_to_be_empty, true)) {
      continue;
    }
    turn.Emit(v1::EVENT_SEVERITY_INFO, "pool.drained", "",
              absl::StrCat(SubjectOf(state, target),
                           " is drained: no worker there has a job"));
  }
}

}  // namespace ringmaster::coordinator
