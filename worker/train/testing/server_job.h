// ServerJob is the members of a job with parameter servers, whole trainers as
// threads of one process, each with its own data plane. In place of the
// coordinator, it tells them who holds what.
#ifndef RINGMASTER_WORKER_TRAIN_TESTING_SERVER_JOB_H_
#define RINGMASTER_WORKER_TRAIN_TESTING_SERVER_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/parameter_server/shard_placement.h"
#include "common/transport/tcp.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/member/job_runner.h"
#include "worker/train/testing/trainer_workers.h"

namespace ringmaster {

class ServerJob {
 public:
  struct Options {
    int workers = 2;
    int servers = 1;  // 0: the workers hold the shards
    int replicas = 0;
  };
  // `open_accelerator` opens what a worker computes on; empty: workers compute
  // on the CPU.
  explicit ServerJob(
      const Options& options,
      TrainerWorkers::AcceleratorFactory open_accelerator = nullptr);

  // Members are numbered: workers, then servers.
  [[nodiscard]] int members() const {
    return static_cast<int>(trainers_.size());
  }
  [[nodiscard]] int server(int index) const { return options_.workers + index; }
  JobRunner& trainer(int member) {
    return *trainers_[static_cast<size_t>(member)];
  }

  // Prepares and runs the next generation with all members that are there;
  // `meanwhile` runs on the calling thread. Outcomes by member.
  std::vector<RunOutcome> RunGeneration(const v1::TrainProgram& program,
                                        const std::function<void()>& meanwhile);
  // The same until `member` has applied `step`; then halts all.
  std::vector<RunOutcome> RunUntilStep(const v1::TrainProgram& program,
                                       int member, int64_t step);

  // Puts a new process in the place of `member`: nothing of the old is left.
  void Replace(int member);
  // Takes `member` away, for good.
  void Remove(int member);

  // The step at which the next generation resumes: the newest that all copies
  // have; 0 if a shard has no copy.
  [[nodiscard]] int64_t resume_step() const;
  [[nodiscard]] int64_t generation() const { return generation_; }

 private:
  [[nodiscard]] std::unique_ptr<JobRunner> MakeTrainer(int member);
  [[nodiscard]] bool is_host(int member) const {
    return options_.servers == 0 || member >= options_.workers;
  }
  [[nodiscard]] std::vector<int> MembersThatAreThere() const;
  [[nodiscard]] int shard_count() const {
    return options_.servers == 0 ? options_.workers : options_.servers;
  }
  // Returns the assignment of `rank`; `by_rank` holds the members.
  [[nodiscard]] RankAssignment Assign(const std::vector<int>& by_rank,
                                      size_t rank) const;
  [[nodiscard]] ShardPlacements Place(const std::vector<int>& by_rank) const;

  const Options options_;
  const TrainerWorkers::AcceleratorFactory open_accelerator_;
  int64_t generation_ = 0;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<JobRunner>> trainers_;  // null: removed
  std::vector<std::vector<HeldShard>> held_;          // by member
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_TESTING_SERVER_JOB_H_
