#include "worker/train/output/job_check.h"

#include <filesystem>
#include <fstream>

#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

v1::TrainProgram SmallJob() {
  v1::TrainProgram program;
  program.mutable_model()->mutable_mlp()->set_window(8);
  program.mutable_data()->mutable_synthetic()->set_samples(512);
  program.mutable_optimizer()->mutable_adamw();
  program.set_steps(10);
  program.set_global_batch(64);
  return program;
}

PartCheck Find(const v1::TrainProgram& program, const std::string& part,
               const JobCheckOptions& options = {}) {
  for (const PartCheck& check : CheckJob(program, options)) {
    if (check.part == part) return check;
  }
  ADD_FAILURE() << "nothing on " << part;
  return {};
}

TEST(JobCheckTest, SaysWhatARankNeeds) {
  const PartCheck data = Find(SmallJob(), "data");
  ASSERT_TRUE(data.status.ok()) << data.status;
  EXPECT_THAT(data.found, HasSubstr("samples to train on"));
  const PartCheck memory = Find(SmallJob(), "memory", {.ranks_on_host = 2});
  ASSERT_TRUE(memory.status.ok()) << memory.status;
  for (const char* words :
       {"a rank needs ", "parameters ", "moments ", "activations ",
        "2 ranks share "}) {
    EXPECT_THAT(memory.found, HasSubstr(words));
  }
  EXPECT_EQ(CheckJob(SmallJob(), {}).size(), 2u)
      << "neither initial parameters nor a sample are asked for";
}

TEST(JobCheckTest, NamesDataThatIsNotThere) {
  v1::TrainProgram program = SmallJob();
  program.mutable_data()->mutable_text()->set_path("/nowhere/text");
  const PartCheck data = Find(program, "data");
  EXPECT_EQ(ExitCodeOf(data.status), ExitCode::kUnreadable);
  EXPECT_THAT(std::string(data.status.message()), HasSubstr("/nowhere/text"));
  EXPECT_TRUE(Find(program, "memory").status.ok()) << "is looked at anyway";
}

TEST(JobCheckTest, AModelThatIsTooLargeIsNotAllocated) {
  v1::TrainProgram program = SmallJob();
  program.mutable_model()->mutable_mlp()->set_hidden_dim(60000);
  program.mutable_model()->mutable_mlp()->set_hidden_layers(60);
  const PartCheck memory = Find(program, "memory");
  EXPECT_EQ(ExitCodeOf(memory.status), ExitCode::kRetryElsewhere);
  EXPECT_THAT(std::string(memory.status.message()),
              HasSubstr("does not fit in memory"));
}

TEST(JobCheckTest, ReadsInitialParameters) {
  v1::TrainProgram program = SmallJob();
  program.set_initial_parameters("/nowhere/model.safetensors");
  const PartCheck parameters = Find(program, "initial parameters");
  EXPECT_EQ(ExitCodeOf(parameters.status), ExitCode::kUnreadable);
  EXPECT_THAT(std::string(parameters.status.message()),
              HasSubstr("train.initial_parameters: "));
}

TEST(JobCheckTest, ASampleNeedsAModelThatWrites) {
  v1::TrainProgram program = SmallJob();
  program.mutable_sample()->set_prompt("once");
  const PartCheck sample = Find(program, "sample");
  EXPECT_TRUE(sample.status.ok()) << sample.status;
  EXPECT_EQ(sample.found, "tokens are bytes");
}

}  // namespace
}  // namespace ringmaster
