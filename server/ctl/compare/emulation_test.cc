#include "server/ctl/compare/emulation.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/job_service.pb.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;

RunResult Recorded() {
  RunResult run;
  run.global_batch = 4;
  run.ranks.resize(1);
  run.ranks[0].forward_seconds = 0.004;
  run.ranks[0].backward_seconds = 0.008;
  return run;
}

void AddStep(v1::RankTrace& trace, int64_t step,
             const std::vector<int64_t>& ready) {
  v1::TraceSpan& backward = *trace.add_spans();
  backward.set_name("backward");
  backward.set_step(step);
  backward.set_start_nanos(1000 * step);
  backward.set_end_nanos(1000 * step + 100);
  for (size_t i = 0; i < ready.size(); ++i) {
    v1::TraceSpan& span = *trace.add_spans();
    span.set_name("all_reduce");
    span.set_step(step);
    span.set_bucket(static_cast<int64_t>(i));
    span.set_ready_nanos(1000 * step + ready[i]);
  }
}

TEST(EmulationTest, TakesTheTimesOfASample) {
  const v1::EmulateComputeSpec emulation = EmulationFrom(Recorded(), {}, 1);
  EXPECT_EQ(emulation.forward().nanos(), 1'000'000);
  EXPECT_EQ(emulation.backward().nanos(), 2'000'000);
  EXPECT_EQ(emulation.ready_permille_size(), 0);
}

TEST(EmulationTest, TakesTheMedianMomentOfEachBucket) {
  v1::GetTraceResponse trace;
  v1::RankTrace& rank = *trace.add_ranks();
  AddStep(rank, 1, {10, 50, 100});
  AddStep(rank, 2, {12, 40, 130});
  AddStep(rank, 3, {90, 45, 100});
  // A span like those of records that end a step, and of a pass that was not
  // reported.
  rank.add_spans()->set_name("all_reduce");
  RunResult recorded = Recorded();
  recorded.gradient_bytes = 300;
  const auto ready = [&](int64_t bucket_bytes) {
    return EmulationFrom(recorded, trace, bucket_bytes).ready_permille();
  };
  EXPECT_THAT(ready(100), ElementsAre(120, 450, 1000));
  EXPECT_THAT(ready(1000), ElementsAre(1000)) << "one, ready at the end";
  EXPECT_THAT(ready(150), ElementsAre(450, 1000));
  EXPECT_THAT(ready(50), ElementsAre(120, 120, 450, 450, 1000, 1000));
  // Tensors do not fill buckets: there are more buckets than the bytes would
  // need.
  recorded.gradient_bytes = 190;
  recorded.bucket_bytes = 100;
  EXPECT_THAT(ready(100), ElementsAre(120, 450, 1000));
}

TEST(EmulationTest, RecordsOneWorkerWithTheSamplesOfEach) {
  v1::JobSpec job;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "small"
        train {
          model { mlp { window: 8 } }
          data { synthetic { samples: 512 } }
          optimizer {
            sgd { learning_rate: 0.1 }
            schedule { warmup_steps: 100 }
          }
          steps: 400
          global_batch: 32
        }
      )pb",
      &job));
  PlanOptions options;
  options.modes = *ParseModes("ring,ps:1");
  options.workers = {4};
  options.variations = {
      *ParseVariation("one bucket:train.bucket_bytes=16MiB"),
      *ParseVariation("pieces:train.global_batch=128;train.micro_batch=8")};
  const auto runs = MakePlan(job, options);
  ASSERT_TRUE(runs.ok()) << runs.status();
  const auto ring = RecordingOf(runs->front());
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ(ring->spec.workers().max(), 1);
  EXPECT_EQ(ring->spec.train().global_batch(), 8);
  EXPECT_LT(ring->spec.train().steps(), 100);
  EXPECT_EQ(ring->result.global_batch, 8);
  EXPECT_GT(ring->result.bucket_bytes, 0);
  EXPECT_EQ(ring->spec.train().optimizer().schedule().warmup_steps(),
            ring->spec.train().steps())
      << "it warms up no longer than it runs";
  for (const PlannedRun& run : *runs) {
    EXPECT_EQ(RecordingOf(run)->spec.SerializeAsString(),
              ring->spec.SerializeAsString())
        << run.result.label() << " computes alike";
  }
}

}  // namespace
}  // namespace ringmaster::ctl
