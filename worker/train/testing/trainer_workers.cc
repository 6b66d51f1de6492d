#include "worker/train/testing/trainer_workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/train/step/job_trainer.h"

namespace ringmaster {

v1::TrainProgram SmallProgram(int64_t steps) {
  v1::TrainProgram program;
  v1::MlpSpec* mlp = program.mutable_model()->mutable_mlp();
  mlp->set_window(8);
  mlp->set_embedding_dim(8);
  mlp->set_hidden_dim(32);
  mlp->set_hidden_layers(1);
  program.mutable_data()->mutable_synthetic()->set_samples(2048);
  program.mutable_data()->mutable_synthetic()->set_eval_fraction(0.1);
  v1::AdamwSpec* adamw = program.mutable_optimizer()->mutable_adamw();
  adamw->set_learning_rate(0.003);
  adamw->set_beta1(0.9);
  adamw->set_beta2(0.999);
  adamw->set_epsilon(1e-8);
  adamw->set_weight_decay(0.01);
  program.set_steps(steps);
  program.set_global_batch(32);
  program.set_seed(5);
  program.set_evaluation_samples(64);
  program.set_bucket_bytes(8 << 10);
  program.set_hash_every(1);
  program.set_precision(v1::PRECISION_FLOAT32);  // on all devices
  return program;
}

v1::JobSpec SpecOf(const v1::TrainProgram& program) {
  v1::JobSpec spec;
  *spec.mutable_train() = program;
  return spec;
}

TrainerWorkers::TrainerWorkers(int count, AcceleratorFactory open_accelerator)
    : open_accelerator_(std::move(open_accelerator)) {
  for (int i = 0; i < count; ++i) {
    listeners_.push_back(
        std::make_unique<Listener>(Listener::Listen("127.0.0.1:0").value()));
    trainers_.push_back(MakeTrainer(i));
  }
}

std::unique_ptr<JobRunner> TrainerWorkers::MakeTrainer(int worker) {
  const Listener& listener = *listeners_[static_cast<size_t>(worker)];
  std::unique_ptr<JobRunner> trainer =
      MakeJobTrainer(Clock::Real(), listener, /*threads=*/1, /*host=*/nullptr,
                     open_accelerator_ ? open_accelerator_(worker) : nullptr);
  trainer->SetNoticeCallback([this](const v1::Notice& notice) {
    const std::lock_guard<std::mutex> lock(mutex_);
    notices_.push_back(notice);
  });
  return trainer;
}

void TrainerWorkers::Replace(int worker) {
  const auto index = static_cast<size_t>(worker);
  trainers_[index] = MakeTrainer(worker);
}

std::vector<RunOutcome> TrainerWorkers::RunGeneration(
    int64_t generation, const std::vector<int>& members,
    const v1::TrainProgram& program, int64_t resume_step,
    const std::function<void()>& meanwhile, const StateTransfer& transfer) {
  std::vector<RunOutcome> outcomes(members.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    threads.emplace_back([&, rank] {
      JobRunner& trainer = this->trainer(members[rank]);
      RankAssignment assignment =
          Assign(generation, members, rank, resume_step);
      assignment.state_source_rank = transfer.source_rank;
      assignment.makes_no_step = transfer.makes_no_step;
      assignment.is_newcomer =
          std::count(transfer.newcomers.begin(), transfer.newcomers.end(),
                     static_cast<int>(rank)) > 0;
      const absl::StatusOr<PlanAgreement> agreement =
          trainer.Prepare(SpecOf(program), assignment);
      ASSERT_TRUE(agreement.ok()) << agreement.status();
      outcomes[rank] = trainer.Run();
    });
  }
  meanwhile();
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

RankAssignment TrainerWorkers::Assign(int64_t generation,
                                      const std::vector<int>& members,
                                      size_t rank, int64_t resume_step) {
  RankAssignment assignment;
  assignment.generation = generation;
  assignment.job_id = "job-1";
  assignment.rank = assignment.data_index = assignment.local_rank =
      static_cast<int>(rank);
  assignment.world_size = assignment.local_world_size =
      static_cast<int>(members.size());
  assignment.ranks_per_host = {static_cast<int>(members.size())};
  for (size_t peer = 0; peer < members.size(); ++peer) {
    if (peer == rank) continue;
    const Listener& listener = *listeners_[static_cast<size_t>(members[peer])];
    assignment.peers.push_back(
        {.rank = static_cast<int>(peer),
         .address = absl::StrCat("127.0.0.1:", listener.port())});
  }
  assignment.secret = absl::StrCat("secret of generation ", generation);
  assignment.resume_step = resume_step;
  return assignment;
}

void TrainerWorkers::AwaitStep(int worker, int64_t step) {
  while (trainer(worker).progress().applied_step < step)
    std::this_thread::yield();
}

std::vector<v1::Notice> TrainerWorkers::Notices() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return notices_;
}

}  // namespace ringmaster
