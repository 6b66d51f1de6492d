#include "server/ctl/compare/plan.h"

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

TEST(PlanTest, MeasuresMemoryByAFewStepsThatCompute) {
  PlanOptions options;
  options.modes = *ParseModes("ps:1");
  options.workers = {4};
  options.variations = {
      *ParseVariation("pieces:train.global_batch=128;train.micro_batch=8")};
  const auto runs = MakePlan(SmallJob(), options);
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ(runs->front().result.micro_batches, 1);
  PlannedRun pieces = runs->back();
  EXPECT_EQ(pieces.result.micro_batches, 4);
  pieces.spec.mutable_train()->mutable_emulate_compute();
  pieces.result.is_emulated = true;
  const auto run = MemoryRunOf(pieces, 32);
  ASSERT_TRUE(run.ok()) << run.status();
  const v1::TrainProgram& train = run->spec.train();
  EXPECT_EQ(train.global_batch(), 128);
  EXPECT_EQ(train.micro_batch(), 0);
  EXPECT_FALSE(train.has_emulate_compute());
  EXPECT_EQ(train.parameter_server().servers(), 1);
  EXPECT_EQ(run->result.steps, train.steps());
  EXPECT_LT(train.steps(), 10);
  EXPECT_FALSE(run->result.is_emulated);
  EXPECT_EQ(run->result.micro_batches, 1);
  EXPECT_THAT(MessageOf(MemoryRunOf(pieces, -1).status()),
              HasSubstr("--device_memory: ps:1, pieces with -1 samples"));
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
