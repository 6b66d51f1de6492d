#include "server/coordinator/metrics/status_metrics.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/parameter_server/job_staleness.h"
#include "common/parameter_server/staleness.h"
#include "common/protocol/enum_name.h"
#include "common/protocol/proto_time.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/status_service.pb.h"
#include "ringmaster/v1/worker.pb.h"

namespace ringmaster::coordinator {
namespace {

double Seconds(const google::protobuf::Duration& duration) {
  return absl::ToDoubleSeconds(FromProto(duration));
}

// The states of an enumeration, without "not set".
template <typename Enum>
std::vector<Enum> StatesOf() {
  std::vector<Enum> states;
  const google::protobuf::EnumDescriptor& type =
      *google::protobuf::GetEnumDescriptor<Enum>();
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0)
      states.push_back(static_cast<Enum>(type.value(i)->number()));
  }
  return states;
}

void AddPool(const v1::Status& status, MetricPage& page) {
  std::map<std::pair<v1::Role, v1::WorkerState>, int> counts;
  for (const v1::Worker& worker : status.workers())
    ++counts[{worker.role(), worker.state()}];
  for (const v1::Role role : StatesOf<v1::Role>()) {
    for (const v1::WorkerState state : StatesOf<v1::WorkerState>()) {
      page.AddGauge("ringmaster_workers",
                    "Processes in the pool, by what they do and their state.",
                    counts[{role, state}],
                    {{"role", EnumName(role)}, {"state", EnumName(state)}});
    }
  }
  for (const v1::Worker& worker : status.workers()) {
    page.AddGauge("ringmaster_heartbeat_age_seconds",
                  "Time since the last beat of a worker.",
                  Seconds(worker.last_beat_age()), {{"worker", worker.name()}});
    if (!worker.has_certificate_expire_time()) continue;
    page.AddGauge(
        "ringmaster_member_certificate_expiry_timestamp_seconds",
        "When the certificate of a worker or parameter server "
        "expires, if that is soon, in seconds since the epoch.",
        static_cast<double>(worker.certificate_expire_time().seconds()),
        {{"worker", worker.name()}});
  }
  page.AddGauge(
      "ringmaster_quarantined_hosts",
      "Hosts whose workers no job takes for a while.",
      std::count_if(
          status.quarantines().begin(), status.quarantines().end(),
          [](const v1::Quarantine& host) { return host.job_id().empty(); }));
  page.AddGauge("ringmaster_cordoned_workers",
                "Workers that no job takes until an operator gives them back.",
                std::count_if(status.workers().begin(), status.workers().end(),
                              [](const v1::Worker& worker) {
                                return worker.has_cordon();
                              }));
}

// Members without parameter servers.
int TrainingMembers(const v1::Job& job) {
  return static_cast<int>(std::count_if(
      job.members().begin(), job.members().end(), [](const v1::Member& member) {
        return member.role() != v1::ROLE_PARAMETER_SERVER;
      }));
}

// Returns how many workers a job would use: its `max`, even where it has fewer.
// Its `min` would never let a pool grow to what the job asks for, and a sum that
// followed the members would move with each fault. A job that is stopped or
// suspended takes no more, and counts those that it still has.
int WorkersWanted(const v1::Job& job) {
  if (job.has_end_time()) return 0;
  if (job.suspended() || job.state() == v1::JOB_STATE_STOPPING) {
    return TrainingMembers(job);
  }
  return job.spec().workers().max();
}

void AddJobCounts(const v1::Status& status, MetricPage& page) {
  std::map<v1::JobState, int> counts;
  int workers_wanted = 0;
  for (const v1::Job& job : status.jobs()) {
    ++counts[job.state()];
    workers_wanted += WorkersWanted(job);
  }
  for (const v1::JobState state : StatesOf<v1::JobState>()) {
    page.AddGauge("ringmaster_jobs",
                  "Jobs by state; of those that ended, the last 20.",
                  counts[state], {{"state", EnumName(state)}});
  }
  page.AddGauge("ringmaster_workers_wanted",
                "Workers that the jobs that run or wait would use.",
                workers_wanted);
}

