#include "server/ctl/commands/warnings.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ringmaster/v1/event.pb.h"
#include "server/coordinator/rpc/job_sharding.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

// Incidents are warnings too, but the display has shown them.
bool IsBesideTheJob(const v1::Event& event) {
  static const auto& types = *new std::set<std::string>{
      "checkpoint.failed", "figures.failed", "data.skipped"};
  return event.severity() == v1::EVENT_SEVERITY_WARNING &&
         types.contains(event.type());
}

}  // namespace

void WarnOf(const v1::JobSpec& spec, Console& console) {
  const std::string warning = coordinator::WarningOf(spec);
  if (warning.empty()) return;
  console.WriteError(absl::StrCat("warning: ", warning, "\n"));
}

std::string WarningOfCores(int workers, int threads, int cores) {
  if (workers * threads <= cores) return "";
  const auto count = [](int n, const char* what) {
    return absl::StrCat(n, " ", what, n == 1 ? "" : "s");
  };
  const int fitting = cores / threads;
  return absl::StrCat(count(workers, "worker"), " of ",
                      count(threads, "thread"), " on ", count(cores, "core"),
                      ": threads take turns, so a step is no faster than with ",
                      fitting > 0 ? count(fitting, "worker")
                                  : absl::StrCat("--threads=", cores));
}

void NoteWarnings(Client& client, const std::string& job, JobDisplay& display) {
  struct Warnings {
    int count = 0;
    v1::Event last;
  };
  std::map<std::string, Warnings> by_type;
  const absl::StatusOr<v1::ListEventsResponse> events = client.AllEvents(job);
  if (!events.ok()) return;
  for (const v1::Event& event : events->events()) {
    if (!IsBesideTheJob(event)) continue;
    Warnings& warnings = by_type[event.type()];
    ++warnings.count;
    warnings.last = event;
  }
  for (const auto& [type, warnings] : by_type) {
    const std::string step =
        warnings.last.step() > 0
            ? absl::StrCat(" after step ", warnings.last.step())
            : "";
    const std::string more =
        warnings.count > 1 ? absl::StrCat(" (the last of ", warnings.count, ")")
                           : "";
    display.Note(absl::StrCat("warning: ", type, step, more, ": ",
                              Printable(warnings.last.message())));
  }
}

}  // namespace ringmaster::ctl
