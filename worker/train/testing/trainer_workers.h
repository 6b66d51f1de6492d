// TrainerWorkers are whole trainers as threads of one process, each with its
// own data plane: the workers of a job without a coordinator.
#ifndef RINGMASTER_WORKER_TRAIN_TESTING_TRAINER_WORKERS_H_
#define RINGMASTER_WORKER_TRAIN_TESTING_TRAINER_WORKERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "common/transport/tcp.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/member/job_runner.h"
#include "worker/train/state/accelerator.h"

namespace ringmaster {

// A small mlp on synthetic samples.
v1::TrainProgram SmallProgram(int64_t steps);

// A job that runs it.
v1::JobSpec SpecOf(const v1::TrainProgram& program);

inline constexpr int64_t kEndless = 100'000'000;

// The ranks that take over the state, and its source; by default nobody does.
struct StateTransfer {
  int source_rank = -1;
  std::vector<int> newcomers = {};  // ranks
  // The generation is for that alone, or, without a source, for a checkpoint.
  bool makes_no_step = false;
};

class TrainerWorkers {
 public:
  // Opens what the trainer of `worker` computes on; if empty, trainers compute
  // on the CPU.
  using AcceleratorFactory =
      std::function<std::unique_ptr<Accelerator>(int worker)>;

  explicit TrainerWorkers(int count,
                          AcceleratorFactory open_accelerator = nullptr);

  JobRunner& trainer(int worker) {
    return *trainers_[static_cast<size_t>(worker)];
  }

  // Prepares and runs a generation with `members` as ranks 0, 1, ... of one
  // host; `meanwhile` runs on the calling thread. Outcomes by rank.
  std::vector<RunOutcome> RunGeneration(int64_t generation,
                                        const std::vector<int>& members,
                                        const v1::TrainProgram& program,
                                        int64_t resume_step,
                                        const std::function<void()>& meanwhile,
                                        const StateTransfer& transfer = {});

  RankAssignment Assign(int64_t generation, const std::vector<int>& members,
                        size_t rank, int64_t resume_step);

  // Returns once `worker` has applied `step`; polls, since progress is a figure
  // and not an event.
  void AwaitStep(int worker, int64_t step);

  // Puts a new process in the place of `worker`: nothing of the old is left.
  void Replace(int worker);

  // The notices of all workers so far.
  std::vector<v1::Notice> Notices() const;

 private:
  std::unique_ptr<JobRunner> MakeTrainer(int worker);

  const AcceleratorFactory open_accelerator_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::unique_ptr<JobRunner>> trainers_;
  mutable std::mutex mutex_;
  std::vector<v1::Notice> notices_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_TESTING_TRAINER_WORKERS_H_
