#include "worker/bench/bench_program.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

AllReduceBenchOptions Unusual() {
  AllReduceBenchOptions options;
  options.ranks = 3;
  options.transport = Transport::kUnix;
  options.algorithm = Algorithm::kHalvingDoubling;
  options.wire = DType::kBFloat16;
  options.reduction = Reduction::kMin;
  options.sizes = {4096, 1 << 20};
  options.connections = 3;
  options.warmup = 0;
  options.iterations = 7;
  options.time_per_size = absl::Milliseconds(1500);
  return options;
}

TEST(BenchProgramTest, ComesBackAsItWas) {
  v1::BenchProgram program;
  FillBenchProgram(Unusual(), program);
  const auto options = ParseBenchProgram(program, 3);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->ranks, 3);
  EXPECT_EQ(options->transport, Transport::kUnix);
  EXPECT_EQ(options->algorithm, Algorithm::kHalvingDoubling);
  EXPECT_EQ(options->wire, DType::kBFloat16);
  EXPECT_EQ(options->reduction, Reduction::kMin);
  EXPECT_THAT(options->sizes, ElementsAre(4096, 1 << 20));
  EXPECT_EQ(options->connections, 3);
  EXPECT_EQ(options->warmup, 0);
  EXPECT_EQ(options->iterations, 7);
  EXPECT_EQ(options->time_per_size, absl::Milliseconds(1500));
}

TEST(BenchProgramTest, LeavesOpenWhatIsLeftOpen) {
  AllReduceBenchOptions open;
  open.sizes = {100};
  open.dtype = DType::kFloat64;
  v1::BenchProgram program;
  FillBenchProgram(open, program);
  EXPECT_THAT(program.sizes(), ElementsAre(96));  // whole elements
  const auto options = ParseBenchProgram(program, 2);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_FALSE(options->transport.has_value());
  EXPECT_FALSE(options->wire.has_value());
  EXPECT_EQ(options->algorithm, Algorithm::kAuto);
  EXPECT_EQ(options->dtype, DType::kFloat64);
}

TEST(BenchProgramTest, WhatIsLeftOutHasItsDefault) {
  const auto options = ParseBenchProgram(v1::BenchProgram(), 2);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->sizes.size(), 8u);
  EXPECT_EQ(options->warmup, AllReduceBenchOptions().warmup);
  EXPECT_EQ(options->iterations, AllReduceBenchOptions().iterations);
  EXPECT_EQ(options->time_per_size, AllReduceBenchOptions().time_per_size);
}

TEST(BenchProgramTest, RefusesWhatItDoesNotKnow) {
  const auto expect = [](const char* field, const auto& change) {
    v1::BenchProgram program;
    FillBenchProgram(Unusual(), program);
    change(program);
    const auto options = ParseBenchProgram(program, 2);
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(options.status().message()), HasSubstr(field));
  };
  expect("bench.iterations", [](auto& program) { program.set_iterations(-1); });
  expect("bench.type", [](auto& program) {
    program.set_type(static_cast<v1::BenchType>(99));
  });
  expect("bench.reduction", [](auto& program) {
    program.set_reduction(static_cast<v1::BenchReduction>(99));
  });
  expect("bench.collective.algorithm", [](auto& program) {
    program.mutable_collective()->set_algorithm(
        static_cast<v1::CollectiveAlgorithm>(99));
  });
  expect("bench.collective.transport", [](auto& program) {
    program.mutable_collective()->set_transport(
        static_cast<v1::CollectiveTransport>(99));
  });
  expect("bench.collective.wire", [](auto& program) {
    program.mutable_collective()->set_wire(static_cast<v1::CollectiveWire>(99));
  });
}

TEST(BenchFiguresTest, ComeBackAsTheyWere) {
  AllReduceBenchFigures figures;
  figures.start = {Transport::kUnix, 5e9, "no room"};
  figures.rows.push_back({.bytes = 4096,
                          .count = 1024,
                          .iterations = 20,
                          .p50 = 1e-5,
                          .p99 = 2e-5,
                          .wrong = 3,
                          .algorithm = Algorithm::kDirect,
                          .predicted = 3e-5});
  v1::BenchFigures message;
  FillBenchFigures(figures, message);
  const AllReduceBenchFigures back = BenchFiguresFrom(message);
  EXPECT_EQ(back.start.transport, Transport::kUnix);
  EXPECT_EQ(back.start.bus_limit, 5e9);
  EXPECT_EQ(back.start.fallback, "no room");
  ASSERT_EQ(back.rows.size(), 1u);
  EXPECT_EQ(back.rows[0].bytes, 4096);
  EXPECT_EQ(back.rows[0].count, 1024);
  EXPECT_EQ(back.rows[0].iterations, 20);
  EXPECT_EQ(back.rows[0].p50, 1e-5);
  EXPECT_EQ(back.rows[0].p99, 2e-5);
  EXPECT_EQ(back.rows[0].wrong, 3);
  EXPECT_EQ(back.rows[0].algorithm, Algorithm::kDirect);
  EXPECT_EQ(back.rows[0].predicted, 3e-5);
}

}  // namespace
}  // namespace ringmaster
