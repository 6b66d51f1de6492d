#include "server/coordinator/core/placement/quotas.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/protocol/labels.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {
namespace {

double WeightOf(const Queue& queue) {
  return queue.spec.weight() > 0 ? queue.spec.weight() : 1;
}

void SetTurns(State& state) {
  std::vector<std::pair<double, Queue*>> by_use;
  for (auto& [name, queue] : state.queues) {
    by_use.emplace_back(queue.used / WeightOf(queue), &queue);
  }
  // Those that are alike by name.
  std::stable_sort(
      by_use.begin(), by_use.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < by_use.size(); ++i) {
    by_use[i].second->turn = static_cast<int>(i);
  }
}

bool RequiresGpus(const JobTerms& job) {
  const auto device = job.needs.labels.find(kDeviceLabel);
  return device != job.needs.labels.end() && device->second == kCudaDevice;
}

// Workers, and those of them that have to be on GPUs.
struct Wanted {
  int64_t workers = 0;
  int64_t gpus = 0;

  void Add(const Job& job) {
    workers += job.min_workers;
    if (RequiresGpus(job)) gpus += job.min_workers;
  }
};

bool IsBeyondGpus(const v1::QueueSpec& quota, const Job& job,
                  const Wanted& wanted) {
  return RequiresGpus(job) && quota.has_gpus() && wanted.gpus > quota.gpus();
}

bool IsBeyond(const v1::QueueSpec& quota, const Job& job,
              const Wanted& wanted) {
  return wanted.workers > quota.workers() || IsBeyondGpus(quota, job, wanted);
}

int GpuCount(const State& state, const Job& job) {
  return static_cast<int>(
      std::ranges::count_if(job.members, [&](const Member& member) {
        const Worker* const worker = state.FindWorker(member.identity.worker);
        return !member.is_lost && member.identity.role == v1::ROLE_WORKER &&
               worker != nullptr && worker->device.kind == v1::DEVICE_KIND_CUDA;
      }));
}

}  // namespace

const Queue* QueueOf(const State& state, const JobTerms& job) {
  if (state.queues.empty()) return nullptr;
  const auto it = state.queues.find(job.queue);
  return it != state.queues.end() ? &it->second
                                  : &state.queues.find(kDefaultQueue)->second;
}

void SetStandings(State& state) {
  if (state.queues.empty()) return;
  SetTurns(state);
  std::map<const Queue*, std::vector<Job*>> jobs_of;
  for (auto& [number, job] : state.jobs) {
    if (!IsEnded(job.state())) jobs_of[QueueOf(state, job)].push_back(&job);
  }
  for (auto& [queue, jobs] : jobs_of) {
    // They are in the order of their numbers already.
    std::stable_sort(jobs.begin(), jobs.end(), [](const Job* a, const Job* b) {
      return a->priority > b->priority;
    });
    Wanted wanted;
    int64_t needed = 0;
    for (auto begin = jobs.begin(); begin != jobs.end();) {
      const auto end = std::find_if(begin, jobs.end(), [&](const Job* job) {
        return job->priority != (*begin)->priority;
      });
      for (const Job* const job : std::span(begin, end)) {
        if (state.active_jobs.contains(job->number)) needed += job->min_workers;
      }
      for (Job* const job : std::span(begin, end)) {
        if (!job->is_suspended) wanted.Add(*job);
        job->place.borrows =
            job->is_suspended || IsBeyond(queue->spec, *job, wanted);
        job->place.turn = job->place.borrows ? queue->turn : 0;
        job->place.needed_beside =
            needed -
            (state.active_jobs.contains(job->number) ? job->min_workers : 0);
      }
      begin = end;
    }
  }
}

bool HasRoom(const State& state, const Job& job) {
  const Queue* const queue = QueueOf(state, job);
  return queue == nullptr || !queue->spec.has_most_workers() ||
         job.place.needed_beside + job.place.needed_ahead + job.min_workers <=
             queue->spec.most_workers();
}

int MostOfQueue(const State& state, const Job& job) {
  return MostOfQueue(state, job, job.number);
}

int MostOfQueue(const State& state, const JobTerms& terms, int64_t number) {
  const Queue* const queue = QueueOf(state, terms);
  if (queue == nullptr || !queue->spec.has_most_workers()) {
    return std::numeric_limits<int>::max();
  }
  int most = queue->spec.most_workers();
  for (const int64_t active : state.active_jobs) {
    const Job& other = state.jobs.at(active);
    if (active == number || QueueOf(state, other) != queue) continue;
    most -= std::max(other.min_workers, AliveCount(other, v1::ROLE_WORKER));
  }
  return std::max(most, 0);
}

std::map<std::string_view, QueueFigures> FiguresOfQueues(const State& state) {
  std::map<std::string_view, QueueFigures> all;
  for (const auto& [name, queue] : state.queues) all[name];
  if (all.empty()) return all;
  for (const auto& [number, job] : state.jobs) {
    if (IsEnded(job.state())) continue;
    QueueFigures& figures = all[QueueOf(state, job)->spec.name()];
    if (!state.active_jobs.contains(number)) {
      ++figures.queued_jobs;
      continue;
    }
    ++figures.active_jobs;
    figures.workers += AliveCount(job, v1::ROLE_WORKER);
    figures.gpus += GpuCount(state, job);
    figures.needed += job.min_workers;
    if (job.place.borrows) figures.borrowed += job.min_workers;
  }
  return all;
}

std::string RoomText(const State& state, const Job& job) {
  const Queue* const queue = QueueOf(state, job);
  if (queue == nullptr || !queue->spec.has_most_workers()) return "";
  const int limit = queue->spec.most_workers();
  const auto text = [&](const char* what, int64_t count) {
    return absl::StrCat("waits for room in queue ", queue->spec.name(), ": ",
                        what, count, " of at most ",
                        Counted(static_cast<size_t>(limit), "worker"));
  };
  if (!HasRoom(state, job)) {
    return text("jobs before it need ",
                job.place.needed_beside + job.place.needed_ahead);
  }
  const int most = MostOfQueue(state, job);
  return most < job.min_workers ? text("its jobs have ", limit - most) : "";
}

std::string QuotaText(const State& state, const Job& job) {
  const Queue* const queue = QueueOf(state, job);
  if (queue == nullptr || !job.place.borrows || state.queues.size() == 1)
    return "";
  const v1::QueueSpec& quota = queue->spec;
  return absl::StrCat("queue ", quota.name(), " has a quota of ",
                      Counted(static_cast<size_t>(quota.workers()), "worker"),
                      RequiresGpus(job) && quota.has_gpus()
                          ? absl::StrCat(", ", quota.gpus(), " of them on GPUs")
                          : "",
                      ", and borrows what is beyond that");
}

}  // namespace ringmaster::coordinator