void AddQueues(const v1::Status& status, MetricPage& page) {
  for (const v1::Queue& queue : status.queues()) {
    const MetricLabels name = {{"queue", queue.spec().name()}};
    page.AddGauge("ringmaster_queue_quota_workers",
                  "Workers that the jobs of a queue get when they want them.",
                  queue.spec().workers(), name);
    page.AddGauge("ringmaster_queue_workers",
                  "Workers that the jobs of a queue have.", queue.workers(),
                  name);
    page.AddGauge("ringmaster_queue_borrowed_workers",
                  "Workers that its jobs need beyond the queue's quota.",
                  queue.borrowed_workers(), name);
    page.AddGauge("ringmaster_queue_used_worker_seconds",
                  "What its jobs have used; it decays.",
                  queue.used_worker_seconds(), name);
    for (const auto& [state, count] :
         {std::pair("active", queue.active_jobs()),
          std::pair("queued", queue.queued_jobs())}) {
      page.AddGauge("ringmaster_queue_jobs",
                    "Jobs of a queue that have workers or gather them, and "
                    "that wait.",
                    count, {name.front(), {"state", state}});
    }
  }
}

// "all_reduce", "parameter_server", "bench" or "external".
std::string_view ModeOf(const v1::JobSpec& spec) {
  if (spec.has_external()) return "external";
  if (spec.has_bench()) return "bench";
  return spec.train().has_parameter_server() ? "parameter_server"
                                             : "all_reduce";
}

void AddRun(const v1::Job& job, const MetricLabels& run, MetricPage& page) {
  page.AddGauge("ringmaster_run_info", "A run; always 1.", 1,
                {run.front(),
                 {"name", job.spec().name()},
                 {"mode", std::string(ModeOf(job.spec()))}});
  for (const v1::JobState state : StatesOf<v1::JobState>()) {
    page.AddGauge("ringmaster_run_state",
                  "1 for the state that a run is in, 0 for the others.",
                  job.state() == state ? 1 : 0,
                  {run.front(), {"state", EnumName(state)}});
  }
  page.AddGauge("ringmaster_world_size", "Ranks that train in a run.",
                TrainingMembers(job), run);
  page.AddGauge("ringmaster_world_size_min",
                "Fewest ranks that a run goes on with.",
                job.spec().workers().min(), run);
  page.AddGauge("ringmaster_world_size_max", "Most ranks that a run takes.",
                job.spec().workers().max(), run);
  page.AddGauge("ringmaster_generation",
                "Generation of a run's membership; rises with each change.",
                static_cast<double>(job.generation()), run);
}

void AddTraining(const v1::Job& job, const MetricLabels& run,
                 MetricPage& page) {
  const v1::TrainingFigures& figures = job.figures();
  page.AddGauge("ringmaster_step", "Last step that was committed.",
                static_cast<double>(figures.step()), run);
  page.AddGauge("ringmaster_steps_planned", "Steps of a run in all.",
                static_cast<double>(figures.total_steps()), run);
  page.AddGauge("ringmaster_checkpoint_step",
                "Step of the latest complete checkpoint; 0: none.",
                static_cast<double>(figures.checkpoint_step()), run);
  // Without a step, there is nothing to report.
  if (figures.step() == 0) return;
  page.AddGauge("ringmaster_loss", "Mean loss over the last step's batch.",
                figures.loss(), run);
  page.AddGauge("ringmaster_gradient_norm", "Norm of the last step's gradient.",
                figures.gradient_norm(), run);
  page.AddGauge("ringmaster_learning_rate", "Step size of the optimizer.",
                figures.learning_rate(), run);
  page.AddGauge("ringmaster_samples_per_second",
                "Samples of the global batch a second, over a recent window.",
                figures.samples_per_second(), run);
  page.AddGauge("ringmaster_step_duration_seconds",
                "Time of a step, over a recent window.",
                Seconds(figures.step_duration()), run);
  page.AddGauge("ringmaster_communication_wait_ratio",
                "Share of a step spent waiting for communication.",
                figures.communication_wait_ratio(), run);
  page.AddGauge("ringmaster_data_wait_ratio",
                "Share of a step spent waiting for data.",
                figures.data_wait_ratio(), run);
  page.AddGauge("ringmaster_model_flops_utilization_ratio",
                "Share of the processor's peak that the model's arithmetic "
                "reaches; 0: not known.",
                figures.model_flops_utilization(), run);
  page.AddGauge("ringmaster_remaining_seconds",
                "Time that the remaining steps take at the present pace.",
                Seconds(figures.remaining_duration()), run);
  if (figures.has_evaluation_loss()) {
    page.AddGauge("ringmaster_evaluation_loss",
                  "Mean loss on the held-out part.", figures.evaluation_loss(),
                  run);
  }
  if (figures.has_evaluation_accuracy()) {
    page.AddGauge("ringmaster_evaluation_accuracy_ratio",
                  "Share of held-out targets that were predicted right.",
                  figures.evaluation_accuracy(), run);
  }
  if (figures.has_evaluation_top5_accuracy()) {
    page.AddGauge("ringmaster_evaluation_top5_accuracy_ratio",
                  "Share of held-out samples whose class was among the five "
                  "most probable ones.",
                  figures.evaluation_top5_accuracy(), run);
  }
  if (figures.has_evaluation_macro_f1()) {
    page.AddGauge("ringmaster_evaluation_macro_f1_ratio",
                  "Mean F1 score of the classes on the held-out part.",
                  figures.evaluation_macro_f1(), run);
  }
}

