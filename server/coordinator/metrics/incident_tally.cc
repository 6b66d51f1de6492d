#include "server/coordinator/metrics/incident_tally.h"

#include <array>
#include <optional>

#include "absl/time/time.h"
#include "common/protocol/enum_name.h"
#include "common/protocol/proto_time.h"
#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {
namespace {

// From a killed process on a quiet machine to waiting for a new one.
constexpr std::array<double, 12> kBounds = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                            1,    2.5,   5,    10,  30,   120};

void Observe(double value, prometheus::ClientMetric::Histogram& histogram) {
  if (histogram.bucket.empty()) {
    for (const double bound : kBounds) histogram.bucket.push_back({0, bound});
  }
  ++histogram.sample_count;
  histogram.sample_sum += value;
  for (prometheus::ClientMetric::Bucket& bucket : histogram.bucket)
    bucket.cumulative_count += value <= bucket.upper_bound ? 1 : 0;
}

// Returns the kind of the first evidence: "STREAM_BROKEN".
std::string ReasonOf(const v1::Verdict& verdict) {
  return verdict.evidence().empty() ? "UNKNOWN"
                                    : EnumName(verdict.evidence(0).kind());
}

}  // namespace

void IncidentTally::Update(const State& state) {
  MutexLock lock(mutex_);
  for (const auto& [number, job] : state.jobs) {
    int& counted = counted_[number];
    for (const v1::Incident& incident : job.incidents) {
      if (incident.number() <= counted || !incident.is_over()) continue;
      counted = incident.number();
      Count(incident);
    }
  }
  // Jobs that were forgotten do not come back.
  std::erase_if(counted_, [&state](const auto& entry) {
    return !state.jobs.contains(entry.first);
  });
}

void IncidentTally::Count(const v1::Incident& incident) {
  lost_steps_ += incident.lost_steps();
  if (incident.is_wanted()) return;
  ++faults_[ReasonOf(incident.verdict())];
  const v1::RecoveryCost& cost = incident.cost();
  const auto observe = [&](const char* phase, bool is_known,
                           const google::protobuf::Duration& duration) {
    if (!is_known) return;
    Observe(absl::ToDoubleSeconds(FromProto(duration)), recoveries_[phase]);
  };
  observe("detect", cost.has_detect(), cost.detect());
  observe("halt", cost.has_halt(), cost.halt());
  observe("assign", cost.has_assign(), cost.assign());
  observe("connect", cost.has_connect(), cost.connect());
  observe("first_step", cost.has_first_step(), cost.first_step());
  observe("total", cost.has_total(), cost.total());
}

void IncidentTally::AddMetrics(MetricPage& page) const {
  MutexLock lock(mutex_);
  for (const auto& [reason, count] : faults_) {
    page.AddCounter("ringmaster_faults_total",
                    "Interruptions of runs that nobody wanted, by the first "
                    "evidence.",
                    static_cast<double>(count), {{"reason", reason}});
  }
  page.AddCounter("ringmaster_lost_steps_total",
                  "Committed steps that had to be made again.",
                  static_cast<double>(lost_steps_));
  for (const auto& [phase, histogram] : recoveries_) {
    page.AddHistogram("ringmaster_recovery_duration_seconds",
                      "Time from a culprit's last sign of life to the next "
                      "committed step, by phase and in total.",
                      histogram, {{"phase", phase}});
  }
}

}  // namespace ringmaster::coordinator
