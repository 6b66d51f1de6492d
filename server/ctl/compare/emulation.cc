#include "server/ctl/compare/emulation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/job/job_spec.h"
#include "common/protocol/proto_time.h"
#include "common/status/status_macros.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/job_service.pb.h"

namespace ringmaster::ctl {
namespace {

constexpr int64_t kRecordedSteps = 24;

struct BackwardSpan {
  int64_t start = 0;
  int64_t end = 0;
};

// By bucket: the shares of the backward pass, one a step.
std::map<int64_t, std::vector<double>> SharesOf(const v1::RankTrace& trace) {
  // The last of a step's, if there are micro-batches: buckets are ready in it.
  std::map<int64_t, BackwardSpan> passes;
  for (const v1::TraceSpan& span : trace.spans()) {
    if (span.name() == "backward")
      passes[span.step()] = {span.start_nanos(), span.end_nanos()};
  }
  std::map<int64_t, std::vector<double>> shares;
  for (const v1::TraceSpan& span : trace.spans()) {
    const auto pass = passes.find(span.step());
    if (span.name() != "all_reduce" || span.bucket() < 0 ||
        pass == passes.end() || pass->second.end <= pass->second.start) {
      continue;
    }
    const auto length =
        static_cast<double>(pass->second.end - pass->second.start);
    shares[span.bucket()].push_back(
        static_cast<double>(span.ready_nanos() - pass->second.start) / length);
  }
  return shares;
}

double MedianOf(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// By bucket, ascending, as far as all are there.
std::vector<int> MomentsOf(const v1::RankTrace& trace) {
  std::vector<int> moments;
  int before = 0;
  for (const auto& [bucket, shares] : SharesOf(trace)) {
    if (bucket != static_cast<int64_t>(moments.size())) return {};
    before =
        std::clamp(static_cast<int>(1000 * MedianOf(shares)), before, 1000);
    moments.push_back(before);
  }
  return moments;
}

}  // namespace

absl::StatusOr<PlannedRun> RecordingOf(const PlannedRun& run) {
  PlannedRun recording;
  recording.spec = run.spec;
  recording.spec.mutable_workers()->set_min(1);
  recording.spec.mutable_workers()->set_max(1);
  v1::TrainProgram& train = *recording.spec.mutable_train();
  train.clear_parameter_server();
  train.clear_collective();
  train.clear_bucket_bytes();
  SetShortRun(train, kRecordedSteps, SamplesAtOnce(train, run.result.workers));
  ASSIGN_OR_RETURN(recording.spec, ValidateAndDefault(recording.spec));
  ASSIGN_OR_RETURN(recording.result.mode, ParseMode("auto"));
  recording.result.workers = 1;
  recording.result.ranks_per_host = 1;
  FillResult(recording.spec.train(), recording.result);
  return recording;
}

v1::EmulateComputeSpec EmulationFrom(const RunResult& recorded,
                                     const v1::GetTraceResponse& trace,
                                     int64_t bucket_bytes) {
  v1::EmulateComputeSpec emulation;
  const auto samples =
      static_cast<double>(std::max<int64_t>(1, recorded.global_batch));
  const RankResult rank =
      recorded.ranks.empty() ? RankResult() : recorded.ranks.front();
  *emulation.mutable_forward() =
      ToProto(absl::Seconds(rank.forward_seconds / samples));
  *emulation.mutable_backward() =
      ToProto(absl::Seconds(rank.backward_seconds / samples));
  if (trace.ranks().empty()) return emulation;
  const std::vector<int> moments = MomentsOf(trace.ranks(0));
  if (moments.empty() || bucket_bytes <= 0) return emulation;
  if (bucket_bytes == recorded.bucket_bytes) {
    emulation.mutable_ready_permille()->Add(moments.begin(), moments.end());
    return emulation;
  }
  // Buckets of another size are ready with the recorded one that ends where
  // they do.
  const auto buckets = static_cast<int64_t>(std::max(
      1.0,
      std::ceil(recorded.gradient_bytes / static_cast<double>(bucket_bytes))));
  const auto count = static_cast<int64_t>(moments.size());
  for (int64_t i = 1; i <= buckets; ++i) {
    const int64_t ends_with = (i * count + buckets - 1) / buckets;
    emulation.add_ready_permille(moments[static_cast<size_t>(ends_with - 1)]);
  }
  return emulation;
}

}  // namespace ringmaster::ctl
