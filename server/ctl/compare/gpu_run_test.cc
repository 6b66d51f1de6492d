#include "server/ctl/compare/gpu_run.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Refusal(const v1::TrainProgram& train) {
  return std::string(CheckGpuProgram(train).message());
}

TEST(GpuRunTest, KnowsTheModesOfGpus) {
  EXPECT_TRUE(
      CheckGpuModes(ParseModes("auto,ring,ps:1,ps:colocated").value(), false)
          .ok());
  EXPECT_TRUE(CheckGpuModes(ParseModes(kGpuModes).value(), false).ok());
  EXPECT_TRUE(CheckGpuModes(ParseModes(kClusterGpuModes).value(), true).ok());
  EXPECT_TRUE(CheckGpuModes(ParseModes("ring,ps:1").value(), true).ok());
  EXPECT_THAT(
      std::string(
          CheckGpuModes(ParseModes("auto,ring").value(), true).message()),
      HasSubstr("--modes: the workers of a cluster were started with"));
  for (const std::string mode : {"hierarchical", "gather_broadcast",
                                 "halving_doubling", "direct", "exchange"}) {
    const absl::Status status =
        CheckGpuModes(ParseModes("ring," + mode).value(), false);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("--modes: " + mode + " is for workers on CPUs"));
  }
}

TEST(GpuRunTest, NamesTheFieldThatGpusRefuse) {
  v1::TrainProgram train;
  EXPECT_TRUE(CheckGpuProgram(train).ok());
  train.mutable_emulate_compute();
  EXPECT_THAT(Refusal(train), HasSubstr("train.emulate_compute"));
  train.clear_emulate_compute();
  train.mutable_collective()->set_algorithm(v1::COLLECTIVE_ALGORITHM_DIRECT);
  EXPECT_THAT(Refusal(train), HasSubstr("train.collective.algorithm"));
  train.mutable_collective()->set_algorithm(v1::COLLECTIVE_ALGORITHM_RING);
  train.set_precision(v1::PRECISION_FLOAT16);
  EXPECT_TRUE(CheckGpuProgram(train).ok());
  train.mutable_collective()->set_wire(v1::COLLECTIVE_WIRE_BFLOAT16);
  EXPECT_THAT(Refusal(train), HasSubstr("train.collective.wire"));
}

TEST(GpuRunTest, ServersTakeAnyWireButNotFloat16) {
  v1::TrainProgram train;
  train.mutable_parameter_server()->set_servers(1);
  train.mutable_collective()->set_wire(v1::COLLECTIVE_WIRE_BFLOAT16);
  EXPECT_TRUE(CheckGpuProgram(train).ok());
  EXPECT_FALSE(IsReducedByNccl(train));
  train.set_precision(v1::PRECISION_FLOAT16);
  EXPECT_THAT(Refusal(train), HasSubstr("train.precision"));
}

TEST(GpuRunTest, HoldsNcclToWhatTheRunSays) {
  v1::TrainProgram train;
  EXPECT_TRUE(IsReducedByNccl(train));
  EXPECT_THAT(NcclLauncher(train),
              ElementsAre("/usr/bin/env", "-u", "NCCL_ALGO"));
  ApplyMode(ParseMode("ring").value(), train);
  EXPECT_THAT(NcclLauncher(train),
              ElementsAre("/usr/bin/env", "NCCL_ALGO=Ring"));
}

}  // namespace
}  // namespace ringmaster::ctl