void AddGoodput(const v1::Job& job, const MetricLabels& run, MetricPage& page) {
  const v1::Goodput& goodput = job.goodput();
  const std::array<std::pair<const char*, const google::protobuf::Duration*>, 7>
      categories = {{{"waiting", &goodput.waiting()},
                     {"starting", &goodput.starting()},
                     {"training", &goodput.training()},
                     {"detecting", &goodput.detecting()},
                     {"recovering", &goodput.recovering()},
                     {"repeating", &goodput.repeating()},
                     {"stopping", &goodput.stopping()}}};
  for (const auto& [category, time] : categories) {
    // A gauge: what was training so far becomes detecting with the verdict.
    page.AddGauge("ringmaster_run_time_seconds",
                  "Where a run's time went since it was submitted.",
                  Seconds(*time), {run.front(), {"category", category}});
  }
  page.AddGauge("ringmaster_goodput_ratio",
                "Share of the time since the first step spent training.",
                goodput.ratio(), run);
  page.AddCounter("ringmaster_interruptions_total",
                  "Interruptions of a run, wanted ones included.",
                  goodput.incidents(), run);
}

void AddMembers(const v1::Job& job, const MetricLabels& run, MetricPage& page) {
  for (const v1::Member& member : job.members()) {
    const MetricLabels labels = {run.front(),
                                 {"rank", absl::StrCat(member.rank())},
                                 {"worker", member.worker()}};
    page.AddGauge("ringmaster_member_step",
                  "The step that a member last reported.",
                  static_cast<double>(member.step()), labels);
    page.AddGauge("ringmaster_member_resident_peak_bytes",
                  "Most memory that a member's process had resident in this "
                  "generation.",
                  static_cast<double>(member.figures().peak_resident_bytes()),
                  labels);
    page.AddCounter("ringmaster_member_sent_bytes_total",
                    "Payload that a member sent since its generation began.",
                    static_cast<double>(member.figures().sent_bytes()), labels);
    page.AddCounter(
        "ringmaster_member_received_bytes_total",
        "Payload that a member received since its generation began.",
        static_cast<double>(member.figures().received_bytes()), labels);
  }
  if (!job.has_straggler()) return;
  page.AddGauge("ringmaster_straggler_wait_ratio",
                "Share of the time that the others wait for a member.",
                job.straggler().wait_ratio(),
                {run.front(),
                 {"rank", absl::StrCat(job.straggler().member().rank())},
                 {"worker", job.straggler().member().worker()}});
}

// Answers by how many steps ahead of the slowest the worker was; one histogram
// of all servers.
void AddStaleness(const v1::Job& job, const MetricLabels& run,
                  MetricPage& page) {
  const std::vector<int64_t> counts = StalenessOf(job);
  if (counts.empty()) return;
  prometheus::ClientMetric::Histogram histogram;
  for (size_t steps = 0; steps < counts.size(); ++steps) {
    histogram.sample_count += static_cast<uint64_t>(counts[steps]);
    histogram.sample_sum +=
        static_cast<double>(steps) * static_cast<double>(counts[steps]);
    if (steps + 1 < kStalenessBins) {
      histogram.bucket.push_back(
          {histogram.sample_count, static_cast<double>(steps)});
    }
  }
  page.AddHistogram("ringmaster_staleness_steps",
                    "Answers of parameter servers by how many steps ahead of "
                    "the slowest the worker was.",
                    histogram, run);
}

}  // namespace

void AddStatusMetrics(const v1::Status& status, MetricPage& page) {
  page.AddGauge("ringmaster_coordinator_journal_ok",
                "0 while decisions cannot be made durable.",
                status.coordinator().journal_error().empty() ? 1 : 0);
  AddPool(status, page);
  AddJobCounts(status, page);
  AddQueues(status, page);
  const absl::Time now = FromProto(status.time());
  for (const v1::Job& job : status.jobs()) {
    if (job.has_end_time() && now - FromProto(job.end_time()) > kEndedRunShown)
      continue;
    const MetricLabels run = {{"run", job.id()}};
    AddRun(job, run, page);
    AddGoodput(job, run, page);
    if (!job.spec().has_train()) continue;
    AddTraining(job, run, page);
    AddMembers(job, run, page);
    AddStaleness(job, run, page);
  }
}

}  // namespace ringmaster::coordinator
