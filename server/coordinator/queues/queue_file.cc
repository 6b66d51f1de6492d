#include "server/coordinator/queues/queue_file.h"

#include <set>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/access/access_file.h"
#include "common/config/yaml_to_proto.h"
#include "common/job/job_spec.h"
#include "common/protocol/proto_time.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"

namespace ringmaster::coordinator {
namespace {

constexpr int kMaxQueues = 1000;
constexpr int kMaxSubmitters = 1000;
constexpr int kMaxWorkers = 1'000'000;
constexpr double kMaxWeight = 1000;
constexpr absl::Duration kMinHalfLife = absl::Minutes(1);
constexpr absl::Duration kMaxHalfLife = absl::Hours(24 * 366);

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::string_view(what.data(), what.size()));
}

absl::Status CheckRange(const char* field, int value, int least) {
  if (value >= least && value <= kMaxWorkers) return absl::OkStatus();
  return Wrong(absl::StrCat(field, " must be ", least, " to ", kMaxWorkers,
                            ", got ", value));
}

absl::Status CheckQueue(const v1::QueueSpec& queue) {
  RETURN_IF_ERROR(CheckName("name", queue.name()));
  RETURN_IF_ERROR(CheckRange("workers", queue.workers(), 0));
  if (queue.has_most_workers()) {
    RETURN_IF_ERROR(CheckRange("most_workers", queue.most_workers(), 0));
    if (queue.most_workers() < queue.workers()) {
      return Wrong(absl::StrCat("most_workers is ", queue.most_workers(),
                                ", below its workers, ", queue.workers()));
    }
  }
  if (queue.has_gpus()) {
    RETURN_IF_ERROR(CheckRange("gpus", queue.gpus(), 0));
    if (queue.gpus() > queue.workers()) {
      return Wrong(absl::StrCat("gpus is ", queue.gpus(),
                                ", above its workers, ", queue.workers()));
    }
  }
  if (queue.has_weight() &&
      !(queue.weight() > 0 && queue.weight() <= kMaxWeight)) {
    return Wrong(absl::StrCat("weight must be above 0 and at most ", kMaxWeight,
                              ", got ", queue.weight()));
  }
  if (queue.has_jobs_per_submitter()) {
    RETURN_IF_ERROR(
        CheckRange("jobs_per_submitter", queue.jobs_per_submitter(), 1));
  }
  if (queue.submitters_size() > kMaxSubmitters) {
    return Wrong(absl::StrCat("submitters has ", queue.submitters_size(),
                              " entries, and may have ", kMaxSubmitters));
  }
  for (const std::string& name : queue.submitters()) {
    if (!IsCallerName(name)) {
      return Wrong(absl::StrCat("submitters: ", Quoted(name),
                                " cannot be the name of anybody"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::QueueFile> Read(const std::string& path) {
  v1::QueueFile file;
  RETURN_IF_ERROR(YamlFileToProto(path, file));
  RETURN_IF_ERROR(Annotate(CheckQueues(file), path));
  return file;
}

}  // namespace

absl::Status CheckQueues(const v1::QueueFile& file) {
  if (file.queues_size() > kMaxQueues) {
    return Wrong(absl::StrCat("there are ", file.queues_size(),
                              " queues, and may be ", kMaxQueues));
  }
  std::set<std::string_view> names;
  for (int i = 0; i < file.queues_size(); ++i) {
    const v1::QueueSpec& queue = file.queues(i);
    const std::string place = absl::StrCat(
        "queues[", i, "]",
        queue.name().empty() ? ""
                             : absl::StrCat(" (", Quoted(queue.name()), ")"));
    RETURN_IF_ERROR(Annotate(CheckQueue(queue), place));
    if (!names.insert(queue.name()).second) {
      return Annotate(Wrong("it is here twice"), place);
    }
  }
  if (!file.has_half_life()) return absl::OkStatus();
  const absl::Duration half_life = FromProto(file.half_life());
  if (half_life >= kMinHalfLife && half_life <= kMaxHalfLife) {
    return absl::OkStatus();
  }
  return Wrong(absl::StrCat("half_life must be ",
                            absl::FormatDuration(kMinHalfLife), " to ",
                            absl::FormatDuration(kMaxHalfLife), ", got ",
                            absl::FormatDuration(half_life)));
}

absl::Status QueueFileWatch::Poll() {
  if (path_.empty() || !changes_.Look()) return absl::OkStatus();
  absl::StatusOr<v1::QueueFile> file = Read(path_);
  if (!file.ok()) {
    return changes_.Refuse() > 1 ? absl::OkStatus() : file.status();
  }
  changes_.Accept();
  file_ = *std::move(file);
  return absl::OkStatus();
}

}  // namespace ringmaster::coordinator
