#include "worker/process/member_metrics.h"

#include <array>
#include <utility>

#include "absl/time/time.h"
#include "common/protocol/proto_time.h"

namespace ringmaster {
namespace {

constexpr std::array<std::pair<TrainPhase, const char*>, 10> kPhases = {{
    {TrainPhase::kIdle, "idle"},
    {TrainPhase::kPrepare, "prepare"},
    {TrainPhase::kConnect, "connect"},
    {TrainPhase::kStep, "step"},
    {TrainPhase::kEvaluate, "evaluate"},
    {TrainPhase::kHalted, "halted"},
    {TrainPhase::kTransfer, "transfer"},
    {TrainPhase::kCheckpoint, "checkpoint"},
    {TrainPhase::kMeasure, "measure"},
    {TrainPhase::kCommand, "command"},
}};

void AddStepTime(const v1::RankFigures& totals, MetricPage& page) {
  const v1::PhaseDurations& phases = totals.phases();
  const std::array<std::pair<const char*, absl::Duration>, 6> parts = {{
      {"data_wait", FromProto(phases.data_wait())},
      {"forward", FromProto(phases.forward())},
      {"backward", FromProto(phases.backward())},
      {"communication_wait", FromProto(phases.communication_wait())},
      {"optimizer", FromProto(phases.optimizer())},
      {"snapshot", FromProto(phases.snapshot())},
  }};
  for (const auto& [part, time] : parts) {
    page.AddCounter("ringmaster_rank_step_seconds_total",
                    "Where the time of this rank's steps went since its "
                    "generation began.",
                    absl::ToDoubleSeconds(time), {{"part", part}});
  }
}

}  // namespace

void AddMemberMetrics(const TrainProgress& progress, bool is_attached,
                      MetricPage& page) {
  page.AddGauge("ringmaster_attached",
                "1 while the process has a session with the coordinator.",
                is_attached ? 1 : 0);
  for (const auto& [phase, name] : kPhases) {
    page.AddGauge("ringmaster_phase",
                  "1 for what the process is doing, 0 for the rest.",
                  progress.phase == phase ? 1 : 0, {{"phase", name}});
  }
  page.AddGauge("ringmaster_rank_generation",
                "Generation that it is in; 0 without a job.",
                static_cast<double>(progress.generation));
  page.AddGauge("ringmaster_rank_applied_step",
                "Last step whose update it has applied.",
                static_cast<double>(progress.applied_step));
  page.AddGauge("ringmaster_rank_waiting_for_rank",
                "The rank that it waits for at this moment; -1: none.",
                progress.waiting_for_rank);
  page.AddGauge("ringmaster_rank_held_shards",
                "Shards of a job's parameters that it holds.",
                static_cast<double>(progress.held_shards.size()));
  page.AddCounter("ringmaster_checkpoint_io_bytes_total",
                  "Bytes of checkpoints that the process has read and written.",
                  static_cast<double>(progress.disk_bytes));
  const v1::RankFigures& totals = progress.totals;
  page.AddCounter("ringmaster_rank_sent_bytes_total",
                  "Payload sent to other ranks since the generation began.",
                  static_cast<double>(totals.sent_bytes()));
  page.AddCounter("ringmaster_rank_received_bytes_total",
                  "Payload received from other ranks since the generation "
                  "began.",
                  static_cast<double>(totals.received_bytes()));
  AddStepTime(totals, page);
}

}  // namespace ringmaster
