#include "server/ctl/compare/plan.h"

#include <utility>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::JobSpec SmallJob() {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "small"
        train {
          model { mlp { window: 8 } }
          data { synthetic { samples: 512 } }
          optimizer { sgd { learning_rate: 0.1 } }
          steps: 40
          global_batch: 32
          checkpoint { directory: "/nowhere" }
        }
      )pb",
      &spec));
  return spec;
}

std::string MessageOf(const absl::Status& status) {
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

TEST(PlanTest, ReadsNumbersOfWorkers) {
  EXPECT_THAT(*ParseWorkerCounts("4,2,8,2"), ElementsAre(2, 4, 8));
  for (const char* text : {"", "0", "2,x", "65", "2,", "-1"}) {
    EXPECT_THAT(MessageOf(ParseWorkerCounts(text).status()),
                HasSubstr("is no number of workers from 1 to 64"))
        << text;
  }
}

TEST(PlanTest, ReadsTheRateOfALink) {
  EXPECT_DOUBLE_EQ(*ParseLinkRate("1gbit"), 125e6);
  EXPECT_DOUBLE_EQ(*ParseLinkRate("2.5mbit"), 312500);
  for (const char* text : {"", "1", "gbit", "1GB/s", "0gbit", "-1gbit",
                           "1e9gbit", "nangbit", "10kbit"}) {
    EXPECT_THAT(MessageOf(ParseLinkRate(text).status()),
                HasSubstr("is no rate from 1mbit to 1000gbit"))
        << text;
  }
}

TEST(PlanTest, ReadsAVariation) {
  const auto variation = ParseVariation("16-bit wire:a.b=c;d=e");
  ASSERT_TRUE(variation.ok()) << variation.status();
  EXPECT_EQ(variation->label, "16-bit wire");
  EXPECT_THAT(variation->assignments, ElementsAre("a.b=c", "d=e"));
  for (const char* text : {"", "label", ":a=b", "label:"}) {
    EXPECT_THAT(MessageOf(ParseVariation(text).status()),
                HasSubstr("names no change"))
        << text;
  }
}

TEST(PlanTest, RunsEveryCombinationFewWorkersFirst) {
  PlanOptions options;
  options.modes = *ParseModes("ring,gather_broadcast");
  options.workers = {2, 4};
  options.variations = {
      *ParseVariation("16-bit wire:train.collective.wire=float16")};
  options.varied_modes = {"ring"};
  const auto runs = MakePlan(SmallJob(), options);
  ASSERT_TRUE(runs.ok()) << runs.status();
  std::vector<std::string> names;
  for (const PlannedRun& run : *runs) {
    names.push_back(run.result.label() + " " +
                    std::to_string(run.result.workers));
  }
  EXPECT_THAT(names, ElementsAre("ring 2", "ring, 16-bit wire 2",
                                 "gather_broadcast 2", "ring 4",
                                 "ring, 16-bit wire 4", "gather_broadcast 4"));
  const PlannedRun& narrow = (*runs)[1];
  EXPECT_DOUBLE_EQ(narrow.result.wire_share, 0.5);
  EXPECT_DOUBLE_EQ((*runs)[0].result.wire_share, 1);
  EXPECT_EQ(narrow.result.steps, 40);
  EXPECT_EQ(narrow.result.global_batch, 32);
  EXPECT_GT(narrow.result.bucket_bytes, 0) << "its default";
  EXPECT_EQ(narrow.result.ranks_per_host, 2) << "one machine";
  EXPECT_EQ(narrow.spec.workers().min(), 2);
  EXPECT_EQ(narrow.spec.workers().max(), 2);
  EXPECT_FALSE(narrow.spec.train().has_checkpoint());
}

TEST(PlanTest, ScalesTheBatchIfAsked) {
  PlanOptions options;
  options.modes = *ParseModes("ring");
  options.workers = {2, 6};
  options.is_batch_scaled = true;
  const auto runs = MakePlan(SmallJob(), options);
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ(runs->front().spec.train().global_batch(), 32);
  EXPECT_EQ(runs->back().spec.train().global_batch(), 96);
  EXPECT_EQ(runs->back().result.global_batch, 96);
}

TEST(PlanTest, TakesTcpBetweenHosts) {
  PlanOptions options;
  options.modes = *ParseModes("ring");
  options.workers = {2};
  options.is_over_network = true;
  const auto runs = MakePlan(SmallJob(), options);
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ(runs->front().spec.train().collective().transport(),
            v1::COLLECTIVE_TRANSPORT_TCP);
  EXPECT_EQ(runs->front().result.ranks_per_host, 1);
}

TEST(PlanTest, ReadsTheMemoryOfADevice) {
  EXPECT_EQ(*ParseDeviceMemory("8GiB"), int64_t{8} << 30);
  EXPECT_EQ(*ParseDeviceMemory("1024KiB"), 1 << 20);
  EXPECT_EQ(*ParseDeviceMemory("1048576"), 1 << 20);
  EXPECT_EQ(*ParseDeviceMemory("1048576GiB"), int64_t{1} << 50);
  for (const char* text :
       {"", "8", "8GB", "0GiB", "-1GiB", "1KiB", "xGiB", "1048577GiB",
        "1048575", "18014398509481985KiB", "99999999999999999999"}) {
    EXPECT_THAT(MessageOf(ParseDeviceMemory(text).status()),
                HasSubstr("--device_memory: \"" + std::string(text) +
                          "\" is no memory"));
  }
}

TEST(PlanTest, CountsWhatAWorkerComputesAtOnce) {
  v1::TrainProgram train;
  train.set_global_batch(100);
  EXPECT_EQ(SamplesAtOnce(train, 3), 34) << "the largest part";
  train.set_micro_batch(16);
  EXPECT_EQ(SamplesAtOnce(train, 3), 16);
  train.set_micro_batch(40);
  EXPECT_EQ(SamplesAtOnce(train, 3), 34);
}

TEST(PlanTest, AShortRunEndsItsWarmUp) {
  v1::TrainProgram train;
  train.set_micro_batch(8);
  train.mutable_emulate_compute();
  SetShortRun(train, 4, 24);
  EXPECT_EQ(train.steps(), 4);
  EXPECT_EQ(train.global_batch(), 24);
  EXPECT_EQ(train.micro_batch(), 0);
  EXPECT_FALSE(train.has_emulate_compute());
  EXPECT_FALSE(train.has_optimizer()) << "nothing else is set";
  v1::ScheduleSpec& schedule = *train.mutable_optimizer()->mutable_schedule();
  schedule.set_warmup_steps(3);
  SetShortRun(train, 4, 24);
  EXPECT_EQ(schedule.warmup_steps(), 3);
  schedule.set_warmup_steps(100);
  SetShortRun(train, 4, 24);
  EXPECT_EQ(schedule.warmup_steps(), 4);
  schedule.set_kind(v1::SCHEDULE_KIND_WSD);
  schedule.set_warmup_steps(2);
  schedule.set_decay_steps(3);
  SetShortRun(train, 4, 24);
  EXPECT_EQ(schedule.kind(), v1::SCHEDULE_KIND_CONSTANT);
  EXPECT_EQ(schedule.warmup_steps(), 2);
  EXPECT_EQ(schedule.decay_steps(), 0);
}

TEST(PlanTest, MeasuresMemoryByAFewStepsThatCompute) {
  v1::JobSpec job = SmallJob();
  job.mutable_train()->set_steps(400);
  job.mutable_train()->set_global_batch(900);
  job.mutable_train()->set_micro_batch(100);
  v1::EmulateComputeSpec& emulation =
      *job.mutable_train()->mutable_emulate_compute();
  emulation.mutable_forward()->set_nanos(1000);
  emulation.mutable_backward()->set_nanos(1000);
  job.mutable_train()
      ->mutable_optimizer()
      ->mutable_schedule()
      ->set_warmup_steps(100);
  PlanOptions options;
  options.modes = *ParseModes("ring,ps:1");
  options.workers = {2, 4};
  options.variations = {*ParseVariation("half:train.global_batch=450")};
  const auto runs = MakePlan(job, options);
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ(runs->front().result.samples_at_once, 100);
  EXPECT_EQ(runs->front().result.micro_batches, 5);
  const auto memory = PlanMemoryRuns(*runs);
  ASSERT_TRUE(memory.ok()) << memory.status();
  ASSERT_EQ(memory->size(), 2u) << "one a mode, without the variation";
  const MemoryRuns& pair = memory->back();
  EXPECT_EQ(pair.few.result.mode.name, "ps:1");
  for (const auto& [run, samples] :
       {std::pair(&pair.few, 100), std::pair(&pair.more, 400)}) {
    const v1::TrainProgram& train = run->spec.train();
    EXPECT_EQ(run->spec.workers().max(), 4);
    EXPECT_EQ(train.global_batch(), 4 * samples);
    EXPECT_EQ(train.micro_batch(), 0);
    EXPECT_FALSE(train.has_emulate_compute());
    EXPECT_EQ(train.parameter_server().servers(), 1);
    EXPECT_LT(train.steps(), 10);
    EXPECT_EQ(run->result.steps, train.steps());
    EXPECT_EQ(run->result.global_batch, train.global_batch());
    EXPECT_EQ(run->result.samples_at_once, samples);
    EXPECT_EQ(run->result.micro_batches, 1);
  }
}

TEST(PlanTest, MeasuresMemoryWithAsManySamplesAsBuffersHoldAnyhow) {
  PlanOptions options;
  options.modes = *ParseModes("ring");
  options.workers = {4};
  v1::JobSpec job = SmallJob();
  const auto few_samples = [&] {
    const auto memory = PlanMemoryRuns(*MakePlan(job, options));
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory->front().few.result.samples_at_once;
  };
  EXPECT_EQ(few_samples(), 64) << "of a target each, where a worker has 8";
  job.mutable_train()->mutable_model()->mutable_gpt()->set_window(6);
  EXPECT_EQ(few_samples(), 11) << "of six targets";
  job.mutable_train()->mutable_model()->mutable_gpt()->set_window(64);
  EXPECT_EQ(few_samples(), 8) << "as it is";
}

TEST(PlanTest, NamesAMemoryRunThatCannotBe) {
  v1::JobSpec job = SmallJob();
  job.mutable_train()->set_global_batch(1 << 23);
  PlanOptions options;
  options.modes = *ParseModes("ring");
  options.workers = {2};
  const auto runs = MakePlan(job, options);
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_THAT(
      MessageOf(PlanMemoryRuns(*runs).status()),
      HasSubstr("--device_memory: ring with 16777216 samples on each worker: "
                "train.global_batch must be"));
}

TEST(PlanTest, SaysWhichRunCannotBe) {
  PlanOptions options;
  options.modes = *ParseModes("ring");
  options.workers = {2};
  options.variations = {*ParseVariation("no steps:train.steps=-1")};
  EXPECT_THAT(MessageOf(MakePlan(SmallJob(), options).status()),
              HasSubstr("ring, no steps with 2 workers: "));
  v1::JobSpec bench;
  bench.mutable_bench();
  EXPECT_THAT(MessageOf(MakePlan(bench, options).status()),
              HasSubstr("a job that trains"));
}

}  // namespace
}  // namespace ringmaster::ctl
