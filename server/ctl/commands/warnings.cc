#include "server/ctl/commands/warnings.h"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ringmaster/v1/event.pb.h"

namespace ringmaster::ctl {
namespace {

// Incidents are warnings too, but the display has told of them.
bool IsBesideTheJob(const v1::Event& event) {
  static const auto& types = *new std::set<std::string>{
      "checkpoint.failed", "figures.failed", "data.skipped"};
  return event.severity() == v1::EVENT_SEVERITY_WARNING &&
         types.contains(event.type());
}

}  // namespace

void NoteWarnings(Client& client, const std::string& job, JobDisplay& display) {
  struct Warnings {
    int count = 0;
    v1::Event last;
  };
  std::map<std::string, Warnings> by_type;
  int64_t after = 0;
  while (true) {
    const absl::StatusOr<std::vector<v1::Event>> page =
        client.ListEvents(job, after);
    if (!page.ok() || page->empty() || page->back().sequence() <= after) break;
    after = page->back().sequence();
    for (const v1::Event& event : *page) {
      if (!IsBesideTheJob(event)) continue;
      Warnings& warnings = by_type[event.type()];
      ++warnings.count;
      warnings.last = event;
    }
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
                              warnings.last.message()));
  }
}

}  // namespace ringmaster::ctl
