#include "worker/process/member_metrics.h"

#include <string>

#include "absl/time/time.h"
#include "common/metrics/metric_page.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/testing/promtool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/member/job_runner.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

TEST(MemberMetrics, TellOfTheProcess) {
  TrainProgress progress;
  progress.phase = TrainPhase::kStep;
  progress.generation = 4;
  progress.applied_step = 17;
  progress.waiting_for_rank = 2;
  progress.disk_bytes = 4096;
  progress.held_shards = {{0, 17}, {3, 17}};
  progress.totals.set_sent_bytes(100);
  progress.totals.set_received_bytes(200);
  progress.totals.mutable_phases()->mutable_backward()->set_seconds(1);
  progress.totals.mutable_phases()->mutable_backward()->set_nanos(500000000);
  MetricPage page;
  AddMemberMetrics(progress, true, page);
  const std::string text = page.Text();
  for (const char* line :
       {"ringmaster_attached 1", R"(ringmaster_phase{phase="step"} 1)",
        R"(ringmaster_phase{phase="idle"} 0)", "ringmaster_rank_generation 4",
        "ringmaster_rank_applied_step 17", "ringmaster_rank_waiting_for_rank 2",
        "ringmaster_rank_held_shards 2",
        "ringmaster_checkpoint_io_bytes_total 4096",
        "ringmaster_rank_sent_bytes_total 100",
        "ringmaster_rank_received_bytes_total 200",
        R"(ringmaster_rank_step_seconds_total{part="backward"} 1.5)",
        R"(ringmaster_rank_step_seconds_total{part="forward"} 0)"}) {
    EXPECT_THAT("\n" + text, HasSubstr(std::string("\n") + line + "\n"));
  }
}

TEST(MemberMetrics, EveryPhaseHasAName) {
  for (int phase = 0; phase <= static_cast<int>(TrainPhase::kMeasure);
       ++phase) {
    TrainProgress progress;
    progress.phase = static_cast<TrainPhase>(phase);
    MetricPage page;
    AddMemberMetrics(progress, false, page);
    const std::string text = page.Text();
    EXPECT_THAT(text, HasSubstr("\"} 1\n")) << phase;
    EXPECT_THAT(text, HasSubstr("ringmaster_attached 0\n"));
  }
}

TEST(MemberMetrics, PassPromtool) {
  MetricPage page;
  AddMemberMetrics(TrainProgress(), true, page);
  AddProcessMetrics("worker", page);
  ExpectPassesPromtool(page);
}

}  // namespace
}  // namespace ringmaster
