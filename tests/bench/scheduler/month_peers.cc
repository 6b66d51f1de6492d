#include "tests/bench/scheduler/month_peers.h"

#include <algorithm>
#include <cstddef>
#include <list>
#include <optional>
#include <utility>

namespace ringmaster {
namespace {

struct Running {
  size_t job = 0;
  absl::Duration began;
  absl::Duration ends;
};

class Partition {
 public:
  Partition(int workers, const std::vector<TraceJob>& jobs,
            const PeerPolicy& policy, MonthResult& result)
      : free_(workers),
        jobs_(jobs),
        policy_(policy),
        result_(result),
        left_(jobs.size()),
        was_ended_(jobs.size()) {
    for (size_t i = 0; i < jobs.size(); ++i) left_[i] = jobs[i].duration;
  }

  void Submit(size_t job) {
    queue_.push_back(job);
    Schedule();
  }

  [[nodiscard]] absl::Duration NextEnd() const {
    absl::Duration next = absl::InfiniteDuration();
    for (const Running& run : running_) next = std::min(next, run.ends);
    return next;
  }

  void MoveTo(absl::Duration now) { now_ = now; }

  // The job that ends now.
  void EndOne() {
    const auto it =
        std::find_if(running_.begin(), running_.end(),
                     [this](const Running& run) { return run.ends <= now_; });
    result_.completion[it->job] = now_ - jobs_[it->job].submitted;
    free_ += jobs_[it->job].size;
    running_.erase(it);
    Schedule();
  }

 private:
  void Schedule() {
    if (policy_.preempts) {
      queue_.sort([this](size_t a, size_t b) {
        return std::pair(!jobs_[a].is_urgent, a) <
               std::pair(!jobs_[b].is_urgent, b);
      });
    }
    std::optional<Reservation> reserved;
    for (auto it = queue_.begin(); it != queue_.end();) {
      const size_t job = *it;
      if (policy_.preempts && jobs_[job].is_urgent) MakeRoom(job);
      if (jobs_[job].size <= free_ &&
          (!reserved.has_value() || FitsBefore(job, *reserved))) {
        it = queue_.erase(it);
        Begin(job);
        continue;
      }
      if (policy_.backfills && !reserved.has_value()) reserved = Reserve(job);
      if (!policy_.backfills && !policy_.overtakes) return;
      ++it;
    }
  }

  // When a job can begin, and how many workers are left over then.
  struct Reservation {
    absl::Duration time;
    int spare = 0;
  };

  [[nodiscard]] Reservation Reserve(size_t job) const {
    std::vector<Running> by_end = running_;
    std::sort(
        by_end.begin(), by_end.end(),
        [](const Running& a, const Running& b) { return a.ends < b.ends; });
    Reservation reserved{now_, free_ - jobs_[job].size};
    for (const Running& run : by_end) {
      if (reserved.spare >= 0) break;
      reserved = {run.ends, reserved.spare + jobs_[run.job].size};
    }
    return reserved;
  }

  [[nodiscard]] bool FitsBefore(size_t job, Reservation& reserved) const {
    if (now_ + left_[job] <= reserved.time) return true;
    if (jobs_[job].size > reserved.spare) return false;
    reserved.spare -= jobs_[job].size;
    return true;
  }

  void Begin(size_t job) {
    free_ -= jobs_[job].size;
    const absl::Duration start =
        was_ended_[job] ? policy_.restart : absl::ZeroDuration();
    result_.lost += start * jobs_[job].size;
    running_.push_back({job, now_ + start, now_ + start + left_[job]});
  }

  // Ends those that began last, if that is enough.
  void MakeRoom(size_t urgent) {
    int room = free_;
    std::vector<size_t> victims;
    for (auto it = running_.rbegin();
         it != running_.rend() && room < jobs_[urgent].size; ++it) {
      if (jobs_[it->job].is_urgent) continue;
      victims.push_back(it->job);
      room += jobs_[it->job].size;
    }
    if (room < jobs_[urgent].size) return;
    for (const size_t victim : victims) Evict(victim);
  }

  void Evict(size_t victim) {
    const auto it =
        std::find_if(running_.begin(), running_.end(),
                     [&](const Running& run) { return run.job == victim; });
    const absl::Duration done =
        std::max(absl::ZeroDuration(), now_ - it->began);
    const absl::Duration kept = absl::Trunc(done, policy_.checkpoint_interval);
    result_.lost += (done - kept) * jobs_[victim].size;
    ++result_.preemptions;
    left_[victim] -= kept;
    was_ended_[victim] = true;
    free_ += jobs_[victim].size;
    running_.erase(it);
    // Its place is that of its submission; it is the last for now, behind the urgent
    // ones that are looked at.
    queue_.push_back(victim);
  }

  int free_;
  const std::vector<TraceJob>& jobs_;
  const PeerPolicy& policy_;
  MonthResult& result_;
  absl::Duration now_;
  std::list<size_t> queue_;
  std::vector<Running> running_;
  std::vector<absl::Duration> left_;
  std::vector<bool> was_ended_;
};

}  // namespace

MonthResult RunPeer(const TraceOptions& options,
                    const std::vector<TraceJob>& jobs,
                    const PeerPolicy& policy) {
  MonthResult result;
  result.completion.resize(jobs.size());
  std::vector<Partition> partitions(
      static_cast<size_t>(policy.partitions),
      Partition(options.workers / policy.partitions, jobs, policy, result));
  size_t next = 0;
  while (true) {
    const auto first = std::min_element(
        partitions.begin(), partitions.end(),
        [](const auto& a, const auto& b) { return a.NextEnd() < b.NextEnd(); });
    const absl::Duration arrival =
        next < jobs.size() ? jobs[next].submitted : absl::InfiniteDuration();
    const absl::Duration end = first->NextEnd();
    if (end == absl::InfiniteDuration() && next == jobs.size()) return result;
    for (Partition& partition : partitions) {
      partition.MoveTo(std::min(arrival, end));
    }
    if (end <= arrival) {
      first->EndOne();
    } else {
      partitions[next % partitions.size()].Submit(next);
      ++next;
    }
  }
}

}  // namespace ringmaster
