#include "server/ctl/render/queue_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/ctl/render/table.h"

namespace ringmaster::ctl {
namespace {

std::string SubmittersCell(const v1::QueueSpec& spec) {
  return spec.submitters().empty() ? "all"
                                   : absl::StrJoin(spec.submitters(), ", ");
}

// "12%": the part of what all queues have used; "-" if that is nothing.
std::string ShareCell(double used, double all) {
  return all > 0 ? absl::StrFormat("%.0f%%", 100 * used / all) : "-";
}

}  // namespace

std::vector<std::string> QueueTable(const v1::Status& status,
                                    const Style& style) {
  if (status.queues().empty()) {
    return {
        "no queues are defined, so all jobs share the pool; ringctl queues "
        "--apply FILE, or the coordinator's --queues_file, defines some"};
  }
  double used = 0;
  for (const v1::Queue& queue : status.queues()) {
    used += queue.used_worker_seconds();
  }
  TextTable table({{"QUEUE"},
                   {"QUOTA", Align::kRight},
                   {"MOST", Align::kRight},
                   {"WORKERS", Align::kRight},
                   {"GPUS", Align::kRight},
                   {"NEEDED", Align::kRight},
                   {"BORROWED", Align::kRight},
                   {"RUN", Align::kRight},
                   {"WAIT", Align::kRight},
                   {"WEIGHT", Align::kRight},
                   {"USED", Align::kRight},
                   {"SUBMITTERS"}});
  for (const v1::Queue& queue : status.queues()) {
    const v1::QueueSpec& spec = queue.spec();
    table.AddRow(
        {Printable(spec.name()), absl::StrCat(spec.workers()),
         spec.has_most_workers() ? absl::StrCat(spec.most_workers()) : "-",
         absl::StrCat(queue.workers()),
         spec.has_gpus() ? absl::StrCat(queue.gpus(), "/", spec.gpus())
                         : absl::StrCat(queue.gpus()),
         absl::StrCat(queue.needed_workers()),
         absl::StrCat(queue.borrowed_workers()),
         absl::StrCat(queue.active_jobs()), absl::StrCat(queue.queued_jobs()),
         absl::StrCat(spec.has_weight() ? spec.weight() : 1.0),
         ShareCell(queue.used_worker_seconds(), used),
         Printable(SubmittersCell(spec))});
  }
  return table.Lines(style);
}

}  // namespace ringmaster::ctl
