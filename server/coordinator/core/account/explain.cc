#include "server/coordinator/core/account/explain.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/protocol/enum_name.h"
#include "server/coordinator/core/account/incident.h"
#include "server/coordinator/core/placement/forecast.h"
#include "server/coordinator/core/placement/gifts.h"
#include "server/coordinator/core/placement/host_spread.h"
#include "server/coordinator/core/placement/idle_pool.h"
#include "server/coordinator/core/placement/quotas.h"
#include "server/coordinator/core/state/formed.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {
namespace {

// Named in a summary; the rest is counted.
constexpr size_t kMostNamed = 8;
constexpr std::string_view kUnblockedByGifts =
    "the next step of the job that gives it workers";
// Jobs before a queued one that are named.
constexpr int kMostJobsNamed = 4;

std::string Seconds(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

std::string In(MonotonicTime deadline, MonotonicTime now) {
  return Seconds(std::max(deadline - now, absl::ZeroDuration()));
}

bool IsSet(MonotonicTime deadline) {
  return deadline != MonotonicTime::InfiniteFuture();
}

// "needs 6 of 8": how many workers must be left of those that there were.
std::string Needs(const Job& job) {
  return absl::StrCat(
      "needs ", job.min_workers, " of ", MemberCount(job, v1::ROLE_WORKER),
      job.sharding.servers > 0 ? ", and a parameter server" : "");
}

std::string StepOf(const Job& job) {
  if (job.runs_commands) return "its commands run";
  return absl::StrCat("step ", job.best_step, " of ", job.total_steps);
}

// The workers that prepare to join the active job.
std::string PreparingNames(const State& state) {
  std::string names;
  for (const auto& [name, worker] : state.workers) {
    if (!worker.rehearsal.has_value()) continue;
    absl::StrAppend(&names, names.empty() ? "" : ", ", name, " (host ",
                    worker.host, worker.rehearsal->is_ready ? ", ready)" : ")");
  }
  return names;
}

// Builds one explanation.
class Explainer {
 public:
  Explainer(const State& state, const Job& job, const Config& config,
            MonotonicTime now, std::optional<absl::Duration> journal_wait)
      : state_(state),
        job_(job),
        config_(config),
        now_(now),
        journal_fault_(JournalFault(state, journal_wait)) {}

  Explanation Run() {
    result_.state = job_.state();
    Dispatch();
    AddJournal();
    return std::move(result_);
  }

 private:
  void Dispatch() {
    if (job_.ending.has_value()) {
      result_.summary =
          absl::StrCat("its end as ", EnumName(job_.ending->state),
                       " is on its way to the journal");
      return;
    }
    if (IsOutdated(state_)) {
      result_.summary = OtherCoordinatorText(state_);
      result_.what_unblocks =
          "its start with --take_over, or the other coordinator";
      return;
    }
    switch (job_.state()) {
      case v1::JOB_STATE_QUEUED:
        return Queued();
      case v1::JOB_STATE_GATHERING:
        return Gathering();
      case v1::JOB_STATE_PREPARING:
        return Preparing();
      case v1::JOB_STATE_RUNNING:
        return Running();
      case v1::JOB_STATE_HALTING:
        return Halting();
      case v1::JOB_STATE_STOPPING:
        return Stopping();
      default:
        result_.summary = absl::StrCat("has ended: ", job_.message);
        return;
    }
  }

  void Queued() {
    if (job_.is_suspended) {
      result_.summary = absl::StrCat("is ", job_.suspended_text);
      result_.what_unblocks = absl::StrCat("ringctl resume ", job_.id);
      return;
    }
    std::vector<std::string> before;
    int count = 0;
    for (const auto& [number, other] : state_.jobs) {
      const bool is_before = (state_.active_jobs.contains(number) &&
                              other.priority >= job_.priority) ||
                             (other.state() == v1::JOB_STATE_QUEUED &&
                              !other.is_suspended && IsAhead(other, job_));
      if (!is_before || ++count > kMostJobsNamed) continue;
      before.push_back(
          absl::StrCat(other.id, " (", EnumName(other.state()),
                       other.best_step > 0 ? ", " + StepOf(other) : "", ")"));
    }
    if (count > kMostJobsNamed) before.push_back("...");
    result_.summary =
        count == 0 ? job_.message
                   : absl::StrCat("waits behind ",
                                  Counted(static_cast<size_t>(count), "job"),
                                  ": ", absl::StrJoin(before, ", "));
    ExplainLack();
  }

  // Which workers it needs to begin, and how it comes by them.
  void ExplainLack() {
    AddFit();
    if (std::string quota = QuotaText(state_, job_); !quota.empty()) {
      result_.reasons.push_back(std::move(quota));
    }
    if (std::string room = RoomText(state_, job_);
        !room.empty() && GiftsText(state_, job_).empty()) {
      result_.reasons.push_back(std::move(room));
      result_.what_unblocks = absl::StrCat("the end of jobs of queue ",
                                           QueueOf(state_, job_)->spec.name());
      return;
    }
    if (!CouldBegin(state_, job_)) {
      result_.what_unblocks =
          absl::StrCat("a larger pool: it needs at least ", NeededText(job_),
                       ", more than there are");
      return;
    }
    result_.reasons.push_back(
        absl::StrCat("it needs at least ", NeededText(job_), "; ",
                     IdlePool(state_, job_).Count(Hosts::kAll),
                     " are idle and left for it"));
    AddForecast();
    if (const std::string gifts = GiftsText(state_, job_); !gifts.empty()) {
      result_.reasons.push_back(gifts);
      result_.what_unblocks = kUnblockedByGifts;
      return;
    }
    if (KeptFor(state_) == &job_) {
      result_.reasons.push_back(
          job_.place.is_served
              ? "workers that become idle are kept for it"
              : "workers that become idle are kept for it, and lent to jobs "
                "that give way once it can begin");
    }
    if (state_.active_jobs.empty()) return;
    const Job& active = state_.jobs.at(*state_.active_jobs.begin());
    result_.what_unblocks = absl::StrCat(
        "the end of ", active.id,
        state_.active_jobs.size() > 1 ? " or of another job that has workers"
                                      : "",
        "; ringctl explain ", active.id, " tells how that stands");
  }

  void AddForecast() {
    const Forecast forecast = ForecastStart(state_, job_);
    result_.predicted_wait = forecast.until_start;
    result_.reasons.push_back(
        forecast.until_start.has_value()
            ? absl::StrCat(
                  "it is expected to begin in ",
                  absl::FormatDuration(
                      absl::Trunc(*forecast.until_start, absl::Seconds(1))),
                  ", as the jobs that have workers go on at their pace")
            : absl::StrCat("when it begins is not known: ",
                           forecast.why_unknown));
  }

  void Gathering() {
    AddLost();
    AddDrained();
    if (IsSet(job_.absence.return_deadline) ||
        IsSet(job_.absence.holders_deadline)) {
      result_.summary = job_.message;
      result_.what_unblocks = AwaitedText();
      return;
    }
    const auto& gathering = std::get<stage::Gathering>(job_.stage);
    if (IsSet(gathering.rest_deadline)) {
      result_.summary = job_.message;
      result_.what_unblocks =
          absl::StrCat("in ", In(gathering.rest_deadline, now_),
                       " it tries again; its incidents have the cause");
      return;
    }
    if (gathering.awaits_successor) {
      result_.summary = job_.message;
      result_.what_unblocks =
          absl::StrCat("one more ", Sv(NameOf(HolderRole(job_))),
                       " in the pool before the --drain_timeout of those that "
                       "leave is over");
      return;
    }
    const int held = AliveCount(job_, v1::ROLE_WORKER);
    // As Reform and TryGather count.
    const IdlePool idle(state_, job_);
    const Hosts hosts = idle.HostsFor(job_.min_workers - held);
    const int have = held + idle.Count(hosts);
    AddFit();
    AddLeftOut(hosts, v1::ROLE_WORKER);
    const int missing_servers = MissingServers();
    if (have < job_.min_workers) {
      const int missing = job_.min_workers - have;
      Summarize(absl::StrCat("waits for workers", FitText(job_), ": ", have,
                             " of at least ", job_.min_workers));
      if (held > 0) {
        result_.reasons.push_back(
            absl::StrCat(StepOf(job_), " is held by ",
                         Counted(static_cast<size_t>(held), "member")));
      }
      if (std::string gifts = GiftsText(state_, job_); !gifts.empty()) {
        result_.reasons.push_back(std::move(gifts));
        result_.what_unblocks = kUnblockedByGifts;
        return;
      }
      result_.what_unblocks = absl::StrCat(
          Counted(static_cast<size_t>(missing), "more worker"),
          missing_servers > 0
              ? absl::StrCat(" and ",
                             Counted(static_cast<size_t>(missing_servers),
                                     "more parameter server"))
              : std::string(),
          " in the pool", UnfitText());
      return;
    }
    if (missing_servers > 0) {
      Summarize(absl::StrCat("waits for ",
                             Counted(static_cast<size_t>(missing_servers),
                                     "more parameter server")));
      result_.what_unblocks =
          absl::StrCat(Counted(static_cast<size_t>(missing_servers),
                               "more parameter server"),
                       " in the pool", UnfitText());
      return;
    }
    result_.summary =
        absl::StrCat("has ", have, " of at most ", job_.max_workers,
                     " workers, at least ", job_.min_workers);
    if (IsSet(gathering.gang_deadline)) {
      result_.what_unblocks =
          absl::StrCat("it begins in ", In(gathering.gang_deadline, now_),
                       " unless more workers join");
    }
  }

  std::string AwaitedText() const {
    if (IsSet(job_.absence.return_deadline)) {
      return absl::StrCat("their return; it goes on without them in ",
                          In(job_.absence.return_deadline, now_));
    }
    const int64_t checkpoint = job_.figures.checkpoint_step();
    return absl::StrCat(
        "one of them that comes back; in ",
        In(job_.absence.holders_deadline, now_),
        ", or once all of them are known to have ended, it goes ",
        job_.absence.has_older_copies
            ? std::string("on from the older copies of others")
        : checkpoint > 0
            ? absl::StrCat("back to the checkpoint of step ", checkpoint)
            : std::string("back to its last checkpoint or the beginning"),
        "; ringctl cancel ends it at once");
  }

  void Preparing() {
    if (!job_.is_assigned) {
      result_.summary =
          absl::StrCat("generation ", job_.generation, " of ", RanksText(job_),
                       " is on its way to the journal");
      result_.what_unblocks = "the journal's answer";
      return;
    }
    const std::string since = Seconds(now_ - job_.turned_at);
    AddOwing([](const Member& m) { return m.prepared.has_value(); },
             absl::StrCat("has not prepared for ", since));
    Summarize("waits for members to prepare");
    result_.what_unblocks = absl::StrCat(
        "they build their plans and read their data; the slowest is given up "
        "after at most ",
        Seconds(config_.progress_cap), " without progress");
  }

  void Running() {
    if (IsSet(job_.reattach_deadline)) return Reattaching();
    result_.summary =
        job_.closing != Closing::kNone ? job_.message
        : job_.runs_commands
            ? absl::StrCat("runs the commands of ", RanksText(job_))
        : OpenIncident(job_) != nullptr
            ? absl::StrCat("has started generation ", job_.generation,
                           " and makes its first step, for ",
                           Seconds(now_ - job_.turned_at))
            : absl::StrCat("trains on ", RanksText(job_), ", ", StepOf(job_));
    AddDrained();
    // How its commands go on, if one has failed.
    if (job_.closing == Closing::kNone && !job_.command_loss.empty())
      result_.reasons.push_back(job_.command_loss);
    AddSuspicions();
    AddSilence();
    AddGrowth();
    AddStuck();
    AddCheckpoints();
    const int workers = MemberCount(job_, v1::ROLE_WORKER);
    if (workers < job_.max_workers) {
      AddLeftOut(Hosts::kSound, v1::ROLE_WORKER);
      const auto it = state_.jobs.find(state_.first_lacking);
      const Job* const first = it == state_.jobs.end() ? nullptr : &it->second;
      result_.reasons.push_back(absl::StrCat(
          "takes up to ", job_.max_workers, " workers, and has ", workers,
          MostOfQueue(state_, job_) <= workers
              ? absl::StrCat(": its queue has no room for more (",
                             QueueOf(state_, job_)->spec.name(), ")")
          : job_.runs_commands
              ? ": others take part when its commands begin anew, or when one "
                "that is lost is replaced"
          : first == nullptr
              ? ": it grows when more join the pool"
              : absl::StrCat(": it grows once job ", first->id, " has its")));
    }
    const int servers = MemberCount(job_, v1::ROLE_PARAMETER_SERVER);
    if (servers < job_.sharding.servers) {
      AddLeftOut(Hosts::kSound, v1::ROLE_PARAMETER_SERVER);
      result_.reasons.push_back(
          absl::StrCat("was made for ", job_.sharding.servers,
                       " parameter servers, and has ", servers,
                       ": shards are spread again when one joins the pool"));
    }
  }

  void Reattaching() {
    AddOwing(
        [this](const Member& m) {
          const Worker* const worker = state_.FindWorker(m.identity.worker);
          return worker != nullptr && worker->session != 0;
        },
        job_.is_recovered
            ? "has not attached again since the coordinator's restart"
            : "has not attached again");
    Summarize("waits for members to attach again");
    result_.what_unblocks = absl::StrCat(
        state_.sessions.empty() ? "the first of them: no worker has found the "
                                  "coordinator yet; then the others have "
                                : "they have ",
        In(job_.reattach_deadline, now_),
        " left; who has not come by then is given up");
  }

  void Halting() {
    AddLost();
    if (IsSet(job_.reattach_deadline)) return Reattaching();
    AddOwing([](const Member& m) { return m.halted.has_value(); },
             absl::StrCat("has not answered the halt for ",
                          Seconds(now_ - job_.turned_at)));
    if (job_.waits_for_journal) {
      result_.summary = job_.message;
      return;
    }
    Summarize(absl::StrCat("halts: ", job_.message));
    if (const auto& halting = std::get<stage::Halting>(job_.stage);
        IsSet(halting.deadline)) {
      result_.what_unblocks =
          absl::StrCat("the answers of all members; who has not answered in ",
                       In(halting.deadline, now_), " is evicted");
    }
  }

  void Stopping() {
    if (IsSet(job_.reattach_deadline)) return Reattaching();
    AddOwing([](const Member& m) { return m.finished.has_value(); },
             "has not stopped yet");
    Summarize(absl::StrCat("stops: ", job_.cancel_reason.value_or("")));
    if (const auto& stopping = std::get<stage::Stopping>(job_.stage);
        IsSet(stopping.deadline)) {
      result_.what_unblocks = absl::StrCat(
          job_.runs_commands
              ? "the end of its commands, which stop_grace limits; "
              : "the end of the step under way and of its checkpoint; ",
          "without progress it is cut short in ", In(stopping.deadline, now_));
    }
  }

  // Returns how many must join before the job continues: a first generation
  // needs all that the job asks for, a later one at least one.
  int MissingServers() {
    const int needed = IsNew(job_) ? job_.sharding.servers
                                   : std::min(job_.sharding.servers, 1);
    const int held = AliveCount(job_, v1::ROLE_PARAMETER_SERVER);
    const IdlePool idle(state_, job_, v1::ROLE_PARAMETER_SERVER);
    const Hosts hosts = idle.HostsFor(needed - held);
    const int missing = needed - held - idle.Count(hosts);
    if (missing > 0) AddLeftOut(hosts, v1::ROLE_PARAMETER_SERVER);
    return std::max(missing, 0);
  }

  // How many workers there are such as the job asks for.
  void AddFit() {
    if (FitText(job_).empty()) return;
    HostSpread spread(job_);
    size_t all = 0;
    size_t fit = 0;
    for (const auto& [name, worker] : state_.workers) {
      if (worker.role != v1::ROLE_WORKER) continue;
      ++all;
      if (IsFitFor(job_, worker) && spread.Take(worker)) ++fit;
    }
    result_.reasons.push_back(
        absl::StrCat("workers", FitText(job_),
                     job_.runs_commands ? " (worker --allow_commands)" : "",
                     ": ", fit, " of the ", all, " in the pool"));
  }

  // Names the workers of that role without a job that this one cannot take.
  void AddLeftOut(Hosts hosts, v1::Role role) {
    const HostSpread spread = HostSpread::Beside(state_, job_);
    for (const auto& [name, worker] : state_.workers) {
      if (worker.session == 0 || worker.role != role ||
          !worker.job_id.empty()) {
        continue;
      }
      const HostQuarantine* const quarantine =
          state_.QuarantineOf(job_, worker.host_key);
      const bool is_left_out = quarantine != nullptr &&
                               (hosts == Hosts::kSound || quarantine->is_unfit);
      if (worker.state == v1::WORKER_STATE_DRAINING) {
        AddWorker(worker, "is draining");
      } else if (const Cordon* const cordon = state_.CordonOf(worker)) {
        AddWorker(worker, CordonText(*cordon));
      } else if (!IsFitFor(job_, worker)) {
        AddWorker(worker, "is not what the job asks for");
      } else if (!spread.HasRoomFor(worker)) {
        AddWorker(worker, "is on a host where the job has a worker");
      } else if (is_left_out) {
        AddWorker(worker, LeftOutText(*quarantine));
      } else if (const Worker* const peer = BadLinkOf(state_, job_, worker)) {
        AddWorker(worker, absl::StrCat("its link with worker ", peer->name,
                                       " is broken; they are kept apart for a "
                                       "while"));
      }
    }
  }

  // How hosts that the job leaves out come back, if some of them have workers that
  // it waits for.
  std::string UnfitText() const {
    const HostQuarantine* first = nullptr;
    for (const auto& [name, worker] : state_.workers) {
      const HostQuarantine* const quarantine =
          worker.session == 0 || !worker.job_id.empty()
              ? nullptr
              : state_.QuarantineOf(job_, worker.host_key);
      if (quarantine == nullptr || !quarantine->is_unfit) continue;
      if (first == nullptr || quarantine->until < first->until)
        first = quarantine;
    }
    if (first == nullptr) return "";
    return absl::StrCat("; or host ", first->host,
                        " once it is mended: it is tried again in ",
                        In(first->until, now_),
                        ". No command lifts that earlier, but a job that is "
                        "submitted anew takes "
                        "the host at once");
  }

  std::string LeftOutText(const HostQuarantine& quarantine) const {
    if (quarantine.exit_code == 0) {
      return absl::StrCat("its host is quarantined for ",
                          In(quarantine.until, now_),
                          " more: ", quarantine.reason);
    }
    return absl::StrCat(
        "its host is left out of this job, and is tried again "
        "in ",
        In(quarantine.until, now_), ": ", quarantine.reason);
  }

  void AddLost() {
    for (const Member& member : job_.members) {
      if (!member.is_lost) continue;
      BlockingWorker lost;
      lost.worker = member.identity.worker;
      lost.role = member.identity.role;
      lost.rank = member.identity.rank;
      lost.host = member.identity.host;
      if (member.last_sign != MonotonicTime()) {
        lost.silence = now_ - member.last_sign;
      }
      lost.step = member.step;
      lost.reason = member.loss.empty() ? "was lost before the coordinator's "
                                          "restart"
                                        : member.loss;
      Block(std::move(lost));
    }
  }

  // Members that are present but have not done what the job is waiting for.
  void AddOwing(const std::function<bool(const Member&)>& has_done,
                const std::string& reason) {
    for (const Member& member : job_.members) {
      if (member.is_lost || has_done(member)) continue;
      const Worker* const worker = state_.FindWorker(member.identity.worker);
      if (worker != nullptr) AddWorker(*worker, reason);
    }
  }

  // Members that are to go and stay meanwhile.
  void AddDrained() {
    for (const Member& member : job_.members) {
      const Worker* const worker = state_.FindWorker(member.identity.worker);
      if (member.is_lost || worker == nullptr || worker->is_let_go) continue;
      const Cordon* const cordon = state_.CordonOf(*worker);
      if (cordon == nullptr || !cordon->drains) continue;
      result_.reasons.push_back(
          absl::StrCat("worker ", worker->name, " (rank ", member.identity.rank,
                       ") ", CordonText(*cordon), KeptText(*worker, *cordon)));
    }
  }

  // How long the job keeps `worker`, which is drained, and why.
  std::string KeptText(const Worker& worker, const Cordon& cordon) const {
    if (job_.is_benchmark) return "; the job keeps it to its end";
    // One of an older release could not be released by a job that goes on.
    if (worker.protocol < kLeaveProtocol) {
      return "; the job keeps it to its end, since its release is too old to "
             "leave";
    }
    if (!cordon.is_due) {
      return absl::StrCat(
          "; the job keeps it ",
          job_.runs_commands ? "to its end" : "until it can do without it",
          IsSet(cordon.due)
              ? absl::StrCat(", for ", In(cordon.due, now_), " at most")
              : "");
    }
    if (!state_.journal_error.empty())
      return "; it is due, and kept since the journal fails";
    if (!IsSet(job_.suspend_retry))
      return "; it is due, and goes as soon as the job pauses";
    return absl::StrCat(
        "; it is due, and kept since no checkpoint of the job's last step "
        "could be written; that is tried again in ",
        In(job_.suspend_retry, now_));
  }

  void AddSuspicions() {
    for (const SuspicionReport& report : job_.suspicions.reports) {
      const MemberIdentity& peer = job_.members[report.peer_rank].identity;
      result_.reasons.push_back(absl::StrCat(
          "bad link: rank ", report.observer_rank, " (worker ", report.observer,
          ") reports rank ", peer.rank, " (worker ", peer.worker, ", host ",
          peer.host, "): ", report.detail));
    }
    if (!IsSet(job_.suspicions.deadline)) return;
    result_.what_unblocks = absl::StrCat(
        "a verdict on the link in ", In(job_.suspicions.deadline, now_),
        ", unless a lost worker explains it before");
  }

  void AddSilence() {
    if (!state_.common_silence.has_value()) return;
    result_.reasons.push_back(absl::StrCat(
        "most members are silent, since ",
        Seconds(now_ - state_.common_silence->since + config_.lease),
        ": it may be the coordinator that is cut off; they are waited for"));
  }

  void AddGrowth() {
    if (IsPausing(job_)) {
      result_.reasons.push_back(
          job_.runs_commands
              ? absl::StrCat("its commands were asked to end, which stop_grace "
                             "limits: it ",
                             job_.gives_way.value_or(""))
              : "its members were asked to pause between two steps, so that "
                "workers can join or leave");
    } else if (const std::string names = PreparingNames(state_);
               !names.empty()) {
      result_.reasons.push_back(
          absl::StrCat("prepare to join, while the members train on: ", names));
    } else if (const auto* const running =
                   std::get_if<stage::Running>(&job_.stage);
               running != nullptr && IsSet(running->growth_deadline)) {
      const bool gives = std::ranges::any_of(
          Gifts(state_),
          [this](const Gift& gift) { return gift.giver == &job_; });
      result_.reasons.push_back(
          absl::StrCat(gives ? "lets workers go to another job in "
                             : "idle workers join in ",
                       In(running->growth_deadline, now_)));
    }
  }

  // Names the members that wait for nobody, while none makes progress.
  void AddStuck() {
    const absl::Duration still = now_ - job_.last_progress;
    if (still < 2 * config_.lease) return;
    result_.reasons.push_back(
        absl::StrCat("no member has made progress for ", Seconds(still),
                     "; after at most ", Seconds(config_.progress_cap),
                     " the one that holds up the others is given up"));
    AddOwing(
        [this](const Member& m) {
          const Worker* const worker = state_.FindWorker(m.identity.worker);
          return m.finished.has_value() || worker == nullptr ||
                 worker->waiting_for_rank >= 0;
        },
        "makes no progress and waits for no peer");
  }

  // Training goes on, and what it has made is not safe.
  void AddCheckpoints() {
    for (const Member& member : job_.members) {
      if (member.checkpoint_error.empty()) continue;
      result_.reasons.push_back(
          absl::StrCat("checkpoints fail: rank ", member.identity.rank,
                       " (worker ", member.identity.worker, ", host ",
                       member.identity.host, ") ", member.checkpoint_error));
    }
  }

  // Nothing can be decided, but running jobs continue.
  void AddJournal() {
    if (journal_fault_.empty() || IsEnded(job_.state())) return;
    result_.reasons.insert(result_.reasons.begin(),
                           absl::StrCat("the journal fails: ", journal_fault_));
    if (job_.state() == v1::JOB_STATE_RUNNING) return;
    result_.what_unblocks =
        "a journal that works: free or repair the disk of the state directory";
  }

  void AddWorker(const Worker& worker, std::string reason) {
    BlockingWorker blocking;
    blocking.worker = worker.name;
    blocking.role = worker.role;
    blocking.rank = worker.rank;
    blocking.host = worker.host;
    if (worker.session != 0) blocking.silence = now_ - worker.last_heard;
    blocking.phase = worker.phase;
    blocking.step = worker.step;
    blocking.reason = std::move(reason);
    Block(std::move(blocking));
  }

  void Block(BlockingWorker worker) {
    ++blocking_count_;
    if (result_.blocking.size() < kMaxBlockingWorkers) {
      result_.blocking.push_back(std::move(worker));
    }
  }

  // "WHAT: missing: rank 3 (...), rank 5 (...); needs 6 of 8".
  void Summarize(const std::string& what) {
    std::vector<std::string> named;
    for (const BlockingWorker& worker : result_.blocking) {
      if (named.size() == kMostNamed) break;
      named.push_back(ToText(worker));
    }
    result_.summary = what;
    if (named.empty()) return;
    absl::StrAppend(&result_.summary,
                    "; missing: ", absl::StrJoin(named, ", "));
    if (blocking_count_ > named.size()) {
      absl::StrAppend(&result_.summary, " and ", blocking_count_ - named.size(),
                      " more");
    }
    if (job_.state() != v1::JOB_STATE_GATHERING) {
      absl::StrAppend(&result_.summary, "; ", Needs(job_));
    }
  }

  const State& state_;
  const Job& job_;
  const Config& config_;
  const MonotonicTime now_;
  const std::string journal_fault_;
  Explanation result_;
  size_t blocking_count_ = 0;
};

}  // namespace

Explanation Explain(const State& state, const Job& job, const Config& config,
                    MonotonicTime now,
                    std::optional<absl::Duration> journal_wait) {
  return Explainer(state, job, config, now, journal_wait).Run();
}

std::string JournalFault(const State& state,
                         std::optional<absl::Duration> journal_wait) {
  if (!state.journal_error.empty() || journal_wait < kJournalPatience) {
    return state.journal_error;
  }
  return absl::StrCat("a decision has waited ",
                      absl::ToInt64Seconds(*journal_wait),
                      "s for the disk to write the journal");
}

std::string CordonText(const CordonedRecord& record) {
  return absl::StrCat(
      record.is_lifted ? "is no longer cordoned"
      : record.drains  ? "is drained"
                       : "is cordoned",
      record.caller.name.empty() ? "" : " by ", record.caller.name,
      record.due_time == absl::InfiniteFuture()
          ? ""
          : absl::FormatTime(" (due %Y-%m-%d %H:%M:%S UTC)", record.due_time,
                             absl::UTCTimeZone()),
      record.reason.empty() ? "" : ": ", record.reason);
}

std::string ToText(const BlockingWorker& worker) {
  std::string text;
  const absl::string_view role = Sv(NameOf(worker.role));
  if (worker.rank >= 0) {
    absl::StrAppend(&text, "rank ", worker.rank, " (", role, " ", worker.worker,
                    ", host ", worker.host);
  } else {
    absl::StrAppend(&text, role, " ", worker.worker, " (host ", worker.host);
  }
  if (worker.silence.has_value()) {
    absl::StrAppend(&text, ", last heard ", Seconds(*worker.silence), " ago");
  } else {
    absl::StrAppend(&text, ", not heard since the restart");
  }
  if (worker.rank >= 0) absl::StrAppend(&text, " at step ", worker.step);
  return absl::StrCat(text, ": ", worker.reason, ")");
}

}  // namespace ringmaster::coordinator
