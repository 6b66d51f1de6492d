#include "server/coordinator/page/history.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/util/time_util.h"

namespace ringmaster::coordinator {
namespace {

using google::protobuf::util::TimeUtil;

void AppendCurve(const char* name, const Curve& curve, std::string& json) {
  absl::StrAppend(&json, "\"", name, "\":[");
  const char* separator = "";
  for (const CurvePoint& point : curve.Points()) {
    // Six digits: as many as a chart can show.
    absl::StrAppendFormat(&json, "%s[%d,%d,%.6g]", separator, point.time_ms,
                          point.step, point.value);
    separator = ",";
  }
  json += "]";
}

}  // namespace

void History::Take(const v1::Status& status) {
  const int64_t time_ms = TimeUtil::TimestampToMilliseconds(status.time());
  std::set<std::string_view> shown;
  for (const v1::Job& job : status.jobs()) {
    shown.insert(job.id());
    if (job.figures().step() > 0) Add(job, time_ms);
  }
  std::erase_if(
      jobs_, [&](const auto& entry) { return !shown.contains(entry.first); });
  while (jobs_.size() > kMaxJobs) ForgetQuietest();
}

void History::Add(const v1::Job& job, int64_t time_ms) {
  const v1::TrainingFigures& figures = job.figures();
  JobCurves& curves = jobs_[job.id()];
  if (figures.has_evaluation_loss() &&
      figures.evaluation_step() != curves.evaluation_step) {
    curves.evaluation_step = figures.evaluation_step();
    curves.evaluation_loss.Add(
        {time_ms, figures.evaluation_step(), figures.evaluation_loss()});
    ++revision_;
  }
  if (figures.step() == curves.step) return;
  ++revision_;
  curves.step = figures.step();
  curves.time_ms = time_ms;
  curves.loss.Add({time_ms, curves.step, figures.loss()});
  curves.samples_per_second.Add(
      {time_ms, curves.step, figures.samples_per_second()});
  curves.exposed_ratio.Add(
      {time_ms, curves.step, figures.communication_wait_ratio()});
}

void History::ForgetQuietest() {
  jobs_.erase(std::min_element(jobs_.begin(), jobs_.end(),
                               [](const auto& a, const auto& b) {
                                 return a.second.time_ms < b.second.time_ms;
                               }));
}

const JobCurves* History::Find(std::string_view job_id) const {
  const auto it = jobs_.find(job_id);
  return it == jobs_.end() ? nullptr : &it->second;
}

v1::PageHistory History::ToProto() const {
  v1::PageHistory to;
  for (const auto& [id, curves] : jobs_) {
    v1::JobCurves& job = *to.add_jobs();
    job.set_job_id(id);
    *job.mutable_loss() = curves.loss.ToProto();
    *job.mutable_evaluation_loss() = curves.evaluation_loss.ToProto();
    *job.mutable_samples_per_second() = curves.samples_per_second.ToProto();
    *job.mutable_exposed_ratio() = curves.exposed_ratio.ToProto();
    job.set_step(curves.step);
    job.set_evaluation_step(curves.evaluation_step);
    job.set_time_ms(curves.time_ms);
  }
  return to;
}

History::History(const v1::PageHistory& from) {
  for (const v1::JobCurves& job : from.jobs()) {
    jobs_[job.job_id()] = {
        .loss = Curve::FromProto(job.loss()),
        .evaluation_loss = Curve::FromProto(job.evaluation_loss()),
        .samples_per_second = Curve::FromProto(job.samples_per_second()),
        .exposed_ratio = Curve::FromProto(job.exposed_ratio()),
        .step = job.step(),
        .evaluation_step = job.evaluation_step(),
        .time_ms = job.time_ms(),
    };
  }
  while (jobs_.size() > kMaxJobs) ForgetQuietest();
}

std::string CurvesJson(const JobCurves* curves) {
  static const JobCurves* const kNone = new JobCurves;
  if (curves == nullptr) curves = kNone;
  std::string json = "{";
  AppendCurve("loss", curves->loss, json);
  json += ",";
  AppendCurve("evaluation_loss", curves->evaluation_loss, json);
  json += ",";
  AppendCurve("samples_per_second", curves->samples_per_second, json);
  json += ",";
  AppendCurve("exposed_ratio", curves->exposed_ratio, json);
  return json + "}";
}

}  // namespace ringmaster::coordinator
