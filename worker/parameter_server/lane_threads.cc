#include "worker/parameter_server/lane_threads.h"

#include <pthread.h>

#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/sync/mutex.h"

namespace ringmaster {
namespace {

using LaneSpan = std::span<const std::shared_ptr<HostLane>>;

class LanesRun {
 public:
  explicit LanesRun(LaneSpan lanes) : lanes_(lanes) {}

  void Run(size_t lane, ShardHostLinks links, const CancelToken& cancel) {
    try {
      const absl::StatusOr<DoneKind> end =
          lanes_[lane]->Run(std::move(links), cancel);
      Note(end, lanes_[lane]->blamed_rank());
    } catch (...) {
      Throw(std::current_exception());
    }
  }

  // The lanes run no more after that.
  void Interrupt() {
    for (const auto& lane : lanes_) lane->Interrupt();
  }

  // Once all have ended.
  LanesEnd TakeEnd() {
    MutexLock lock(mutex_);
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
    return *std::move(end_);
  }

 private:
  void Note(const absl::StatusOr<DoneKind>& end, int blamed_rank) {
    {
      MutexLock lock(mutex_);
      if (end_.has_value() && (end.ok() || !end_->result.ok())) {
        return NoteOtherKind(end);
      }
      end_ = LanesEnd{end, blamed_rank};
      if (end.ok()) return;
    }
    Interrupt();
  }

  void NoteOtherKind(const absl::StatusOr<DoneKind>& end) REQUIRES(mutex_) {
    if (!end.ok() || !end_->result.ok() || *end == *end_->result) return;
    end_->result = absl::FailedPreconditionError(absl::StrCat(
        "workers ended otherwise on one lane than on another: ",
        static_cast<int>(*end), " and ", static_cast<int>(*end_->result)));
  }

  void Throw(std::exception_ptr what) {
    {
      MutexLock lock(mutex_);
      thrown_ = std::move(what);
    }
    Interrupt();
  }

  const LaneSpan lanes_;
  Mutex mutex_;
  std::optional<LanesEnd> end_ GUARDED_BY(mutex_);
  std::exception_ptr thrown_ GUARDED_BY(mutex_);
};

}  // namespace

LanesEnd RunLanes(LaneSpan lanes, std::vector<ShardHostLinks> links,
                  const CancelToken& cancel) {
  LanesRun run(lanes);
  {
    std::vector<std::thread> threads;
    bool is_complete = false;
    const absl::Cleanup join = [&] {
      if (!is_complete) run.Interrupt();
      for (std::thread& thread : threads) thread.join();
    };
    threads.reserve(lanes.size());
    for (size_t lane = 1; lane < lanes.size(); ++lane) {
      threads.emplace_back(
          [&run, &cancel, lane, own = std::move(links[lane])]() mutable {
            const std::string name = absl::StrCat("shard lane ", lane);
            pthread_setname_np(pthread_self(), name.c_str());
            run.Run(lane, std::move(own), cancel);
          });
    }
    is_complete = true;
    run.Run(0, std::move(links[0]), cancel);
  }
  return run.TakeEnd();
}

namespace {

absl::Status HoldRest(
    LaneSpan rest, MonotonicTime deadline, HostRuns& held,
    absl::FunctionRef<absl::Status(const HostRuns&, const ShardHostAssignment&)>
        use) {
  return rest.front()->Call(
      [&](HostRun& run,
          const HostGeneration& generation) -> std::optional<absl::Status> {
        held.push_back(&run);
        if (rest.size() == 1) return use(held, generation.assignment);
        return HoldRest(rest.subspan(1), deadline, held, use);
      },
      deadline);
}

}  // namespace

absl::Status WithAllHeld(
    LaneSpan lanes, MonotonicTime deadline,
    absl::FunctionRef<absl::Status(const HostRuns&, const ShardHostAssignment&)>
        use) {
  // In one order, so that two calls never wait for each other's lane.
  HostRuns held;
  return HoldRest(lanes, deadline, held, use);
}

}  // namespace ringmaster
