// All that is known about one job or one worker, on a page.
//
// Pure: `now` is a parameter. Lines have no newlines.
#ifndef RINGMASTER_SERVER_CTL_RENDER_DESCRIBE_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_DESCRIBE_VIEW_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ringmaster/v1/event.pb.h"
#include "ringmaster/v1/job.pb.h"
#include "ringmaster/v1/job_service.pb.h"
#include "ringmaster/v1/status_service.pb.h"
#include "ringmaster/v1/worker.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// Most events that a description shows: the newest.
inline constexpr int kDescribedEvents = 20;

struct JobDescription {
  v1::Job job;
  v1::ExplainJobResponse explanation;
  std::vector<v1::Worker> workers;          // its members, as the pool has them
  std::vector<v1::Quarantine> quarantines;  // that keep workers from it
  std::vector<v1::Event> events;            // the newest, oldest first
};

// An interruption, and the job it interrupted.
struct JobIncident {
  std::string job_id;
  v1::Incident incident;
};

struct WorkerDescription {
  std::string name;
  std::optional<v1::Worker> worker;  // absent: it is gone
  // Its job, and its part in it, if it has one.
  std::optional<v1::Job> job;
  std::optional<v1::Member> member;
  std::vector<JobIncident> incidents;       // that it was blamed for
  std::vector<v1::Quarantine> quarantines;  // of its host
  std::vector<v1::Event> events;            // the newest, oldest first
};

// What `status` says of `job`; `events` are the job's.
[[nodiscard]] JobDescription DescribeJob(
    const v1::Job& job, const v1::ExplainJobResponse& explanation,
    const v1::Status& status,
    const google::protobuf::RepeatedPtrField<v1::Event>& events);

// What `status` says of the worker `name`; `events` are all that there are.
[[nodiscard]] WorkerDescription DescribeWorker(
    const std::string& name, const v1::Status& status,
    const google::protobuf::RepeatedPtrField<v1::Event>& events);

[[nodiscard]] std::vector<std::string> DescriptionLines(
    const JobDescription& description, absl::Time now, const Style& style);
[[nodiscard]] std::vector<std::string> DescriptionLines(
    const WorkerDescription& description, absl::Time now, const Style& style);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_DESCRIBE_VIEW_H_
