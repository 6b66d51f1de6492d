// TestCoordinator: a runtime with an empty state, for tests of what shows it.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_TESTING_TEST_COORDINATOR_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_TESTING_TEST_COORDINATOR_H_

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/coordinator/rpc/queries.h"
#include "server/coordinator/rpc/runtime.h"

namespace ringmaster::coordinator {

// One at a time in a test.
class TestCoordinator {
 public:
  TestCoordinator() {
    auto runtime =
        CoordinatorRuntime::Start({.state_dir = state_dir_, .version = "test"});
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    runtime_ = *std::move(runtime);
  }
  ~TestCoordinator() {
    runtime_->Shutdown();
    runtime_.reset();
    std::filesystem::remove_all(state_dir_);
  }
  TestCoordinator(const TestCoordinator&) = delete;
  TestCoordinator& operator=(const TestCoordinator&) = delete;

  [[nodiscard]] CoordinatorRuntime& runtime() { return *runtime_; }

  // Queues a job that waits for workers, and returns its id.
  std::string Submit() {
    v1::SubmitJobRequest request;
    v1::JobSpec& spec = *request.mutable_spec();
    spec.set_name("waits");
    spec.mutable_workers()->set_min(3);
    spec.mutable_workers()->set_max(3);
    v1::TrainProgram& train = *spec.mutable_train();
    train.set_steps(10);
    train.set_global_batch(32);
    train.mutable_model()->mutable_mlp();
    train.mutable_data()->mutable_synthetic()->set_samples(64);
    train.mutable_optimizer()->mutable_adamw();
    absl::StatusOr<SubmitRequested> parsed = ParseSubmit(request);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    Answer answer;
    EXPECT_TRUE(runtime_->Submit(*std::move(parsed), answer.Reply()).ok());
    return answer.job_id();
  }

  void Cancel(const std::string& job) {
    Answer answer;
    EXPECT_TRUE(
        runtime_
            ->Cancel({.job = job, .reason = "", .caller = {}}, answer.Reply())
            .ok());
    EXPECT_EQ(answer.job_id(), job);
  }

 private:
  class Answer {
   public:
    CoordinatorRuntime::UserReply Reply() {
      return [this](const absl::Status& status, const CoordinatorView&,
                    const Job* job) {
        EXPECT_TRUE(status.ok()) << status;
        job_id_.set_value(job == nullptr ? "" : job->id);
      };
    }
    std::string job_id() {
      std::future<std::string> id = job_id_.get_future();
      if (id.wait_for(std::chrono::seconds(40)) != std::future_status::ready)
        return "no answer";
      return id.get();
    }

   private:
    std::promise<std::string> job_id_;
  };

  const std::string state_dir_ = absl::StrCat(
      std::getenv("TEST_TMPDIR"), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::unique_ptr<CoordinatorRuntime> runtime_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_TESTING_TEST_COORDINATOR_H_
